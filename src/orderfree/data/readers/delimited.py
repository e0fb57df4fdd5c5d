"""CSV and TSV: cells between delimiters. Delimiter and encoding are recognised from the first lines."""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator
from itertools import chain, islice

from ...config import DataConfig
from ...types import Example
from .columns import table_examples
from .recognise import Look, column_names
from .source import Source, readers

LARGEST_CELL = 1 << 25  # an unclosed quote swallows the rest of a file: stop before memory does
DELIMITERS = (",", ";", "\t", "|")
LOOKED_AT = 200  # lines by which a table is recognised
LOOKED_AT_CHARACTERS = 1 << 20
_EXCELS_HINT = re.compile(r'"?sep=(.)"?\r?\n?')  # Excel takes the delimiter from a first line such as sep=;


@readers.register("csv")
def read_csv(source: Source, options: DataConfig) -> Iterator[Example]:
    return _read(source, options, ",")


@readers.register("tsv")
def read_tsv(source: Source, options: DataConfig) -> Iterator[Example]:
    return _read(source, options, "\t")


def look_at_csv(source: Source, options: DataConfig) -> Look:
    return _opened(source, options, ",")[1]


def look_at_tsv(source: Source, options: DataConfig) -> Look:
    return _opened(source, options, "\t")[1]


def _read(source: Source, options: DataConfig, usual: str) -> Iterator[Example]:
    rows, look = _opened(source, options, usual)
    header = next(rows, None)
    if header is not None:
        yield from table_examples(rows, look, source, options)


def _opened(source: Source, options: DataConfig, usual: str) -> tuple[Iterator[list[str]], Look]:
    """All rows, the header first, and what the first lines say of them."""
    csv.field_size_limit(LARGEST_CELL)
    source.maybe_western = True
    lines = source.lines(keep_ends=True)
    first = _first_lines(lines)
    skipped = 0
    delimiter = options.delimiter
    if first and (hint := _EXCELS_HINT.fullmatch(first[0])):
        delimiter, skipped = delimiter or hint[1], 1
    first = first[skipped:]
    delimiter = delimiter or recognised_delimiter(first, usual)
    parsed = _parsed(first, delimiter)
    names = column_names(parsed[0]) if parsed else []
    complete = [dict(zip(names, row, strict=True)) for row in parsed[1:] if len(row) == len(names)]
    encoding = "utf-8-sig" if source.marked and source.encoding == "utf-8" else source.encoding
    look = Look(names, complete, encoding or "utf-8", delimiter, delimiter != usual)
    return _rows(source, chain(first, lines), delimiter, skipped), look


def _first_lines(lines: Iterator[str]) -> list[str]:
    first: list[str] = []
    characters = 0
    for line in islice(lines, LOOKED_AT):
        first.append(line)
        characters += len(line)
        if characters > LOOKED_AT_CHARACTERS:
            break
    return first


def recognised_delimiter(lines: list[str], usual: str) -> str:
    """The usual one wherever it divides the header, else the only one that divides all of these lines alike."""
    if len(next(iter(_parsed(lines[:1], usual)), [])) > 1:
        return usual
    fitting = []
    for delimiter in DELIMITERS:
        rows = _parsed(lines, delimiter)
        if rows and len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows):
            fitting.append(delimiter)
    return fitting[0] if len(fitting) == 1 else usual


def _parsed(lines: list[str], delimiter: str) -> list[list[str]]:
    """Rows of the first lines; one that may go on behind them is left out, as is what stands behind damage."""
    rows: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        rows.extend(row for row in csv.reader(lines, delimiter=delimiter, strict=True) if row)
    return rows


def _rows(source: Source, lines: Iterator[str], delimiter: str, skipped: int) -> Iterator[list[str]]:
    """Rows that hold anything; while one is out, `source.line` is the line it begins on."""
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        begin = rows.line_num + 1 + skipped
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            source.line = begin
            if "new-line character" in str(error):
                raise source.error(
                    "lines end in a carriage return alone, as old Mac programs write them, expected line feeds; save "
                    "the table anew as CSV UTF-8."
                ) from None
            raise source.error(
                f"the row that begins here is not well formed ({error}); "
                'enclose cells that hold quotes in quotes and double the ones inside ("").'
            ) from None
        source.line = begin
        if row:
            yield row
