"""Writes docs/results/ablation.md and its figure from the files of `ablation.py`:

python benchmarks/quality/ablation_page.py
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from ablation import BR, DECIDED, FULL, LADDER, MLE, ONCE_MORE, TRAINED
from layout import METRICS, RESULTS, ROOT
from origins import decimal
from scipy import stats
from table import DIGITS, HEADINGS, lines_of_table, transposed

from orderfree.report.figure_style import BLACK, BLUE, GREEN, ORANGE, VERMILION, canvas, in_style, legend, save
from orderfree.system.files import write_text

PAGE = ROOT / "docs" / "results" / "ablation.md"
FIGURE = ROOT / "docs" / "results" / "figures" / "decoding-gain"
REACH = 2 * 1.96  # standard errors in an interval of 95 %
SHOWN = {"subset_accuracy": "subset accuracy", "example_f1": "example-F1"}
MARKS = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "D"), (ORANGE, "^"))
Seed = dict[str, Any]
INTRODUCTION = """# What each mechanism is worth

Each mechanism of `fast` is removed alone, on folds of the training part that neither training nor choices have seen; no
test part is read. `python benchmarks/quality/ablation.py` measures, `python benchmarks/quality/ablation_page.py` writes
this page. What was not run is not here.

Differences are **without the mechanism, less with it**, each metric with the decision that validation chose for it:
below zero, the mechanism pays. The interval holds 95 % of the draws of held-out examples; several folds are averaged as
independent ones, and where they differ by more than their draws explain, the interval is of the differences between
folds. Bold: zero is outside. Seconds are CPU time of one thread.
"""
PARTS = """## What each part is worth

