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
from .common import print_table as print_plain_table

KINDS = ("scores", "combinations", "ranking", "seen", "ranks", "positions", "frequency")

if TYPE_CHECKING:
    from ..experiments.cells import Cell, Plan
    from ..experiments.rendering import Table


Corpora = Annotated[list[str] | None, typer.Argument(metavar="[CORPUS]...", help="Names from `orderfree data list`.")]
Rows = Annotated[str, typer.Option("--rows", help="Methods, separated by commas; `all` for every config.")]
Variant = Annotated[
    str | None, typer.Option("--variant", help="paper (full size) or paper-small; by default the smaller there is.")
]
Queue = Annotated[
    Path | None,
    typer.Option("--queue", help="A YAML file of cells in their order, in the place of corpora, rows and seeds."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Cells to run in parallel, each in its own process with one thread."),
]
Budget = Annotated[str | None, typer.Option("--budget", help="Time limit, e.g. 2h or 45m; the next call continues.")]
CellBudget = Annotated[
    str | None,
    typer.Option("--cell-budget", help="Time limit for one cell, after which it ends and is marked as cut short."),
]
LimitTrain = Annotated[
    int | None, typer.Option("--limit-train", min=1, help="Train on this many documents, chosen at random.")
]
AllowDirty = Annotated[bool, typer.Option("--allow-dirty", help="Allow uncommitted code; the results are marked.")]
Configs = Annotated[
    Path | None, typer.Option("--configs", help="Folder of <corpus>/….yaml; by default those of the package.")
]
Work = Annotated[Path, typer.Option("--work", help="Folder for corpora and unfinished runs.")]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of the corpora; else ORDERFREE_DATA.")]


def reproduce(
    corpus: Corpora = None,
    rows: Rows = "all",
    seeds: Annotated[str, typer.Option("--seeds", help="Seeds, separated by commas.")] = "1",
    variant: Variant = None,
    queue: Queue = None,
    workers: Workers = None,
    budget: Budget = None,
    cell_budget: CellBudget = None,
    limit_train: LimitTrain = None,
    allow_dirty: AllowDirty = False,
    listed: Annotated[bool, typer.Option("--list", help="Run nothing; print the progress of every cell.")] = False,
    configs: Configs = None,
    results: Annotated[Path, typer.Option("--results", help="Folder to write result files to.")] = Path("results"),
    work: Work = Path("runs/reproduce"),
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Train and test rows of the paper's tables; finished cells are skipped, cut ones resumed."""
    from ..experiments.cells import CONFIGS, Plan
    from ..experiments.grid import run_cells
    from ..experiments.origin import code_commit
    from ..experiments.workers import run_queue
    from ..training.run import Interrupted

    configs = configs or CONFIGS
    cells = _asked_cells(corpus or [], rows, seeds, variant, queue, configs)
    plan = Plan(configs, results, work, data, limit_train, seconds(cell_budget, "--cell-budget"))
    if listed:
        _print_progress(cells, plan, as_json)
        return
    plan = replace(plan, commit=code_commit(configs, allow_dirty))
    time_left = seconds(budget, "--budget")
    try:
        if workers is None:
            failed = run_cells(cells, plan, say, time_left)
        else:
            failed = run_queue(cells, plan, say, workers, time_left, ["--allow-dirty"] if allow_dirty else [])
    except Interrupted:
        say("orderfree: stopped; run the same command again to continue.")
        raise typer.Exit(130) from None
    if failed:
        raise OrderfreeError(f"{len(failed)} cell(s) failed: {', '.join(failed)}; the lines above say why.")


def _asked_cells(
    names: list[str], rows: str, seeds: str, variant: str | None, queue: Path | None, configs: Path
) -> list[Cell]:
    from ..experiments.cells import cells_of, known_rows, read_queue, usual_variant

    if queue is not None:
        if names or rows != "all" or seeds != "1" or variant is not None:
            raise OrderfreeError("--queue names corpora, rows, seeds and variants itself; leave out the others.")
        return read_queue(queue)
    if not names:
        raise OrderfreeError("give a corpus to reproduce (`orderfree data list` shows them), or a file with --queue.")
    cells = []
    for name in names:
        chosen = variant or usual_variant(configs, name)
        methods = known_rows(configs, name, chosen) if rows == "all" else comma_separated(rows)
        cells += cells_of(name, chosen, methods, whole_numbers(seeds))
    return cells


def _print_progress(cells: list[Cell], plan: Plan, as_json: bool) -> None:
    from ..experiments.workers import progress_of

    progress = [progress_of(cell, plan) for cell in cells]
    if as_json:
        print(json.dumps(progress, ensure_ascii=False))
        return
    rows: list[tuple[str, ...]] = []
    for cell in progress:
        update = f"{cell['update']:,} of {cell['of']:,}" if "update" in cell else ""
        scores = ", ".join(f"{decoder} {score:.3f}" for decoder, score in cell.get("validation", {}).items())
        names = (cell["corpus"], cell["variant"], cell["row"], str(cell["seed"]))
        rows.append((*names, cell["state"], update, scores))
    header = ("corpus", "variant", "row", "seed", "state", "update", "validation micro-F1")
    print_plain_table(header, rows)


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
    """Print a table of the paper from result files: our numbers beside the printed ones."""
    print_table(make_table(results, corpus, part, kind, say, variant), markdown, as_json)


def figures(
    out: Annotated[Path, typer.Option("--out", help="Folder to write SVG and PNG files to.")],
    results: Annotated[Path, typer.Option("--results", help="Folder of result files.")] = Path("results"),
    variant: Annotated[str, typer.Option("--variant", help="Which size of the models to draw.")] = "paper-small",
) -> None:
    """Draw the paper's figures from result files (needs the extra `figures`)."""
    from ..experiments.paper_figures import write_figures
    from ..experiments.result_files import load_results

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
    from ..experiments.result_files import load_results
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
