"""Tables written again: all columns of the one that was read, in its delimiter and encoding, perhaps with labels."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import ConfigError, DataError, MissingLibraryError
from ..system.files import is_standard_output, writing
from .readers import KeptRows
from .writers import FORMULA_STARTS, PREDICTED_LABELS, SUGGESTED_LABELS, SUGGESTIONS, csv_writer, label_cell, text_file

KINDS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".xlsx": "xlsx",
    ".parquet": "parquet",
}
HOLD_LISTS = ("jsonl", "json", "parquet")
BATCH_ROWS = 1000

Row = dict[str, Any]


def write_kept_rows(
    records: Iterator[Row], kept: KeptRows, path: str, format: str | None, column: str, separator: str
) -> None:
    """Takes records with labels and perhaps suggestions, in the order of the rows. The labels go to a new column of
    this name, or `predicted_…` where the table has one; a format that is not given is that of the name, or the input's.
    """
    first = next(records)  # now it is known what kind of table it is
    kind = format or _kind_of(path, kept)
    added = column
    taken = {name.casefold() for name in kept.rows[0]}
    while added.casefold() in taken:  # `Tags` beside `tags` would confuse
        added = f"predicted_{added}"

    def rows() -> Iterator[Row]:
        for record in chain([first], records):
            labels = record["labels"] if kind in HOLD_LISTS else label_cell(record["labels"], separator)
            row = {**kept.rows.popleft(), added: labels}
            yield row | ({SUGGESTIONS: record[SUGGESTIONS]} if SUGGESTIONS in record else {})

    write_rows(rows(), kept, path, kind, {added: PREDICTED_LABELS, SUGGESTIONS: SUGGESTED_LABELS})


def write_rows(
    rows: Iterator[Row], kept: KeptRows, path: str, kind: str, types: dict[str, pa.DataType] | None = None
) -> None:
    """`kept`: the table they come from. `types`: of columns that Parquet needs and that table does not have."""
    if kind not in _WRITERS and kind != "parquet":
        raise ConfigError(
            f"a table with its columns cannot be written as {kind!r}; known: {', '.join(KINDS.values())}."
        )
    whole = chain([next(rows)], rows)  # now delimiter, encoding and types of the table are known
    try:
        if kind == "parquet":
            _write_parquet(whole, path, kept, types or {})
        else:
            _WRITERS[kind](whole, path, kept)
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
        raise ConfigError(f"--out {path}: the file name does not tell its format; expected {', '.join(KINDS)}.")
    return KINDS[suffix]


def _table(rows: Iterator[Row], path: str) -> Iterator[list[Any]]:
    """The header and the cells of every row; lists and objects of JSON as JSON."""
    header: list[str] = []
    for number, row in enumerate(rows, start=1):
        if number == 1:
            header = list(row)
            yield header
        _refuse_others(row, header, number, path)
        values = [row.get(name) for name in header]
        yield [_json(value) if isinstance(value, list | dict) else value for value in values]


def _refuse_others(row: Row, header: list[str], number: int, path: str) -> None:
    """Objects of JSON may have different fields, rows of a table may not."""
    if others := row.keys() - set(header):
        raise DataError(
            f"example {number:,} has the field {min(others)!r}, which the first has not; write a .jsonl file.", path
        )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)  # times of Parquet have no JSON


def _write_csv(rows: Iterator[Row], path: str, kept: KeptRows) -> None:
    _write_delimited(rows, path, kept, kept.delimiter or ",")


def _write_tsv(rows: Iterator[Row], path: str, kept: KeptRows) -> None:
    _write_delimited(rows, path, kept, "\t")


def _write_delimited(rows: Iterator[Row], path: str, kept: KeptRows, delimiter: str) -> None:
    with text_file(path, kept.encoding or "utf-8") as file:
        csv_writer(file, delimiter).writerows(_table(rows, path))


def _write_jsonl(rows: Iterator[Row], path: str, kept: KeptRows) -> None:
    with text_file(path) as file:
        file.writelines(_json(row) + "\n" for row in rows)


def _write_json(rows: Iterator[Row], path: str, kept: KeptRows) -> None:
    """A list, one object on each line."""
    with text_file(path) as file:
        before = "[\n"
        for row in rows:
            file.write(before + _json(row))
            before = ",\n"
        file.write("\n]\n")


def _write_parquet(rows: Iterator[Row], path: str, kept: KeptRows, types: dict[str, pa.DataType]) -> None:
    """With the types of the table they come from; what comes from another format is text."""
    first = next(rows)
    known = {} if kept.schema is None else {field.name: field.type for field in kept.schema}
    schema = pa.schema([(name, types.get(name) or known.get(name, pa.string())) for name in first])
    whole = enumerate(chain([first], rows), start=1)
    with writing(Path(path)) as raw, pq.ParquetWriter(raw, schema) as file:
        while numbered := list(islice(whole, BATCH_ROWS)):
            for number, row in numbered:
                _refuse_others(row, list(first), number, path)
            batch = [_with_pairs(row) for _, row in numbered]
            try:
                file.write_batch(pa.RecordBatch.from_pylist(batch, schema=schema))
            except (pa.ArrowException, TypeError) as error:
                reason = str(error).splitlines()[0]
                raise DataError(f"a cell does not fit its column ({reason}); write a .jsonl file.", path) from None


def _with_pairs(row: Row) -> Row:
    """Arrow takes a map as pairs."""
    return {**row, SUGGESTIONS: list(row[SUGGESTIONS].items())} if SUGGESTIONS in row else row


def _write_excel(rows: Iterator[Row], path: str, kept: KeptRows) -> None:
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
        for cells in _table(rows, path):
            sheet.append([cell(value) for value in cells])
    except IllegalCharacterError:
        raise DataError("a text holds a control character, which Excel cannot hold; write a .csv file.", path) from None
    with writing(Path(path)) as file:
        book.save(file)


_WRITERS: dict[str, Callable[[Iterator[Row], str, KeptRows], None]] = {
    "csv": _write_csv,
    "tsv": _write_tsv,
    "jsonl": _write_jsonl,
    "json": _write_json,
    "xlsx": _write_excel,
}
