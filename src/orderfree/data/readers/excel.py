"""Excel workbooks (.xlsx): the first sheet is the table. It is read row by row; sizes are checked before."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain, islice
from typing import IO, Any

from ...config import DataConfig
from ...errors import DataError, MissingLibraryError
from ...types import Example
from .columns import table_examples
from .delimited import LARGEST_CELL, LOOKED_AT
from .recognise import Look
from .source import Source, readers

LARGEST_STRINGS = 1 << 28  # bytes: all different texts of a workbook stand in one file that is held in memory
LARGEST_SHEET = 1 << 32
LARGEST_RATIO = 1000
MOST_COLUMNS = 1 << 14  # as many as Excel has


@readers.register("xlsx")
def read_xlsx(source: Source, options: DataConfig) -> Iterator[Example]:
    with _opened(source) as (rows, look):
        if look.names:
            yield from table_examples(rows, look, source, options)


def look_at_xlsx(source: Source, options: DataConfig) -> Look:
    with _opened(source) as (_, look):
        return look


@contextmanager
def _opened(source: Source) -> Iterator[tuple[Iterator[tuple[Any, ...]], Look]]:
    """The rows below the header, and what the first of them show."""
    with source.open_seekable() as file:
        rows = _rows(file, source)
        names = [str(cell) for cell in next(rows, ())]
        first = list(islice(rows, LOOKED_AT))
        look = Look(names, [dict(zip(names, row, strict=True)) for row in first if len(row) == len(names)])

        def again() -> Iterator[tuple[Any, ...]]:
            for number, row in enumerate(chain(first, rows), start=2):
                source.row = number
                yield row

        source.row = None
        yield again(), look


def _rows(file: IO[bytes], source: Source) -> Iterator[tuple[Any, ...]]:
    """Rows that hold anything, as wide as the header."""
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise MissingLibraryError("Excel files need the extra `excel`: pip install 'orderfree[excel]'.") from None
    try:
        _check_sizes(file, source)
        with closing(openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)) as book:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # what a file says of its size need not be so
            width = 0
            for row in sheet.iter_rows(values_only=True, max_col=MOST_COLUMNS):
                cells = tuple(_cell(value, source) for value in row)
                while cells and cells[-1] == "" and len(cells) > width:
                    cells = cells[:-1]
                if not any(cells):
                    continue
                width = width or len(cells)
                yield cells + ("",) * (width - len(cells))
    except DataError:
        raise
    except Exception as error:  # whatever a library makes of a file that is none
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise source.error(f"is not a readable Excel file ({reason}); save it anew as .xlsx, or as CSV.") from None


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
