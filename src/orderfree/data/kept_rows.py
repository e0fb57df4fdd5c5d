"""The table that was read, written again with a column of predicted labels: same delimiter, same encoding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import ConfigError, DataError, MissingLibraryError
from ..system.files import is_standard_output, writing
from .readers import KeptRows
from .writers import FORMULA_STARTS, SUGGESTIONS, csv_writer, label_cell, text_file

KINDS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".xlsx": "xlsx"}


def write_kept_rows(
    records: Iterator[dict[str, Any]], kept: KeptRows, path: str, format: str | None, column: str, separator: str
) -> None:
    """Takes records with labels and perhaps suggestions, in the order of the rows. The labels go to a new column of
    this name, or `predicted_…` where the table has one; a format that is not given is that of the name, or the input's.
    """
    first = next(records)  # now it is known what kind of table it is
    kind = format or _kind_of(path, kept)
    added = column
    while added in kept.rows[0]:
        added = f"predicted_{added}"

    def rows() -> Iterator[dict[str, Any]]:
        for record in chain([first], records):
            row = {**kept.rows.popleft(), added: record["labels"]}
            yield row | ({SUGGESTIONS: record[SUGGESTIONS]} if SUGGESTIONS in record else {})

    try:
        if kind in ("csv", "tsv"):
            _write_delimited(rows(), path, kind, kept, added, separator)
        elif kind == "jsonl":
            with text_file(path) as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
        elif kind == "xlsx":
            _write_excel(rows(), path, added, separator)
        else:
            raise ConfigError(f"--keep-columns cannot write {kind!r}; known: csv, tsv, jsonl, xlsx.")
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise DataError(
            f"cannot hold {character!r} in the encoding {kept.encoding} of the input; save the input as UTF-8, or "
            "write to a .jsonl file.",
            path,
        ) from None


def _kind_of(path: str, kept: KeptRows) -> str:
    if is_standard_output(path):
        return "jsonl" if kept.delimiter is None else "csv"
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    if suffix not in KINDS:
        raise ConfigError(f"--out {path}: its name does not tell the format; expected {', '.join(KINDS)}.")
    return KINDS[suffix]


def _cells(row: dict[str, Any], added: str, separator: str) -> list[Any]:
    """Lists and objects of JSON as JSON; the new labels as they are separated in the training file."""
    return [
        label_cell(value, separator)
        if name == added
        else json.dumps(value, ensure_ascii=False)
        if isinstance(value, list | dict)
        else value
        for name, value in row.items()
    ]


def _write_delimited(
    rows: Iterator[dict[str, Any]], path: str, kind: str, kept: KeptRows, added: str, separator: str
) -> None:
    usual = "\t" if kind == "tsv" else ","
    delimiter = kept.delimiter if kept.delimiter is not None and kind == "csv" else usual
    with text_file(path, kept.encoding or "utf-8") as file:
        table = csv_writer(file, delimiter)
        for number, row in enumerate(rows):
            if number == 0:
                table.writerow(list(row))
            table.writerow(_cells(row, added, separator))


def _write_excel(rows: Iterator[dict[str, Any]], path: str, added: str, separator: str) -> None:
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.utils.exceptions import IllegalCharacterError
    except ModuleNotFoundError:
        raise MissingLibraryError("Excel files need the extra `excel`: pip install 'orderfree[excel]'.") from None
    book = Workbook(write_only=True)
    sheet = book.create_sheet()

    def cell(value: Any) -> Any:
        made = WriteOnlyCell(sheet, value)
        if isinstance(value, str) and value.startswith(FORMULA_STARTS):
            made.data_type = "s"  # text, not a formula
        return made

    try:
        for number, row in enumerate(rows):
            if number == 0:
                sheet.append([cell(name) for name in row])
            sheet.append([cell(value) for value in _cells(row, added, separator)])
    except IllegalCharacterError:
        raise DataError("a text holds a control character, which Excel cannot hold; write a .csv file.", path) from None
    with writing(Path(path)) as file:
        book.save(file)
