"""The paper's figures, drawn from our results as SVG and PNG. A figure without data is None."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from ..errors import OrderfreeError
from ..report.figure_style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    canvas,
    columns,
    in_style,
    legend,
    save,
)
from .paper import DECODERS, METHODS, METRICS, PERFORMANCE, Row, counterpart
from .result_files import Result
from .tables import rank_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Look:
    colour: str
    marker: str
    dash: str


# a method has the same colour, dash and marker in all figures
LOOKS: dict[Row, Look] = {
    ("br", "br"): Look(GREY, "s", ":"),
    ("br++", "br"): Look(BLACK, "s", "-."),
    ("seq2seq", "beam"): Look(ORANGE, "^", "-"),
    ("seq2seq-ss", "beam"): Look(ORANGE, "v", "--"),
    ("order-free-rnn", "beam"): Look(SKY, "<", "-"),
    ("order-free-rnn-ss", "beam"): Look(SKY, ">", "--"),
    ("ocd-correct-prefix", "beam"): Look(PURPLE, "P", "-."),
    ("ocd", "beam"): Look(GREEN, "o", "-"),
    ("ocd-mtl", "beam"): Look(VERMILION, "d", "--"),
    ("ocd-mtl", "br"): Look(PURPLE, "X", ":"),
    ("ocd-mtl", "rescore"): Look(BLUE, "p", "-."),
    ("ocd-mtl", "joint"): Look(VERMILION, "D", "-"),
}
MOST_MARKERS = 12

COMPARED = tuple(row for row in LOOKS if row[0] != "ocd-mtl" or row[1] == "joint")
CURVES: tuple[Row, ...] = (("br", "br"), ("ocd", "beam"), *(("ocd-mtl", decoder) for decoder in DECODERS))


def write_figures(
    results: Sequence[Result], folder: Path, say: Callable[[str], None] = lambda _: None, variant: str | None = None
) -> list[Path]:
    """Writes `<corpus>-<figure>.svg` and `.png` for every figure with data; `say` is told of the others."""
    chosen = [result for result in results if variant in (None, result.variant)]
    corpora = sorted({result.corpus for result in chosen})
    drawings: dict[str, Callable[[], Figure | None]] = {}
    for corpus in corpora:
        for name, draw in (("positions", positions), ("frequency", frequency), ("curves", curves)):
            drawings[f"{corpus}-{name}"] = partial(draw, chosen, corpus)
        drawings[f"{corpus}-ranks"] = partial(ranks, chosen, [corpus])
    of_paper = [corpus for corpus in corpora if (counterpart(corpus)[0], "test") in PERFORMANCE]
    if len(of_paper) > 1:
        drawings["ranks"] = partial(ranks, chosen, of_paper)
    written: list[Path] = []
    for name, drawn in drawings.items():
        figure = drawn()
        if figure is None:
            say(f"{name}: left out, the results have no data for it.")
        else:
            written += save(figure, Path(folder) / name)
    return written


@in_style
def positions(results: Sequence[Result], corpus: str) -> Figure | None:
    """How often the label at each position of the generated sequence is right."""
    lines: dict[Row, list[tuple[float, float]]] = {}
    for row, group in _grouped(results, corpus, COMPARED).items():
        accuracies = [result.position_accuracy[row[1]] for result in group if row[1] in result.position_accuracy]
        longest = max(map(len, accuracies), default=0)
        # Only the seeds that generated sequences of this length count.
        lines[row] = [(p + 1, fmean(one[p] for one in accuracies if len(one) > p)) for p in range(longest)]
    if not any(lines.values()):
        return None
    figure, (axes,) = canvas(1, f"Position-wise accuracy, {corpus}")
    for row, points in lines.items():
        line(axes, row, points, _name(row))
    # The axis ends at the last position with a correct label.
    last = max((p for points in lines.values() for p, accuracy in points if accuracy > 0), default=1)
    axes.set(xlabel="position in the label sequence", ylabel="accuracy", xlim=(0.7, last + 1.3), ylim=(0, 1))
    axes.locator_params(axis="x", integer=True)
    legend(figure, axes)
    return figure


@in_style
def frequency(results: Sequence[Result], corpus: str) -> Figure | None:
    """Example-F1 against the frequency of the label set in training."""
    counts: dict[Row, dict[str, list[tuple[int, float]]]] = {}
    examples: dict[str, int] = {}
    for row, group in _grouped(results, corpus, COMPARED).items():
        counts[row] = defaultdict(list)
        for entry in (entry for result in group for entry in result.by_frequency.get(row[1], [])):
            examples[entry.times] = max(examples.get(entry.times, 0), entry.examples)
            if entry.example_f1 is not None:
                counts[row][entry.times].append((entry.examples, entry.example_f1))
    bins = [times for times in examples if examples[times]]
    if not bins:
        return None
    figure, (axes,) = canvas(1, f"Example-F1 by frequency of the label set, {corpus}")
    highest = 0.0
    for row, by_times in counts.items():
        pooled = [
            (index, sum(n * f1 for n, f1 in by_times[times]) / sum(n for n, _ in by_times[times]))
            for index, times in enumerate(bins)
            if by_times.get(times)
        ]
        line(axes, row, pooled, _name(row))
        highest = max([highest, *(f1 for _, f1 in pooled)])
    axes.set_xticks(range(len(bins)), [f"{times}\n(n = {examples[times]:,})" for times in bins])
    top = min(1.0, 1.1 * highest) or 1.0
    axes.set(xlabel="times the label set occurs in training (test examples)", ylabel="example-F1", ylim=(0, top))
    legend(figure, axes)
    return figure


@in_style
def ranks(results: Sequence[Result], corpora: Sequence[str]) -> Figure | None:
    """Average rank of each method in each metric; the dash on a bar is the rank in the paper's tables."""
    table = rank_table(results, corpora)
    rows = [row for row in table.rows if row.seeds]
    if len(rows) < 2:
        return None
    figure, (axes,) = canvas(1, f"Average rank over {', '.join(corpora)} (1 is best)", width=9.5)
    width = 0.84 / len(rows)
    for index, row in enumerate(rows):
        look = LOOKS[row.method, row.decoder]
        starts = [group + (index - (len(rows) - 1) / 2) * width for group in range(len(METRICS))]
        heights = [row.cells[metric].mean or 0.0 for metric in METRICS]
        hatch = "////" if look.dash == "--" else None  # scheduled sampling shares the colour of its method
        axes.bar(
            starts, heights, width * 0.9, color=look.colour, label=row.name, hatch=hatch, edgecolor="white", linewidth=0
        )
        printed = [(x, row.cells[metric].printed) for x, metric in zip(starts, METRICS, strict=True)]
        known = [(x, float(value)) for x, value in printed if value is not None]
        label = "paper" if index == len(rows) - 1 else None
        axes.plot(
            *columns(known),
            "_",
            color=BLACK,
            markeredgecolor=BLACK,
            markersize=9,
            markeredgewidth=2,
            label=label if known else None,
        )
    axes.set_xticks(range(len(METRICS)), [name if key != "average" else "all five" for key, name in METRICS.items()])
    axes.set(ylabel="average rank", ylim=(0, len(rows) + 0.3))
    axes.grid(axis="x", visible=False)
    legend(figure, axes)
    return figure


