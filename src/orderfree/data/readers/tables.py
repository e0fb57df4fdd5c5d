"""Tables: CSV, TSV and Parquet. Labels are one column, or one column of zeros and ones each (`label_columns`)."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...config import DataConfig
from ...errors import nearest
from ...types import Example
from .checks import cell_labels, label_list, text_value
from .source import Source, readers

LARGEST_CELL = 1 << 25  # an unclosed quote swallows the rest of a file: stop before memory does
LARGEST_ROW = 1 << 26  # bytes of the columns that are read
LARGEST_COLUMN = 1 << 28  # bytes of one column of a row group, where it is packed more tightly than data ever is
LARGEST_RATIO = 1000
WIDEST_NUMBER = 8
PARQUET_ROWS = 16  # unpacked at once: a value that is stored once can stand in all of them
ALL_OTHERS = ["*"]
_FLAGS: dict[Any, bool] = {"0": False, "1": True, 0: False, 1: True}


@dataclass(frozen=True)
class Columns:
    """Which columns are read, by name."""

    text: str | None
    id: str | None
    labels: str | None
    flags: tuple[str, ...]  # one 0/1 column per label
    features: str | None = None  # instead of text (Parquet)
    unknown: str | None = None

    def names(self) -> list[str]:
        own = (self.text, self.features, self.id, self.labels, *self.flags, self.unknown)
        return [name for name in own if name is not None]


@readers.register("csv")
def read_csv(source: Source, options: DataConfig) -> Iterator[Example]:
    return _read_delimited(source, options, ",")


@readers.register("tsv")
def read_tsv(source: Source, options: DataConfig) -> Iterator[Example]:
    return _read_delimited(source, options, "\t")


@readers.register("parquet")
def read_parquet(source: Source, options: DataConfig) -> Iterator[Example]:
    with source.open_seekable() as file:
        try:
            table = pq.ParquetFile(file)
            columns = _choose(table.schema_arrow.names, options, source, options.features_field)
            part = source.part or range(table.metadata.num_rows)
            groups, read = _row_groups(table.metadata, part)
            _check_sizes(table.metadata, groups, columns.names(), source)
            for batch in table.iter_batches(batch_size=PARQUET_ROWS, row_groups=groups, columns=columns.names()):
                before = max(part.start - read, 0)
                wanted = batch.slice(before, max(part.stop - read - before, 0))
                for number in range(len(wanted)):
                    source.row = read + before + number + 1
                    source.position = source.row - 1
                    one = wanted.slice(number, 1)
                    example = source.unless_bad(
                        options.skip_bad, _parquet_example, one, columns, options, source, table.schema_arrow
                    )
                    if example is not None:
                        yield example
                read += len(batch)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0]
            raise source.error(f"is not a readable Parquet file ({reason}); check the file or its format.") from None


def _parquet_example(
    row: pa.RecordBatch, columns: Columns, options: DataConfig, source: Source, schema: pa.Schema
) -> Example:
    if row.nbytes > LARGEST_ROW:
        raise source.error(f"takes {row.nbytes:,} bytes, expected at most {LARGEST_ROW:,}; cut it into pieces.")
    [values] = row.to_pylist()
    features = _features(values, columns, schema, source)
    return replace(_example(values, columns, options, source), features=features)


def _check_sizes(metadata: pq.FileMetaData, groups: list[int], names: list[str], source: Source) -> None:
    """A few kilobytes can stand for gigabytes, by compression or because a value is stored once and repeated: refused
    where the footer shows that one value may be too large for memory, or that a list of a row is."""
    for group in (metadata.row_group(number) for number in groups):
        for column in (group.column(place) for place in range(group.num_columns)):
            if column.path_in_schema.partition(".")[0] not in names:
                continue
            packed, unpacked = column.total_compressed_size, column.total_uncompressed_size
            repeated = column.num_values * WIDEST_NUMBER if column.physical_type != "BYTE_ARRAY" else 0
            size = max(unpacked, repeated)
            if size > LARGEST_COLUMN and size > LARGEST_RATIO * packed:
                raise source.error(
                    f"the column {column.path_in_schema!r} would unpack {packed:,} bytes to {size:,}, "
                    f"more than {LARGEST_RATIO:,} times as many; write the file anew in smaller row groups."
                )


def _row_groups(metadata: pq.FileMetaData, part: range) -> tuple[list[int], int]:
    """The row groups that hold rows of this part, and how many rows stand before them."""
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    starts = [0, *accumulate(sizes)]
    groups = [g for g in range(len(sizes)) if starts[g] < part.stop and part.start < starts[g + 1]]
    return groups, starts[groups[0]] if groups else 0


def _read_delimited(source: Source, options: DataConfig, delimiter: str) -> Iterator[Example]:
    rows = _rows(source, delimiter)
    header = next(rows, None)
    if header is None:
        return
    columns = _choose(header, options, source)

    def example(row: list[str]) -> Example:
        if len(row) != len(header):
            raise source.error(
                f"has {len(row)} cells, expected {len(header)} as in the header; "
                "quote cells that hold the delimiter or a line break."
            )
        return _example(dict(zip(header, row, strict=True)), columns, options, source)

    for row in rows:
        if (made := source.unless_bad(options.skip_bad, example, row)) is not None:
            yield made


def _rows(source: Source, delimiter: str) -> Iterator[list[str]]:
    """Rows that hold anything; while one is out, `source.line` is the line it begins on."""
    csv.field_size_limit(LARGEST_CELL)
    rows = csv.reader(source.lines(keep_ends=True), delimiter=delimiter, strict=True)
    while True:
        begin = rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            source.line = begin
            raise source.error(
                f"the row that begins here is not well formed ({error}); "
                'enclose cells that hold quotes in quotes and double the ones inside ("").'
            ) from None
        source.line = begin
        if row:
            yield row


def _choose(names: list[str], options: DataConfig, source: Source, features: str | None = None) -> Columns:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise source.error(f"the column {repeated[0]!r} occurs twice in the header; rename one of them.")
    own_id = options.id_field if options.id_field in names else None
    text: str | None = options.text_field
    features = features if features in names and text not in names else None
    if features is None:
        _require(options.text_field, names, "data.text_field", source)
    else:
        text = None
    if not source.labelled:
        return Columns(text, own_id, None, (), features)
    if options.label_columns is None:
        _require(options.labels_field, names, "data.labels_field", source, "expected a list of labels in it; ")
        unknown = options.unknown_field if options.unknown_field in names else None
        return Columns(text, own_id, options.labels_field, (), features, unknown)
    flags = options.label_columns
    if flags == ALL_OTHERS:
        flags = [name for name in names if name not in (text, own_id, features)]
    for flag in flags:
        _require(flag, names, "data.label_columns", source)
    return Columns(text, own_id, None, tuple(flags), features)


def _features(row: dict[str, Any], columns: Columns, schema: pa.Schema, source: Source) -> np.ndarray | None:
    """One list of numbers an item, or a list of such lists: (F,) or (T, F)."""
    if columns.features is None:
        return None
    kind = schema.field(columns.features).type
    while pa.types.is_nested(kind) and kind.num_fields == 1:
        kind = kind.field(0).type
    try:
        values = np.array(row[columns.features], dtype=np.uint8 if kind == pa.uint8() else np.float32)
    except (ValueError, TypeError):
        values = np.zeros(0)
    if values.ndim not in (1, 2) or not values.size:
        raise source.error(
            f"the column {columns.features!r} holds no features, expected a list of numbers or of lists of one length."
        )
    return values


def _require(name: str, names: list[str], setting: str, source: Source, expected: str = "") -> None:
    if name not in names:
        known = ", ".join(map(repr, names[:20])) + (" …" if len(names) > 20 else "")
        raise source.error(
            f"the column {name!r} is missing, {expected}the columns are {known}; "
            f"add it or correct {setting}.{nearest(name, names)}"
        )


def _example(row: dict[str, Any], columns: Columns, options: DataConfig, source: Source) -> Example:
    text = None if columns.text is None else text_value(row[columns.text], columns.text, source, [])
    labels: tuple[str, ...] | None = None
    unknown: tuple[str, ...] | None = ()
    if columns.labels is not None and row[columns.labels] is None:  # Parquet's null
        labels, unknown = (), None
    elif columns.labels is not None:
        labels = _cell_labels(row[columns.labels], columns.labels, options, source)
        if columns.unknown is not None and row[columns.unknown] is not None:
            unknown = _cell_labels(row[columns.unknown], columns.unknown, options, source)
    elif source.labelled:
        given = {name: _flag(row[name], name, source) for name in columns.flags}
        labels = tuple(name for name, flag in given.items() if flag)
        unknown = tuple(name for name, flag in given.items() if flag is None)
        unknown = None if given and len(unknown) == len(given) else unknown
    own_id = source.example_id(row[columns.id] if columns.id else None)
    return Example(own_id, text=text, labels=labels, unknown=unknown)


def _cell_labels(value: Any, column: str, options: DataConfig, source: Source) -> tuple[str, ...]:
    if isinstance(value, str):
        return cell_labels(value, options.label_separator, source.counts)
    if options.classes is not None and isinstance(value, list):  # indices of the class list
        value = [str(label) if isinstance(label, int) else label for label in value]
    return label_list(value, column, source, [])


def _flag(value: Any, name: str, source: Source) -> bool | None:
    """None: an empty cell, which says that it is not known."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    key = value.strip() if isinstance(value, str) else value
    if not isinstance(key, str | int | float) or key not in _FLAGS:
        raise source.error(
            f"the column {name!r} holds {value!r}, expected 0 or 1, or nothing where it is not known; "
            "correct it or leave the column out of data.label_columns."
        )
    return _FLAGS[key]
