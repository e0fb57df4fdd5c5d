"""`orderfree demo`: from nothing to a trained, judged and used model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from ..config import DataConfig
from ..data.writers import write_examples
from ..errors import OrderfreeError
from ..testing.toy import toy_corpus, toy_texts
from ..types import Example


def write_toy(out: Path, seed: int, overwrite: bool) -> list[Path]:
    """The toy corpus as JSONL files: train, valid, test, and three new texts without labels."""
    corpus = toy_corpus(seed)
    parts: dict[str, Sequence[Example]] = {
        "train": corpus.train,
        "valid": corpus.valid,
        "test": corpus.test,
        "new": toy_texts(),
    }
    paths = {out / f"{part}.jsonl": examples for part, examples in parts.items()}
    existing = [path for path in paths if path.exists()]
    if existing and not overwrite:
        raise OrderfreeError(f"{existing[0]}: already exists; choose another --out or replace it with --overwrite.")
    for path, examples in paths.items():
        write_examples(examples, path, "jsonl", DataConfig())
    return list(paths)


def run_demo(out: Path, overwrite: bool) -> None:
    """The commands a user would type, one after another."""
    from .main import app

    train, valid, test, new = (str(path) for path in write_toy(out / "data", 1, overwrite))
    run, report = str(out / "run"), str(out / "report.html")
    for command in (
        ["train", train, "--valid", valid, "--out", run, *(["--overwrite"] if overwrite else [])],
        ["evaluate", run, test, "--report", report],
        ["predict", run, new],
    ):
        print("\n$ orderfree " + " ".join(command), flush=True)
        if code := app(command, standalone_mode=False):  # interrupted: what to do next has been said
            raise typer.Exit(code)
    print(f"\nThe run is in {run}, the report in {report} (open it in a browser).")
