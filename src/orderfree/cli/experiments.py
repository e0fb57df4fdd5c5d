"""`orderfree reproduce` and `orderfree table`: the paper's experiments."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import OrderfreeError, nearest
from .common import AsJson, comma_separated, say, seconds, whole_numbers

KINDS = ("scores", "combinations", "ranking", "seen", "ranks", "positions", "frequency")

if TYPE_CHECKING:
    from ..experiments.rendering import Table


def reproduce(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="A name from `orderfree data list`.")],
    rows: Annotated[str, typer.Option("--rows", help="Methods, separated by commas; `all` for every config.")] = "all",
    seeds: Annotated[str, typer.Option("--seeds", help="Seeds, separated by commas.")] = "1",
    variant: Annotated[
        str | None, typer.Option("--variant", help="paper (full size) or paper-small; by default the smaller there is.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="Time for the whole call, e.g. 2h or 45m; the rest goes on next time."),
    ] = None,
    cell_budget: Annotated[
        str | None,
        typer.Option("--cell-budget", help="Training time of one cell; it is then ended, marked as cut short."),
    ] = None,
    limit_train: Annotated[
        int | None, typer.Option("--limit-train", min=1, help="Train on this many documents, chosen at random.")
    ] = None,
    configs: Annotated[
        Path | None, typer.Option("--configs", help="Folder of <corpus>/….yaml; by default those of the package.")
    ] = None,
    results: Annotated[Path, typer.Option("--results", help="Folder to write result files to.")] = Path("results"),
    work: Annotated[Path, typer.Option("--work", help="Folder for corpora and unfinished runs.")] = Path(
        "runs/reproduce"
    ),
    data: Annotated[Path | None, typer.Option("--data", help="Folder of the corpora; else ORDERFREE_DATA.")] = None,
) -> None:
    """Train and test rows of the paper's tables; finished cells are skipped, cut ones resumed."""
    from ..data.corpora import corpora
    from ..experiments.grid import CONFIGS, Plan, known_rows, run_grid, usual_variant
    from ..training.run import Interrupted

    corpora[corpus]  # an unknown name is answered with the list
    configs = configs or CONFIGS
    variant = variant or usual_variant(configs, corpus)
    plan = Plan(
        corpus, variant, [], whole_numbers(seeds), configs, results, work, data, limit_train,
        seconds(budget, "--budget"), seconds(cell_budget, "--cell-budget"),
    )  # fmt: skip
    plan = replace(plan, methods=known_rows(plan) if rows == "all" else comma_separated(rows))
    try:
        failed = run_grid(plan, say)
    except Interrupted:
        say("orderfree: stopped; the same command goes on where it was.")
        raise typer.Exit(130) from None
    if failed:
        raise OrderfreeError(f"{len(failed)} cell(s) failed: {', '.join(failed)}; the lines above say why.")


def table(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="A name from `orderfree data list`.")],
    results: Annotated[Path, typer.Option("--results", help="Folder of result files.")] = Path("results"),
    part: Annotated[str, typer.Option("--part", help="test, or a part such as test_multi.")] = "test",
    kind: Annotated[str, typer.Option("--kind", help="One of " + ", ".join(KINDS) + ".")] = "scores",
    variant: Annotated[
        str | None, typer.Option("--variant", help="Only runs of this size, e.g. paper-small; else all.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a table of the paper, ours beside printed, computed from result files."""
    print_table(make_table(results, corpus, part, kind, say, variant), markdown, as_json)


def figures(
    out: Annotated[Path, typer.Option("--out", help="Folder to write SVG and PNG files to.")],
    results: Annotated[Path, typer.Option("--results", help="Folder of result files.")] = Path("results"),
    variant: Annotated[str, typer.Option("--variant", help="Which size of the models to draw.")] = "paper-small",
) -> None:
    """Draw the paper's figures from result files (needs the extra `figures`)."""
    from ..experiments.figures import write_figures
    from ..experiments.results import load_results

    if not results.is_dir():
        raise OrderfreeError(f"{results}: no such folder of results; make some with `orderfree reproduce`.")
    for path in write_figures(load_results(results, say), out, say, variant):
        print(path)


ALL = (reproduce, table, figures)


def make_table(
    folder: Path, corpus: str, part: str, kind: str, say: Callable[[str], None], variant: str | None = None
) -> Table:
    if kind not in KINDS:
        raise OrderfreeError(f"--kind {kind!r}: expected {', '.join(KINDS)}.{nearest(kind, list(KINDS))}")
    if not folder.is_dir():
        raise OrderfreeError(f"{folder}: no such folder of results; make some with `orderfree reproduce {corpus}`.")
    from ..experiments.overview import frequency_table, positions_table
    from ..experiments.results import load_results
    from ..experiments.tables import combinations_table, corpus_table, rank_table, ranking_table, seen_unseen_table

    results = [r for r in load_results(folder, say) if variant in (None, r.variant)]
    if kind == "scores":
        return corpus_table(results, corpus, part)
    if kind == "combinations":
        return combinations_table(results, corpus)
    if kind == "ranking":
        return ranking_table(results, corpus)
    if kind == "seen":
        return seen_unseen_table(results, corpus)
    if kind == "ranks":
        return rank_table(results, [corpus])
    own = [result for result in results if result.corpus == corpus]
    if len({result.variant for result in own}) > 1:
        sizes = sorted({result.variant for result in own})
        raise OrderfreeError(f"{corpus} was run as {', '.join(sizes)}: choose one with --variant.")
    return positions_table(own) if kind == "positions" else frequency_table(own)


def print_table(table: Table, markdown: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps(table.to_json(), ensure_ascii=False))
    elif markdown:
        print(table.to_markdown())
    else:
        print(table.to_text())
