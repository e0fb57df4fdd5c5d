"""`orderfree predict --engine`: large corpora, part by part."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import MissingLibraryError, OrderfreeError
from .common import say

if TYPE_CHECKING:
    from ..inference import Predictor

Engine = Annotated[
    str | None, typer.Option("--engine", help="ray: Parquet files to a directory, on all cores or a Ray cluster.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="With --engine: number of processes; by default one per core.")
]
PART_ROWS = 20_000
PartRows = Annotated[
    int | None,
    typer.Option(
        "--part-rows",
        min=1,
        help=f"With --engine: rows of a part, which is done again if interrupted; {PART_ROWS:,} unless told.",
    ),
]


def predict_in_parts(
    engine: str,
    run: Path,
    inputs: list[str],
    out: str,
    predictor: Predictor,
    decoder: str,
    hierarchy: Path | None,
    probs: str,
    workers: int | None,
    part_rows: int,
) -> None:
    if engine != "ray":
        raise OrderfreeError(f"--engine {engine!r}: expected ray.")
    if out == "-":
        raise OrderfreeError("--engine ray writes a directory of Parquet files; name it with --out.")
    try:
        import ray  # noqa: F401
    except ModuleNotFoundError:
        raise MissingLibraryError('--engine ray needs: pip install "orderfree[ray]".') from None
    from rich.console import Console
    from rich.progress import Progress

    from ..tools.bulk import plan, run_on_ray

    job = plan(run, inputs, predictor, decoder, hierarchy, probs, part_rows)
    rows = sum(one["rows"] for one in job["inputs"])
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("rows", total=rows)
        told = run_on_ray(job, Path(out), workers, lambda more: bar.advance(task, more))
    say(f"{told['rows']:,} rows in {told['parts']:,} parts in {out}, {told['kept']:,} of them from before")
    if told["left_out"]:
        say(f"{told['left_out']:,} rows are damaged and were left out (--skip-bad)")
