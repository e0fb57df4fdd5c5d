"""Arrays of features with labels beside them: NumPy (.npz, .npy) and HDF5, Kong's packed AudioSet among it.

All of them are columns with one row an item, read from front to back in chunks: memory does not grow with the file,
compressed or not.

    X  features (items, features) or (items, frames, features)
    Y  labels: a 0/1 matrix (items, labels), NaN for what is not known, or for each item (items,) label names or
       indices, joined by data.label_separator
    ids, n_frames, label_names    optional; n_frames: how many frames are real, the others being padding
"""

from __future__ import annotations

import contextlib
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from ...config import DataConfig
from ...errors import DataError, MissingLibraryError, nearest
from ...types import Example
from .checks import cell_labels
from .source import Source, readers

ROWS_AT_ONCE = 1024
BYTES_AT_ONCE = 1 << 26  # of all columns; one row must not have more
MOST_LABELS = 1 << 20  # columns of a 0/1 matrix
CHUNKS_AT_ONCE = 1 << 14  # of an HDF5 dataset: each takes some kilobytes while it is read
LARGEST_RATIO = 2000  # values to stored bytes: deflate reaches 1,032, and what was never written is stored in none
LABELS_SUFFIX = ".labels.npy"  # beside an .npy file of features


class Column(Protocol):
    shape: tuple[int, ...]
    dtype: np.dtype

    def take(self, rows: int) -> np.ndarray:
        """The next rows."""


Find = Callable[[str], Column | None]  # a column by its name
Labels = tuple[str, ...]


@readers.register("npz")
def read_npz(source: Source, options: DataConfig) -> Iterator[Example]:
    """An archive as numpy.savez and numpy.savez_compressed write it."""
    with (
        source.open_seekable() as file,
        contextlib.ExitStack() as stack,
        _damage(source, "is not a readable .npz archive of plain arrays", "save it with numpy.savez"),
    ):
        if file.read(6) == b"\x93NUMPY":
            raise source.error("holds a single array, expected an .npz archive; save it with numpy.savez.")
        archive = zipfile.ZipFile(file)
        known = [name.removesuffix(".npy") for name in archive.namelist()]

        def find(name: str) -> Column | None:
            if name not in known:
                return None
            member = archive.getinfo(f"{name}.npy")
            return _Npy(stack.enter_context(archive.open(member)), member.file_size)

        yield from _rows(source, options, find, known)


@readers.register("npy")
def read_npy(source: Source, options: DataConfig) -> Iterator[Example]:
    """One array of features; labels are a 0/1 matrix in a second file: clips.npy and clips.labels.npy."""
    labels = Path(source.path).with_suffix(LABELS_SUFFIX)
    with (
        source.open_seekable() as file,
        contextlib.ExitStack() as stack,
        _damage(source, "is not a readable .npy file of plain numbers", "save it with numpy.save"),
    ):
        columns: dict[str, Column] = {options.features_field: _Npy(file, file.seek(0, os.SEEK_END))}
        if source.labelled:
            if not labels.is_file():
                raise DataError(f"there is no such file; {source.name} needs its labels there.", labels)
            columns[options.targets_field] = _Npy(stack.enter_context(open(labels, "rb")), labels.stat().st_size)
        yield from _rows(source, options, columns.get, list(columns))


@readers.register("hdf5")
def read_hdf5(source: Source, options: DataConfig) -> Iterator[Example]:
    """Datasets of these names, or Kong's packed AudioSet: x, y and video_id_list."""
    try:
        import h5py
    except ImportError:
        raise MissingLibraryError("HDF5 files need the extra `audio`: pip install 'orderfree[audio]'.") from None
    others = {options.features_field: "x", options.targets_field: "y", "ids": "video_id_list"}
    with (
        source.open_seekable() as file,
        _damage(source, "is not a readable HDF5 file", "check the file or its format"),
    ):
        archive = h5py.File(file, "r")

        def find(name: str) -> Column | None:
            for own in (name, others.get(name, name)):
                if isinstance(archive.get(own, getlink=True), h5py.ExternalLink):
                    raise ValueError(f"{own!r} is a link to another file, which is not followed")
                if isinstance(found := archive.get(own), h5py.Dataset):
                    return _Dataset(found)
            return None

        yield from _rows(source, options, find, list(archive))


