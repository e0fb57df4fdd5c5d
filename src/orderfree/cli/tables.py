"""`orderfree table`: one of the paper's tables, from the result files there are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ..errors import OrderfreeError
from ..experiments.rendering import Table
from ..experiments.results import load_results
from ..experiments.tables import combinations_table, corpus_table, rank_table, seen_unseen_table


def make_table(folder: Path, corpus: str, part: str, kind: str, say: Callable[[str], None]) -> Table:
    if not folder.is_dir():
        raise OrderfreeError(f"{folder}: no such folder of results; make some with `orderfree reproduce {corpus}`.")
    results = load_results(folder, say)
    if kind == "scores":
        return corpus_table(results, corpus, part)
    if kind == "combinations":
        return combinations_table(results, corpus)
    if kind == "seen":
        return seen_unseen_table(results, corpus)
    if kind == "ranks":
        return rank_table(results, [corpus])
    raise OrderfreeError(f"--kind {kind!r}: expected scores, combinations, seen or ranks.")


def print_table(table: Table, markdown: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps(table.to_json(), ensure_ascii=False))
    elif markdown:
        print(table.to_markdown())
    else:
        print(table.to_text())
