"""docs/results/promises.md and its figure, from the stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from measure import LEVELS

from orderfree.report.figure_style import BLACK, BLUE, GREEN, GREY, VERMILION, canvas, in_style, legend, save
from orderfree.system.files import write_text

LOOKS = {"toy": (BLACK, "o"), "reuters": (BLUE, "s"), "rcv1-subset": (GREEN, "D"), "aapd": (VERMILION, "^")}
PANELS = (("recall", None), ("recall", 0.95), ("precision", 0.95), ("candidates", None), ("candidates", 0.95))
KEPT = {True: "yes", False: "**no**", None: "refused"}
SPREAD = ("mean", "median", "nine tenths", "test halves")
MADE = "Made by `python benchmarks/promises/run.py` from `benchmarks/results/promises.json`; do not edit."

INTRODUCTION = """\
The preset `fast` is trained on each corpus: {trained}. Documents it has not learned from are split at random
{splits} times: a promise is made on {calibration:,} of them and its outcome measured on the others. [The
method](../explain/promises.md) says what is promised, and [the commands](../how_to/promises.md) how to.

![Promised and achieved](figures/promises.svg)

Each point is the median split; nine tenths of the splits lie on its line. Dashed: what was promised."""

JUDGED = """\
## How "kept" is judged

**On average** (no `--confidence`): the mean over splits reaches the level, up to two standard errors of that mean.
About half of the splits lie below it; nothing else is promised.

