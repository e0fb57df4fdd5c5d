"""Writes the tables of docs/results/quality.md from the result files: `python benchmarks/quality/table.py`.

Only what stands between the two marks is written; the text around them is a person's. `--print` shows the tables
instead. What was not run is not there.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from layout import CORPORA, METRICS, RESULTS, ROOT, SYSTEMS
from origins import DEFAULT, decimal, is_current, run_rows, standing, title, tuning_rows

from orderfree.system.files import write_text

PAGE = ROOT / "docs" / "results" / "quality.md"
BEGIN = "<!-- made by benchmarks/quality/table.py; do not edit -->"
END = "<!-- end of what benchmarks/quality/table.py makes -->"
FIRST = "<!-- first paragraph, made by benchmarks/quality/table.py -->"
NEW_PAGE = f"# Quality beside other systems\n\n{FIRST}\n{END}\n\n{BEGIN}\n{END}\n"
HEADINGS = dict(zip(METRICS, ("macro-F1", "micro-F1", "example-F1", "subset acc.", "Hamming acc."), strict=True))
DIGITS = {"hamming_accuracy": 4}  # of the others 3
MIB = 2**20

Result = dict[str, Any]
Row = tuple[str, dict[str, list[float]]]  # a name, and its values by column: one for each seed

COSTS: dict[str, tuple[Callable[[Result], float], bool]] = {  # heading: value, whether more is better
    "fit s": (lambda result: result["seconds"]["fit"]["cpu"], False),
    "with search s": (lambda result: result["seconds"]["fit_and_search"]["cpu"], False),
    "predict docs/s": (lambda result: result["documents_per_second"]["cpu"], True),
    "peak MiB": (lambda result: result["peak_bytes"] / MIB, False),
    "model MiB": (lambda result: result["model_bytes"] / MIB, False),
}
FIRST_LABELS = {f"{name}@{k}": f"{title}@{k}" for name, title in (("p", "P"), ("psp", "PSP")) for k in (1, 3, 5)}
FITTING = ("fit s", "with search s")
HOW_TO_READ = """
- **Scores**: each metric with the decoder, or the threshold, that validation chose for it; rows named after a single
  decoder use it for all five. Several seeds: mean ± standard deviation. Bold: the best of a column.