@in_style
def curves(results: Sequence[Result], corpus: str) -> Figure | None:
    """Validation scores during training; with several seeds the line is their mean and the band their range.

    The vertical axis starts at the lowest score after a quarter of training."""
    shown = {"micro_f1": "micro-F1", "subset_accuracy": "subset accuracy"}
    grouped = _grouped(results, corpus, CURVES)
    lines = {metric: {row: _curve(group, row[1], metric) for row, group in grouped.items()} for metric in shown}
    if not any(points for by_row in lines.values() for points in by_row.values()):
        return None
    figure, panels = canvas(2, f"Validation during training, {corpus}", width=10.5)
    for axes, (metric, by_row) in zip(panels, lines.items(), strict=True):
        for row, points in by_row.items():
            updates, means = [update for update, _ in points], [fmean(values) for _, values in points]
            line(axes, row, list(zip(updates, means, strict=True)), _name(row, with_decoder=True))
            if any(len(values) > 1 for _, values in points):
                low, high = [min(values) for _, values in points], [max(values) for _, values in points]
                axes.fill_between(updates, low, high, color=LOOKS[row].colour, alpha=0.15, linewidth=0)
        # The steep start, which is the same for all rows, would leave only a few pixels for the later differences.
        last = max((update for points in by_row.values() for update, _ in points), default=0)
        late = [min(values) for points in by_row.values() for update, values in points if update >= last / 4]
        axes.set(xlabel="updates", title=shown[metric], xlim=(0, None), ylim=(min(late) - 0.01 if late else None, None))
        axes.xaxis.set_major_formatter(lambda update, _: f"{update:,.0f}")
    legend(figure, panels[-1])
    return figure


def _curve(group: Sequence[Result], decoder: str, metric: str) -> list[tuple[int, list[float]]]:
    """The values at each update that every seed reached: a mean over fewer seeds would jump where a run ends."""
    by_update: dict[int, list[float]] = defaultdict(list)
    curves = [result.curve for result in group if any(decoder in point.validation for point in result.curve)]
    for point in (point for curve in curves for point in curve):
        if metric in point.validation.get(decoder, {}):
            by_update[point.update].append(point.validation[decoder][metric])
    return [(update, values) for update, values in sorted(by_update.items()) if len(values) == len(curves)]


def _grouped(results: Sequence[Result], corpus: str, rows: Sequence[Row]) -> dict[Row, list[Result]]:
    grouped: dict[Row, list[Result]] = {}
    for row in rows:
        group = [result for result in results if (result.corpus, result.method) == (corpus, row[0])]
        variants = sorted({result.variant for result in group})
        if len(variants) > 1:
            raise OrderfreeError(f"{row[0]} on {corpus} was run as {', '.join(variants)}: choose one variant to draw.")
        if group:
            grouped[row] = group
    return grouped


def _name(row: Row, with_decoder: bool = False) -> str:
    method, decoder = row
    name = METHODS.get(method, method)
    return f"{name}, {DECODERS[decoder]}" if with_decoder and method == "ocd-mtl" else name


def line(axes: Axes, row: Row, points: Sequence[tuple[float, float]], label: str) -> None:
    if points:
        look = LOOKS[row]
        every = max(1, len(points) // MOST_MARKERS)
        axes.plot(*columns(points), color=look.colour, marker=look.marker, ls=look.dash, label=label, markevery=every)