class _Npy:
    """An array in NumPy's format, read as a stream; never one that holds pickles."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file = file
        if file.seekable():
            file.seek(0)
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, by_column, self.dtype = read(file)
        if self.dtype.hasobject:
            raise ValueError("it holds Python objects")
        if min(self.shape, default=0) < 0 or math.prod(self.shape) * self.dtype.itemsize > size:
            raise ValueError(f"it says it has shape {self.shape}, which is more than the file holds")
        if by_column and len(self.shape) > 1:
            raise ValueError("it is stored column by column (Fortran order)")
        self.left = self.shape[0] if self.shape else 0

    def take(self, rows: int) -> np.ndarray:
        shape = (min(rows, self.left), *self.shape[1:])
        self.left -= shape[0]
        size = int(np.prod(shape)) * self.dtype.itemsize
        content = self.file.read(size)
        if len(content) < size:
            raise EOFError(f"it is cut off: {size - len(content):,} bytes are missing")
        return np.frombuffer(content, self.dtype).reshape(shape)


class _Dataset:
    """An HDF5 dataset."""

    def __init__(self, dataset: Any) -> None:
        if dataset.external or dataset.is_virtual:
            raise ValueError(f"{dataset.name!r} takes its values from other files, which are not read")
        self.dataset, self.start = dataset, 0
        self.shape: tuple[int, ...] = dataset.shape or ()
        values, stored = math.prod(self.shape) * dataset.dtype.itemsize, dataset.id.get_storage_size()
        if values > max(BYTES_AT_ONCE, LARGEST_RATIO * stored):
            raise ValueError(f"{dataset.name!r} says it has shape {self.shape} and stores {stored:,} bytes")
        if math.prod(dataset.chunks or ()) * dataset.dtype.itemsize > 4 * BYTES_AT_ONCE:  # it is unpacked as a whole
            raise ValueError(f"{dataset.name!r} is stored in chunks of shape {dataset.chunks}, make them smaller")
        self.rows_at_once = self.shape[0] if self.shape else 0
        if dataset.chunks and self.shape:
            wide = [math.ceil(size / part) for size, part in zip(self.shape[1:], dataset.chunks[1:], strict=True)]
            self.rows_at_once = CHUNKS_AT_ONCE // max(math.prod(wide), 1)
            if not self.rows_at_once:
                raise ValueError(f"{dataset.name!r} has rows of {math.prod(wide):,} chunks, make them larger")
        self.has_text = dataset.dtype.kind == "O"  # of any length
        if self.has_text and (dataset.dtype.metadata or {}).get("vlen") not in (bytes, str):
            raise ValueError(f"{dataset.name!r} holds neither numbers nor text")
        self.dtype = np.dtype(str) if self.has_text else dataset.dtype

    def take(self, rows: int) -> np.ndarray:
        self.start += rows
        taken = slice(self.start - rows, min(self.start, self.shape[0]))
        if self.has_text:
            return self._texts(taken)
        starts = range(taken.start, taken.stop, max(self.rows_at_once, 1))
        parts = [self.dataset[start : min(start + self.rows_at_once, taken.stop)] for start in starts]
        return np.concatenate(parts) if parts else np.asarray(self.dataset[taken])

    def _texts(self, rows: slice) -> np.ndarray:
        """One by one: all rows may refer to the same bytes, so that the size of the file says nothing."""
        texts = np.empty(rows.stop - rows.start, dtype=object)
        size = 0
        for place, row in enumerate(range(rows.start, rows.stop)):
            texts[place] = self.dataset[row]
            size += len(texts[place])
            if size > BYTES_AT_ONCE:
                raise ValueError(f"{self.dataset.name!r} holds more than {BYTES_AT_ONCE:,} bytes of text in a few rows")
        return texts


@contextlib.contextmanager
def _damage(source: Source, what: str, advice: str) -> Iterator[None]:
    """What libraries say of a file they cannot read, in one sentence."""
    try:
        yield
    except (ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise source.error(f"{what} ({reason}); {advice}.") from None


def _rows(source: Source, options: DataConfig, find: Find, known: list[str]) -> Iterator[Example]:
    """Examples from columns of one length, chunk by chunk."""
    features = _numbers(options.features_field, "data.features_field", source, find, known)
    if len(features.shape) not in (2, 3) or 0 in features.shape[1:]:
        raise source.error(
            f"the array {options.features_field!r} has shape {features.shape}, expected 2 or 3 axes, none empty."
        )
    items = features.shape[0]
    frames = _beside("n_frames", items, source, find) if len(features.shape) == 3 else None
    if frames is not None and frames.dtype.kind not in "iu":
        raise source.error(f"the array 'n_frames' is of type {frames.dtype}, expected whole numbers.")
    ids = _beside("ids", items, source, find)
    labels = _labels(items, options, source, find, known) if source.labelled else None
    targets = find(options.targets_field) if source.labelled else None  # its size alone
    at_once = _rows_at_once([column for column in (features, frames, ids, targets) if column is not None], source)
    for start in range(0, items, at_once):
        rows = min(at_once, items - start)
        values = features.take(rows)  # (rows, F) or (rows, T, F)
        lengths = None if frames is None else frames.take(rows)
        names = None if ids is None else _text(ids.take(rows))
        sets = None if labels is None else labels(rows, start)
        for i in range(rows):
            source.row = start + i + 1
            kept = source.unless_bad(
                options.skip_bad, _kept, values[i], None if lengths is None else lengths[i], source
            )
            if kept is None:
                continue
            own_id = source.example_id(None if names is None else str(names[i]))
            own, unknown = (None, ()) if sets is None else sets[i]
            yield Example(own_id, features=as_features(kept), labels=own, unknown=unknown)


def _rows_at_once(columns: list[Column], source: Source) -> int:
    """As many as fit into BYTES_AT_ONCE: sizes are known before memory is taken."""
    row = sum(math.prod(column.shape[1:]) * column.dtype.itemsize for column in columns)
    if row > BYTES_AT_ONCE:
        raise source.error(
            f"one row takes {row:,} bytes, expected at most {BYTES_AT_ONCE:,}; cut the rows into pieces."
        )
    return max(min(ROWS_AT_ONCE, BYTES_AT_ONCE // max(row, 1)), 1)


def as_features(values: np.ndarray) -> np.ndarray:
    """float32, or the bytes of features that were quantised: a quarter of the size."""
    with np.errstate(over="ignore"):  # what is too large becomes infinity and is refused as such
        return values.astype(np.uint8 if values.dtype == np.uint8 else np.float32)


def _kept(values: np.ndarray, frames: Any, source: Source) -> np.ndarray:
    """The features of one item without its padding: (F,) or (T, F)."""
    if frames is None:
        return values
    if not 1 <= frames <= len(values):
        raise source.error(f"'n_frames' is {frames}, expected 1 … {len(values)}; correct or leave out this item.")
    return values[: int(frames)]


def _numbers(name: str, setting: str, source: Source, find: Find, known: list[str]) -> Column:
    column = find(name)
    if column is None:
        raise source.error(
            f"the array {name!r} is missing, the file holds {', '.join(known) or 'none'}; "
            f"add it or correct {setting}.{nearest(name, known)}"
        )
    if column.dtype.kind not in "buif":
        raise source.error(f"the array {name!r} is of type {column.dtype}, expected real numbers.")
    return column


def _beside(name: str, items: int, source: Source, find: Find) -> Column | None:
    """An optional column with one entry an item."""
    column = find(name)
    if column is not None and column.shape != (items,):
        raise source.error(f"the array {name!r} has shape {column.shape}, expected ({items},); correct it.")
    return column


def _text(values: np.ndarray) -> Sequence[Any] | np.ndarray:
    """Bytes, as HDF5 holds text, as text. Text of any length becomes no array, where each would take as much memory as
    the longest."""
    if values.dtype.kind == "O":
        return [value.decode("utf-8") for value in values]
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values


def _labels(
    items: int, options: DataConfig, source: Source, find: Find, known: list[str]
) -> Callable[[int, int], list[tuple[Labels, Labels | None]]]:
    """A function that takes the next rows, of which the first is given, to their labels and to those that are not
    known; None: not one of them is."""
    field = options.targets_field
    column = find(field)
    if column is not None and column.shape == (items,) and column.dtype.kind in "USO":
        cells = column  # a name of its own for the function
        return lambda rows, start: [
            (cell_labels(str(c), options.label_separator, source.counts), ()) for c in _text(cells.take(rows))
        ]
    targets = _numbers(field, "data.targets_field", source, find, known)
    if len(targets.shape) != 2 or targets.shape[0] != items:
        raise source.error(
            f"the array {field!r} has shape {targets.shape}, expected ({items}, labels) as "
            f"{options.features_field!r} has {items} rows."
        )
    if targets.shape[1] > MOST_LABELS:
        raise source.error(f"the array {field!r} has {targets.shape[1]:,} labels, expected at most {MOST_LABELS:,}.")
    given = _beside("label_names", targets.shape[1], source, find)
    if given is not None and targets.shape[1] * given.dtype.itemsize > 4 * BYTES_AT_ONCE:
        raise source.error(
            f"the array 'label_names' is of type {given.dtype}, which is too long for a name; save it anew."
        )
    names = [str(name) for name in (range(targets.shape[1]) if given is None else _text(given.take(targets.shape[1])))]
    if len(set(names)) < len(names):
        raise source.error("the array 'label_names' names a label twice; rename one of them.")

    def take(rows: int, start: int) -> list[tuple[Labels, Labels | None]]:
        matrix = targets.take(rows)  # (rows, L)
        missing = np.isnan(matrix) if matrix.dtype.kind == "f" else np.zeros(matrix.shape, dtype=bool)
        wrong = np.flatnonzero(((matrix != 0) & (matrix != 1) & ~missing).any(axis=1))
        if len(wrong):
            source.row = start + int(wrong[0]) + 1
            raise source.error(
                f"the array {field!r} holds something other than 0 and 1; write 1 for each label it has."
            )
        return [
            (named(row == 1), None if names and no.all() else named(no))
            for row, no in zip(matrix, missing, strict=True)
        ]

    def named(columns: np.ndarray) -> Labels:
        return tuple(names[column] for column in np.flatnonzero(columns))

    return take
