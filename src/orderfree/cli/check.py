"""`orderfree check`: what a file is, what is wrong with it, and how to train on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import OrderfreeError
from .common import AsJson, Format, LabelsColumn, Separator, Settings, TextColumns, data_config, table_settings


def check(
    data_file: Annotated[Path, typer.Argument(metavar="DATA", help="Labelled examples, as for `orderfree train`.")],
    others: Annotated[
        list[Path] | None,
        typer.Argument(metavar="OTHER", help="Other parts of the same data: texts that occur in both are counted."),
    ] = None,
    text: TextColumns = None,
    labels: LabelsColumn = None,
    separator: Separator = None,
    format: Format = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Check a file before training: its format, columns, labels and mistakes, and the command that trains on it."""
    from ..data.examine import examine

    if str(data_file) == "-":
        raise OrderfreeError("the file is read several times, so it cannot come from standard input; give a file.")
    options = data_config([*(settings or []), *table_settings(text, labels, separator)], format)
    found = examine(data_file, options, others or [])
    if as_json:
        print(json.dumps(found.to_json(), ensure_ascii=False))
        return
    print("\n".join(found.lines()))


ALL = (check,)
