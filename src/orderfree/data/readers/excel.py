"""Excel workbooks (.xlsx): one sheet is the table. It is read row by row; sizes are checked before."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain, islice
from typing import IO, Any

from ...config import DataConfig
from ...errors import DataError, MissingLibraryError
from ...types import Example
from .columns import table_examples
from .delimited import LARGEST_CELL, LOOKED_AT
from .recognise import Look, column_names
from .source import Source, readers

LARGEST_STRINGS = 1 << 28  # bytes: all different texts of a workbook stand in one file that is held in memory
LARGEST_SHEET = 1 << 32
LARGEST_RATIO = 1000
MOST_COLUMNS = 1 << 14  # as many as Excel has


@readers.register("xlsx")
def read_xlsx(source: Source, options: DataConfig) -> Iterator[Example]:
    with _opened(source, options) as (rows, look):
        if look.names:
            yield from table_examples(rows, look, source, options)


def look_at_xlsx(source: Source, options: DataConfig) -> Look:
    with _opened(source, options) as (_, look):
        return look


@contextmanager
def _opened(source: Source, options: DataConfig) -> Iterator[tuple[Iterator[tuple[Any, ...]], Look]]:
    """The rows below the header, and what the first of them show."""
    with source.open_seekable() as file:
        sheets: list[str] = []
        rows = _rows(file, source, options, sheets)
        names = column_names(next(rows, ()))
        first = list(islice(rows, LOOKED_AT))
        complete = [dict(zip(names, row, strict=True)) for row in first if len(row) == len(names)]
        look = Look(names, complete, sheet=next(iter(sheets), None))

        def again() -> Iterator[tuple[Any, ...]]:
            for number, row in enumerate(chain(first, rows), start=2):
                source.row = number
                yield row

        source.row = None
        yield again(), look


def _rows(file: IO[bytes], source: Source, options: DataConfig, sheets: list[str]) -> Iterator[tuple[str, ...]]:
    """Rows that hold anything, as wide as the header. `sheets` is given the sheet's name where there are several."""
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise MissingLibraryError("Excel files need the extra `excel`: pip install 'orderfree[excel]'.") from None
    try:
        _check_sizes(file, source)
        with closing(openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)) as book:
            sheet = _table_sheet(book.worksheets, source, options)
            sheets += [sheet.title] * (len(book.worksheets) > 1)
            width = 0
            for cells in _filled(sheet, source):
                width = width or len(cells)
                yield cells + ("",) * (width - len(cells))
    except DataError:
        raise
    except Exception as error:  # whatever a library makes of a file that is none
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise source.error(f"is not a readable Excel file ({reason}); save it anew as .xlsx, or as CSV.") from None


def _table_sheet(sheets: Sequence[Any], source: Source, options: DataConfig) -> Any:
    """The first sheet that has the column of the texts; else the first with several columns; else the first."""
    headers: list[tuple[str, ...]] = [next(_filled(sheet, source), ()) for sheet in sheets] if len(sheets) > 1 else [()]
    widths = [sum(cell != "" for cell in header) for header in headers]
    best = max(range(len(headers)), key=lambda place: (options.text_field in headers[place], widths[place] > 1))
    return sheets[best]


def _filled(sheet: Any, source: Source) -> Iterator[tuple[str, ...]]:
    """Rows that hold anything, without the blank cells at their ends."""
    sheet.reset_dimensions()  # what a file says of its size need not be so
    for row in sheet.iter_rows(values_only=True):
        cells = tuple(_cell(value, source) for value in row[:MOST_COLUMNS])
        filled = max((place for place, cell in enumerate(cells, start=1) if cell), default=0)
        if filled:
            yield cells[:filled]


def _check_sizes(file: IO[bytes], source: Source) -> None:
    """A workbook is a zip archive, in which a few kilobytes can stand for gigabytes."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            most = LARGEST_SHEET if "worksheets/" in member.filename else LARGEST_STRINGS
            tight = member.file_size > LARGEST_STRINGS and member.file_size > LARGEST_RATIO * member.compress_size
            if member.file_size > most or tight:
                raise source.error(
                    f"{member.filename} would unpack {member.compress_size:,} bytes to {member.file_size:,}, expected "
                    f"at most {most:,}; save the table as CSV."
                )
    file.seek(0)


def _cell(value: Any, source: Source) -> str:
    """A cell as text: numbers without a needless fraction, dates as ISO 8601 writes them."""
    if value is None:
        return ""
    if isinstance(value, str):
        if len(value) > LARGEST_CELL:
            raise source.error(f"holds a cell of {len(value):,} characters, expected at most {LARGEST_CELL:,}.")
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)