Linear classifiers alone; with votes of neighbours; with the binary-relevance decoder trained on both; with a label
decoder beside it, trained by maximum likelihood (most frequent label first), or by optimal completion distillation
(`fast`). Every row may choose among all decoders and thresholds it has. Differences are from the row before; the last
row is compared with maximum likelihood and with the binary-relevance decoder.
"""


def load(results: Path) -> dict[str, list[Seed]]:
    """The seeds of each corpus."""
    found = {}
    for folder in sorted(path for path in results.iterdir() if path.is_dir()):
        found[folder.name] = [
            json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("seed*.json"))
        ]
    return found


def difference(seeds: list[Seed], row: str, other: str, metric: str) -> tuple[float, float, float] | None:
    """Mean over folds of row less other, and its interval; None where no fold has both."""
    tests = [seed["rows"][row]["less"][other][metric] for seed in seeds if other in _less(seed, row)]
    if not tests:
        return None
    values = np.array([test["difference"] for test in tests])
    variances = np.array([((test["interval"][1] - test["interval"][0]) / REACH) ** 2 for test in tests])
    error, times = math.sqrt(variances.mean() / len(tests)), 1.96
    if len(tests) > 1 and (spread := float(values.std(ddof=1)) / math.sqrt(len(tests))) > error:
        error, times = spread, float(stats.t.ppf(0.975, len(tests) - 1))
    mean = float(values.mean())
    return (mean, mean - times * error, mean + times * error) if len(tests) > 1 else (mean, *tests[0]["interval"])


def _less(seed: Seed, row: str) -> dict[str, Any]:
    less: dict[str, Any] = seed["rows"].get(row, {}).get("less", {})
    return less


def difference_cells(seeds: list[Seed], row: str, other: str) -> list[str]:
    cells = []
    for metric in METRICS:
        found = difference(seeds, row, other, metric)
        assert found is not None, f"{row} and {other} were measured"
        mean, low, high = (decimal(value, DIGITS.get(metric, 3), sign=True) for value in found)
        clear = found[1] > 0 or found[2] < 0
        cells.append(f"**{mean} ({low} … {high})**" if clear else f"{mean} ({low} … {high})")
    return cells


def score_cells(seeds: list[Seed], row: str) -> list[str]:
    rows = [seed["rows"][row]["scores"] for seed in seeds if row in seed["rows"]]
    return [decimal(float(np.mean([scores[metric] for scores in rows])), DIGITS.get(metric, 3)) for metric in METRICS]


def seconds_cells(seeds: list[Seed], row: str) -> list[str]:
    spent = [seed["rows"][row]["cpu_seconds"] for seed in seeds if row in seed["rows"]]
    return [f"{np.mean([one[kind] for one in spent]):.2g}" if row in TRAINED else "" for kind in ("fit", "predict")]


def mechanisms(seeds: list[Seed]) -> list[str]:
    rows = [[FULL, *score_cells(seeds, FULL), *seconds_cells(seeds, FULL)]]
    for row in (ONCE_MORE, *TRAINED, *DECIDED):
        if row not in LADDER and any(FULL in _less(seed, row) for seed in seeds):
            rows.append([f"– {row}", *difference_cells(seeds, row, FULL), *seconds_cells(seeds, row)])
    return lines_of_table(["without", *HEADINGS.values(), "fit s", "predict s"], transposed(rows))


def parts(seeds: list[Seed]) -> list[str]:
    present = [row for row in LADDER if any(row in seed["rows"] for seed in seeds)]
    rows = [[row, *score_cells(seeds, row), *seconds_cells(seeds, row)] for row in present]
    pairs = [(row, before) for before, row in pairwise(present)]
    pairs += [(FULL, BR)] if BR in present and MLE in present and FULL in present else []
    for row, before in pairs:
        if any(before in _less(seed, row) for seed in seeds):
            rows.append([f"{row}, less {before}", *difference_cells(seeds, row, before), "", ""])
    return lines_of_table(["", *HEADINGS.values(), "fit s", "predict s"], transposed(rows))


@in_style
def draw(found: dict[str, list[Seed]], stem: Path) -> bool:
    """The gain of the label decoder over the binary-relevance decoder against labels of an example, if there is one."""
    shown = {corpus: gain for corpus, seeds in found.items() if (gain := gains(seeds))}
    if not shown:
        return False
    figure, axes = canvas(2, "What the label decoder adds to binary relevance")
    for axis, (metric, heading) in zip(axes, SHOWN.items(), strict=True):
        for (corpus, gain), (colour, mark) in zip(shown.items(), MARKS, strict=False):
            axis.plot(list(gain), [one[metric] for one in gain.values()], marker=mark, color=colour, label=corpus)
        axis.axhline(0.0, color=BLACK, linewidth=0.8)
        axis.set(title=f"{heading}, less that of BR", xlabel="true labels (5: and more)", xticks=range(1, 6))
    legend(figure, axes[0])
    save(figure, stem)
    return True


def gains(seeds: list[Seed]) -> dict[int, dict[str, float]]:
    """Number of labels -> metric -> gain of FULL over BR, all folds together."""
    tables = [seed["rows"][FULL]["by_size"] for seed in seeds if "by_size" in seed["rows"].get(FULL, {})]
    found = {}
    for size in sorted({int(size) for table in tables for size in table}):
        rows = [table[str(size)] for table in tables if str(size) in table]
        weights = [row["examples"] for row in rows]
        found[size] = {metric: float(np.average([row[metric] for row in rows], weights=weights)) for metric in SHOWN}
    return found


def page(found: dict[str, list[Seed]], figure: bool) -> str:
    lines = [INTRODUCTION]
    for corpus, seeds in found.items():
        examples = " + ".join(f"{seed['examples']['held_out']:,}" for seed in seeds)
        lines += [f"## {corpus}", "", f"{_told(seeds)}, {examples} documents held out.", "", *mechanisms(seeds), ""]
    lines.append(PARTS)
    for corpus, seeds in found.items():
        labels = np.mean([seed["labels_per_example"] for seed in seeds])
        lines += [f"### {corpus}, parts", "", f"{labels:.2f} labels a document.", "", *parts(seeds), ""]
    if figure:
        lines += [
            "## Where the label decoder pays",
            "",
            "Subset accuracy and example-F1 of `fast`, less those of the binary-relevance decoder.",
            "",
            f"![Gain of the label decoder by number of labels](figures/{FIGURE.name}.svg)",
            "",
        ]
    return "\n".join(lines)


def _told(seeds: list[Seed]) -> str:
    names = ", ".join(str(seed["seed"]) for seed in seeds)
    commits = ", ".join(dict.fromkeys(seed["commit"][:8] for seed in seeds))
    train = " + ".join(f"{seed['examples']['train']:,}" for seed in seeds)
    return f"Seed{'s' * (len(seeds) > 1)} {names}, commit {commits}, trained on {train} documents"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS / "ablation")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    arguments = parser.parse_args()
    found = load(arguments.results)
    write_text(arguments.page, page(found, draw(found, arguments.figure)))
    print(arguments.page)


if __name__ == "__main__":
    main()
