"""Writes docs/results/<corpus>.md and its figures from the result files: `python benchmarks/results_pages.py`."""

from __future__ import annotations

import sys
from pathlib import Path

from orderfree.experiments.figures import write_figures
from orderfree.experiments.overview import frequency_table, positions_table
from orderfree.experiments.rendering import Table
from orderfree.experiments.results import Result, load_results
from orderfree.experiments.tables import combinations_table, corpus_table, seen_unseen_table
from orderfree.files import write_text

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "results"


def main() -> None:
    results = load_results(ROOT / "results", lambda line: print(line, file=sys.stderr))
    for corpus in sorted({result.corpus for result in results}):
        own = [result for result in results if result.corpus == corpus]
        lines = [f"# {corpus}", "", "Made by `python benchmarks/results_pages.py` from `results/`; do not edit.", ""]
        for variant in sorted({result.variant for result in own}):
            lines += _variant(corpus, variant, [result for result in own if result.variant == variant])
        write_text(PAGES / f"{corpus}.md", "\n".join(lines).rstrip() + "\n")
        print(PAGES / f"{corpus}.md")


def _variant(corpus: str, variant: str, results: list[Result]) -> list[str]:
    lines = [f"## {variant}", ""]
    parts = sorted({part for result in results for part in result.parts})
    tables = [corpus_table(results, corpus, part) for part in ("test", *parts)]
    if "test_seen" in parts:
        tables.append(seen_unseen_table(results, corpus))
    tables += [combinations_table(results, corpus), positions_table(results), frequency_table(results)]
    for table in tables:
        lines += [_measured(table).to_markdown(), ""]
    lines += ["### Runs", "", "| method | seed | updates | kept | flattened | parameters | minutes |"]
    lines += ["| --- | ---: | ---: | ---: | --- | ---: | ---: |"]
    for result in results:
        cells = (
            result.method, result.seed, f"{result.updates:,}", f"{getattr(result, 'kept_update', 0):,}",
            "yes" if result.flattened else "no", f"{result.parameters:,}", f"{result.seconds.train / 60:.0f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    folder = PAGES / "figures" / variant
    drawn = write_figures(results, folder, lambda line: print(line, file=sys.stderr), variant)
    for path in drawn:
        if path.suffix == ".svg":
            lines += ["", f"![{path.stem}]({path.relative_to(PAGES).as_posix()})"]
    return [*lines, ""]


def _measured(table: Table) -> Table:
    """Without the rows nobody has run here."""
    return Table(table.title, table.columns, [row for row in table.rows if row.seeds], table.notes)


if __name__ == "__main__":
    main()