- **First labels**: precision and propensity-scored precision of the 1, 3 and 5 labels with the highest scores
  ([definitions](../reference/metrics.md#the-first-labels)), where labels are many.
- **Bounds**: 95 % of 1,000 draws of the test documents lie within them (several seeds: the mean of their bounds). A
  label whose test documents a draw misses is left out of its macro-F1.
- **Differences**: our score, the mean over seeds, less theirs on the same draws, with 95 % bounds and a two-sided p.
  Bold: zero is outside the bounds.
- **Costs**: seconds are seconds of work (CPU time), whatever else the machine was doing; the result files have both.
  Fit: from files to a model with its choices made, with the C that was kept; with search: with all values of C.
  Predict: from texts to the sets chosen for micro-F1. Peak memory includes {libraries:,.0f} MiB of libraries that every
  cell loads, more than scikit-learn alone would need. Model: weights, vocabulary and all else a prediction needs.
  {threads}.
- †: sentence embeddings of the training part were found in a cache; the time to make them is not in the figure.
- **Choices**: for each metric C and whether there is one threshold for all labels or one for each; ours: the decoder
  and its threshold. Values of C: those that were tried; the best one is on the edge only where no more were allowed
  (1/64; 16 for SVMs, 256 for the others).
  `before`: C was chosen for micro-F1 on the validation part from a fixed grid, with one threshold for each metric.
- ‡: made with code that is no commit of this history; to be run again.
""".strip()


def load(results: Path, corpus: str) -> dict[str, list[Result]]:
    """The results of a corpus by system, seeds in order."""
    found: dict[str, list[Result]] = {}
    for path in sorted((results / corpus).glob("*/seed*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(result["system"], []).append(result)
    known = [name for name in SYSTEMS if name in found]
    return {name: found[name] for name in [*known, *sorted(found.keys() - set(known))]}


def quality_rows(found: dict[str, list[Result]], part: str) -> list[Row]:
    rows: list[Row] = []
    for results in found.values():
        title = _title(results)
        judged = [result["parts"][part] for result in results if part in result["parts"]]
        if not judged:
            continue
        rows.append((title, {metric: [one["scores"][metric] for one in judged] for metric in METRICS}))
        for decoder in judged[0]["plain"]:
            values = {metric: [one["plain"][decoder][metric] for one in judged] for metric in METRICS}
            rows.append((f"{title}, {decoder}", values))
    return rows


def quality_table(rows: list[Row]) -> list[str]:
    columns = {metric: [_spread(row[1][metric], DIGITS.get(metric, 3)) for row in rows] for metric in METRICS}
    for metric, cells in columns.items():
        means = [round(statistics.fmean(row[1][metric]), DIGITS.get(metric, 3)) for row in rows]
        columns[metric] = _bold(cells, [mean == max(means) for mean in means])
    return lines_of_table(["system", *HEADINGS.values()], [[row[0] for row in rows], *columns.values()])


def at_k_table(found: dict[str, list[Result]], part: str) -> list[str]:
    """Of the systems whose first labels were judged; none: the corpus has few labels."""
    rows = []
    for results in found.values():
        judged = [result["parts"].get(part, {}).get("at_k") for result in results]
        if judged := [one for one in judged if one]:
            rows.append((_title(results), {key: [one[key] for one in judged] for key in FIRST_LABELS}))
    if not rows:
        return []
    columns = []
    for key in FIRST_LABELS:
        means = [round(statistics.fmean(row[1][key]), 3) for row in rows]
        columns.append(_bold([_spread(row[1][key], 3) for row in rows], [mean == max(means) for mean in means]))
    return [
        "First labels:",
        "",
        *lines_of_table(["system", *FIRST_LABELS.values()], [[row[0] for row in rows], *columns]),
        "",
    ]


def interval_table(found: dict[str, list[Result]], part: str) -> list[str]:
    columns: list[list[str]] = [[] for _ in range(1 + len(METRICS))]
    for results in found.values():
        bounds = [result["parts"][part]["intervals"] for result in results if part in result["parts"]]
        if not bounds:
            continue
        columns[0].append(_title(results))
        for column, metric in zip(columns[1:], METRICS, strict=True):
            low, high = (statistics.fmean(one[metric][side] for one in bounds) for side in (0, 1))
            column.append(" – ".join(decimal(value, DIGITS.get(metric, 3)) for value in (low, high)))
    return lines_of_table(["system", *HEADINGS.values()], columns)


def cost_table(found: dict[str, list[Result]]) -> list[str]:
    columns = [[_title(results) for results in found.values()]]
    for heading, (value, more_is_better) in COSTS.items():
        means, cells = [], []
        for results in found.values():
            whole = [result for result in results if not (heading in FITTING and result["embeddings_found"])]
            means.append(float(f"{statistics.fmean(value(result) for result in whole or results):.2g}"))
            cells.append(f"{means[-1]:,.{1 if means[-1] < 10 else 0}f}" + ("" if whole else " †"))
        best = max(means) if more_is_better else min(means)
        columns.append(_bold(cells, [mean == best for mean in means]))
    return lines_of_table(["system", *COSTS], columns)


def how_to_read(everything: list[Result]) -> str:
    libraries = statistics.fmean(result["libraries_bytes"] for result in everything) / MIB
    threads = sorted({result["threads"] for result in everything})
    counted = " or ".join(map(str, threads)) + (" thread" if threads == [1] else " threads")
    return HOW_TO_READ.format(libraries=libraries, threads=f"All cells ran on {counted}")


def paired_table(tests: list[dict[str, Any]]) -> list[str]:
    columns: list[list[str]] = [[] for _ in range(1 + len(METRICS))]
    for test in tests:
        columns[0].append(f"`{test['ours']}` − {test['theirs']}")
        for column, metric in zip(columns[1:], METRICS, strict=True):
            one = test["metrics"][metric]
            digits = DIGITS.get(metric, 3)
            low, high = (decimal(bound, digits, sign=True) for bound in one["interval"])
            cell = f"{decimal(one['difference'], digits, sign=True)} ({low} … {high}), p {decimal(one['p'], 3)}"
            clear = one["interval"][0] > 0 or one["interval"][1] < 0
            column.append(f"**{cell}**" if clear else cell)
    return lines_of_table(["difference", *HEADINGS.values()], columns)


def corpus_section(results: Path, corpus: str, found: dict[str, list[Result]]) -> list[str]:
    path = results / corpus / "paired.json"
    tests = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    tests = [test for test in tests if is_current(test, found)]
    everything = [result for results in found.values() for result in results]
    parts = dict.fromkeys(part for result in everything for part in result["parts"])
    lines = [f"## {corpus}", ""]
    for part in parts:
        examples = next(result["parts"][part]["examples"] for result in everything if part in result["parts"])
        lines += [f"### {corpus}, part `{part}`, {examples:,} documents", ""]
        lines += [*quality_table(quality_rows(found, part)), ""]
        lines += [*at_k_table(found, part), "Bounds:", "", *interval_table(found, part), ""]
        if own := [test for test in tests if test["part"] == part]:
            lines += ["Differences:", "", *paired_table(own), ""]
    lines += [f"### {corpus}, costs", "", *cost_table(found), "", f"### {corpus}, choices", ""]
    lines += [*lines_of_table(["system", *HEADINGS.values(), "values of C"], transposed(tuning_rows(found))), ""]
    runs = lines_of_table(["system", "command", "commit", "versions"], transposed(run_rows(found)))
    return [*lines, f"### {corpus}, runs", "", *runs, ""]


def transposed(rows: list[list[str]]) -> list[list[str]]:
    return [list(column) for column in zip(*rows, strict=True)]


def behind(results: Path) -> str:
    """Where the default preset is behind, corpus by corpus."""
    found = {corpus: load(results, corpus) for corpus in CORPORA}
    told = [standing(corpus, cells, "test") for corpus, cells in found.items() if DEFAULT in cells]
    return "\n".join(["Where the default preset `fast` is behind, test parts:", "", *told, ""])


def all_tables(results: Path) -> str:
    found = {corpus: cells for corpus in CORPORA if (cells := load(results, corpus))}
    if not found:
        return "Nothing was run yet.\n"
    everything = [result for cells in found.values() for same in cells.values() for result in same]
    sections = [line for corpus, cells in found.items() for line in corpus_section(results, corpus, cells)]
    return "\n".join([how_to_read(everything), "", *sections])


def _title(results: list[Result]) -> str:
    return title(str(results[0]["system"]), results)


def _spread(values: Sequence[float], digits: int) -> str:
    mean = decimal(statistics.fmean(values), digits)
    return mean if len(values) < 2 else f"{mean} ± {decimal(statistics.stdev(values), digits)}"


def _bold(cells: list[str], best: list[bool]) -> list[str]:
    return [f"**{cell}**" if is_best else cell for cell, is_best in zip(cells, best, strict=True)]


def lines_of_table(headings: Sequence[str], columns: Sequence[Sequence[str]]) -> list[str]:
    rows = [headings, ["---", *["---:"] * (len(headings) - 1)], *zip(*columns, strict=True)]
    return ["| " + " | ".join(row) + " |" for row in rows]


def put_between_marks(page: str, first: str, tables: str) -> str:
    for begin, made in ((FIRST, first), (BEGIN, tables)):
        before, _, rest = page.partition(begin)
        _, end, after = rest.partition(END)
        if not end:
            raise SystemExit(f"{PAGE.name} has lost its marks; put these two lines back: {begin} and {END}")
        page = f"{before}{begin}\n\n{made}\n{END}{after}"
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--print", action="store_true", dest="shown", help="print the tables, write nothing")
    arguments = parser.parse_args()
    tables = all_tables(arguments.results)
    if arguments.shown:
        print(tables)
        return
    page = arguments.page.read_text(encoding="utf-8") if arguments.page.exists() else NEW_PAGE
    write_text(arguments.page, put_between_marks(page, behind(arguments.results), tables))
    print(arguments.page)


if __name__ == "__main__":
    main()
