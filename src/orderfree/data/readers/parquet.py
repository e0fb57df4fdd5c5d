"""Parquet: a table stored column by column, which may hold features instead of texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...config import DataConfig
from ...errors import DataError
from ...types import Example
from .columns import Columns, choose, row_example
from .recognise import Look, recognised
from .source import Source, readers

LARGEST_ROW = 1 << 26  # bytes of the columns that are read
LARGEST_COLUMN = 1 << 28  # bytes of one column of a row group, where it is packed more tightly than data ever is
LARGEST_RATIO = 1000
WIDEST_NUMBER = 8
PARQUET_ROWS = 16  # unpacked at once: a value that is stored once can stand in all of them


@readers.register("parquet")
def read_parquet(source: Source, options: DataConfig) -> Iterator[Example]:
    with source.open_seekable() as file:
        try:
            table = pq.ParquetFile(file)
            options = recognised(_look(table, options, source), options, source)
            columns = choose(table.schema_arrow.names, options, source, options.features_field)
            part = source.part or range(table.metadata.num_rows)
            groups, read = _row_groups(table.metadata, part)
            source.schema = table.schema_arrow
            names = source.schema.names if source.keeps_rows else columns.names()
            _check_sizes(table.metadata, groups, names, source)
            for batch in table.iter_batches(batch_size=PARQUET_ROWS, row_groups=groups, columns=names):
                before = max(part.start - read, 0)
                wanted = batch.slice(before, max(part.stop - read - before, 0))
                for number in range(len(wanted)):
                    source.row = read + before + number + 1
                    source.position = source.row - 1
                    one = wanted.slice(number, 1)
                    example = source.unless_bad(options.skip_bad, _parquet_example, one, columns, options, source)
                    if example is not None:
                        yield example
                read += len(batch)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0]
            raise source.error(f"is not a readable Parquet file ({reason}); check the file or its format.") from None


def look_at_parquet(source: Source, options: DataConfig) -> Look:
    with source.open_seekable() as file:
        try:
            return _look(pq.ParquetFile(file), options, source)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0]
            raise source.error(f"is not a readable Parquet file ({reason}); check the file or its format.") from None


def _look(table: pq.ParquetFile, options: DataConfig, source: Source) -> Look:
    """The names of all columns, and some rows of those that hold text or numbers where these are not known."""
    names = table.schema_arrow.names
    labelled = not source.labelled or options.labels_field in names
    known = (options.text_field in names and labelled) or options.features_field in names
    if known or not table.num_row_groups:
        return Look(names, [])
    plain = [field.name for field in table.schema_arrow if not pa.types.is_nested(field.type)]
    try:
        _check_sizes(table.metadata, [0], plain, source)
    except DataError:  # too large to look at; whoever reads these columns says so
        return Look(names, [])
    batch = next(table.iter_batches(batch_size=PARQUET_ROWS, row_groups=[0], columns=plain), None)
    return Look(names, batch.to_pylist() if batch is not None and batch.nbytes <= LARGEST_ROW else [])


def _parquet_example(row: pa.RecordBatch, columns: Columns, options: DataConfig, source: Source) -> Example:
    if row.nbytes > LARGEST_ROW:
        raise source.error(f"takes {row.nbytes:,} bytes, expected at most {LARGEST_ROW:,}; cut it into pieces.")
    try:
        [values] = row.to_pylist()
    except ValueError as error:  # nanoseconds, which Python's times do not hold
        raise source.error(f"holds a value that cannot be kept ({str(error).splitlines()[0]}).") from None
    if source.keeps_rows:
        source.record = values
    features = _features(values, columns, source.schema, source)
    return replace(row_example(values, columns, options, source), features=features)


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