**With confidence 0.95**: the risk over *all* new examples is bounded, for 95 of 100 calibration files. A test half
is only a sample of the new examples. Where the true coverage is barely above .9, half of such samples show less
than .9, although the promise is kept. So the share of test halves that reach the level may be below 95 % without
any fault. For lists of sets it is known exactly: if no two scores are equal, the number of test examples inside the
list has a beta-binomial distribution, and the column "exact" is what it gives; equal scores only raise it. The
promise itself is judged where its risk is known: calibration examples are drawn with replacement from the held-out
ones, so that these are the whole population and every threshold has one true risk. "Population" is the share of
{splits} such draws whose true risk keeps the promise (a refused promise is not broken). A share of 95 % itself is
uncertain by ±3 points over {splits} draws: "kept" is denied where accident explains as many broken promises with a
probability below .01."""


def write_page(results: dict[str, Any], path: Path) -> None:
    draw(results, path.parent / "figures" / "promises")
    write_text(path, page(results))


def page(results: dict[str, Any]) -> str:
    corpora = {name: found for name, found in results["corpora"].items() if "promises" in found}
    sizes = {"splits": results["splits"], "calibration": results["calibration"]}
    each = [f"`{name}` {_training(found)}" for name, found in results["corpora"].items()]
    lines = [
        "# Promises against what is achieved",
        "",
        _answer(corpora),
        "",
        INTRODUCTION.format(trained=", ".join(each), **sizes),
        "",
        MADE,
        "",
    ]
    lines += [JUDGED.format(**sizes), "", "## Recall and precision", "", *_labels_table(corpora), ""]
    lines += ["## Lists of sets", "", *_lists_table(corpora), ""]
    lines += ["## Answering only what is sure", "", *_abstention_table(corpora), ""]
    lines += ["## Are the probabilities right?", "", *_calibration_table(corpora), ""]
    lines += ["## Data that have changed", "", *_shift_table(results["corpora"]), ""]
    return "\n".join(lines)


def _training(found: dict[str, Any]) -> str:
    return f"on {found['trained_on']:,} documents" + ("" if found["full"] else " for a few epochs")


def _answer(corpora: dict[str, Any]) -> str:
    rows = [row for found in corpora.values() for row in found["promises"]]
    made = [row for row in rows if row["kept"] is not None]
    kept = sum(row["kept"] for row in made)
    missing = [name for name in LOOKS if name not in corpora]
    recalls = [row for row in made if row["kind"] == "recall"]
    chosen = [row for row in recalls if row["at_least"] < row["level"]]
    furthest = max(row["median"] - row["level"] for row in chosen)
    return (
        f"Of {len(made)} promises on {', '.join(corpora)} {kept} are kept; {len(rows) - len(made)} were refused in "
        f"every split. Recall on the median split is at most {furthest:.3f} above what was promised"
        + _of_one_label(recalls, chosen)
        + "."
        + (f" Not measured yet: {', '.join(missing)}." if missing else "")
    )


def _of_one_label(recalls: list[dict[str, Any]], chosen: list[dict[str, Any]]) -> str:
    others = [row for row in recalls if row not in chosen]
    if not others:
        return ""
    found = ", ".join(dict.fromkeys(f"{row['at_least']:.3f} for {row['level']:g}" for row in others))
    return f"; {len(others)} promised recalls are exceeded by the one label that every example gets ({found})"


def _header(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", f"| --- | --- |{' ---: |' * (len(names) - 2)}"]


def _sure(row: dict[str, Any]) -> str:
    return f"{row['kind']} {row['level']:g}" + (" on average" if row["confidence"] is None else ", confidence .95")


def _spread(row: dict[str, Any]) -> str:
    low, high = row["lowest_and_highest_twentieth"]
    return f"{row['mean']:.4f} | {row['median']:.3f} | {low:.3f} – {high:.3f} | {row['share_kept']:.1%}"


def _population(row: dict[str, Any]) -> str:
    return f"{row['population']['share_kept']:.1%}" if "share_kept" in row.get("population", {}) else ""


def _labels_table(corpora: dict[str, Any]) -> list[str]:
    names = ("corpus", "promise", *SPREAD, "population", "labels an example", "refused", "kept")
    lines = _header(*names)
    for name, found in corpora.items():
        for row in found["promises"]:
            if row["kind"] == "candidates":
                continue
            empty = " |" * (len(SPREAD) + 1)
            told = f"{_spread(row)} | {_population(row)} | {row['labels_per_example']:.2f}" if "mean" in row else empty
            lines.append(f"| {name} | {_sure(row)} | {told} | {row['refused']} | {KEPT[row['kept']]} |")
    return lines


def _lists_table(corpora: dict[str, Any]) -> list[str]:
    lengths = ("median length", "mean length", "told: may be outside")
    lines = _header("corpus", "promise", *SPREAD, "exact", "population", *lengths, "kept")
    for name, found in corpora.items():
        for row in found["promises"]:
            if row["kind"] != "candidates" or "mean" not in row:
                continue
            exact = f"{row['exact_share_of_test_halves']:.1%}" if "exact_share_of_test_halves" in row else ""
            told = f"{row['median_length']:.0f} | {row['mean_length']:.2f} | {row['outside']:.1%} | {KEPT[row['kept']]}"
            lines.append(f"| {name} | {_sure(row)} | {_spread(row)} | {exact} | {_population(row)} | {told} |")
    return lines


def _abstention_table(corpora: dict[str, Any]) -> list[str]:
    lines = ["Subset accuracy of the model's own decoder, by the probability that `--abstain-below` compares.", ""]
    lines += _header("corpus", "accuracy wanted: share answered", "all", "surest half")
    for name, found in corpora.items():
        one = found["abstention"]
        points = ", ".join(f"{row['wanted']:g}: {row['share']:.0%}" for row in one["reached"])
        lines.append(f"| {name} | {points} | {one['all']:.3f} | {one['surest_half']:.3f} |")
    return lines


def _calibration_table(corpora: dict[str, Any]) -> list[str]:
    lines = [
        "Calibration error and Brier score on held-out examples, before and after the repair that validation chose: "
        "labels with a probability of at least .01, and sets of the model's own decoder.",
        "",
    ]
    lines += _header("corpus", "of", "repair", "error before", "after", "Brier before", "after")
    for name, found in corpora.items():
        for what in ("labels", "sets"):
            one = found["calibration"][what]
            (error, brier), (new_error, new_brier) = one["before"], one["after"]
            numbers = " | ".join(f"{number:.4f}" for number in (error, new_error, brier, new_brier))
            lines.append(f"| {name} | {what} | {one['repair']} | {numbers} |")
    return lines


def _shift_table(corpora: dict[str, Any]) -> list[str]:
    told = {
        "reuters": "its later months (the test part) after the months of the training part",
        "arxiv-cs": "papers that mathematics lists too, after papers of computer science only",
    }
    lines = [
        "Promises are made on examples like those of the training part, then the new data come. Blocks: the share of "
        "random blocks of 500 new texts that are reported as shifted, which is what `serve` compares.",
        "",
    ]
    lines += _header(
        "corpus", "new data", "reported as shifted", "p-value", "blocks", "recall of .9", "candidates of .9"
    )
    for name, sentence in told.items():
        one = corpora.get(name, {}).get("later_data")
        if one is None:
            continue
        p_value = min(1.0, len(one["p_values"]) * min(one["p_values"].values()))
        achieved = " | ".join(
            f"{one['achieved'][goal]:.3f}" if goal in one["achieved"] else "refused"
            for goal in ("recall=0.9", "candidates=0.9")
        )
        told = f"{'yes' if one['shifted'] else '**no**'} | {p_value:.1g} | {one['blocks_reported']:.0%}"
        lines.append(f"| {name} | {sentence} | {told} | {achieved} |")
    if len(lines) == 4:
        lines = ["Not measured yet on later data."]
    alarms = ", ".join(f"{name} {f['false_alarms']:.1%}" for name, f in corpora.items() if "false_alarms" in f)
    return [*lines, "", f"False alarms, blocks of held-out examples against others of the same source: {alarms}."]


@in_style
def draw(results: dict[str, Any], path: Path) -> None:
    """Promised against achieved: the median split, and nine tenths of them."""
    figure, every = canvas(len(PANELS), f"Promised and achieved, {results['splits']} random splits", width=16)
    for axes, (kind, confidence) in zip(every, PANELS, strict=True):
        for level in LEVELS:  # beside one another, all markers of a level are compared with its own line
            axes.plot([level - 0.02, level + 0.02], [level, level], color=GREY, linestyle="--", linewidth=1.2)
        for shift, (corpus, (color, marker)) in enumerate(LOOKS.items()):
            if corpus not in results["corpora"]:
                continue
            made = results["corpora"][corpus]["promises"]
            rows = [row for row in made if (row["kind"], row["confidence"]) == (kind, confidence) and "median" in row]
            places = [row["level"] + 0.008 * (shift - 1.5) for row in rows]
            for at, row in zip(places, rows, strict=True):
                axes.plot([at, at], row["lowest_and_highest_twentieth"], color=color)
            medians = [row["median"] for row in rows]
            axes.plot(places, medians, color=color, marker=marker, linestyle="none", label=corpus)
        sure = "on average" if confidence is None else f"confidence {confidence:g}"
        axes.set(title=f"{kind}, {sure}", xlabel="promised", ylabel="achieved" if axes is every[0] else "")
        axes.set(xlim=(0.76, 0.99), ylim=(0.74, 1.0), xticks=LEVELS)
    legend(figure, every[0])
    save(figure, path)
