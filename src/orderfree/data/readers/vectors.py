"""Features instead of text: multi-label LIBSVM (sparse) and NumPy archives (dense)."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from ...config import DataConfig
from ...errors import nearest
from ...types import Example, SparseVector
from .checks import split_labels
from .source import Source, readers

LARGEST_INDEX = np.iinfo(np.int32).max


@readers.register("libsvm")
def read_libsvm(source: Source, options: DataConfig) -> Iterator[Example]:
    """`1,3 5:0.2 7:1.0`; a line that begins with a blank has no labels; `#` begins a comment."""
    for line in source.lines():
        content = line.partition("#")[0]
        if not content:
            continue
        names, terms = "", content.split()
        if not content[0].isspace() and (source.labelled or ":" not in terms[0]):
            names, *terms = terms
        if ":" in names:
            raise source.error(
                f"begins with {names!r}, expected labels such as 1,3; begin the line with a blank if it has none."
            )
        labels = split_labels(names, ",") if source.labelled else None
        yield Example(source.example_id(None), features=_sparse(terms, source), labels=labels)


def _sparse(terms: list[str], source: Source) -> SparseVector:
    numbers, values = [], []
    for term in terms:
        number, _, value = term.partition(":")
        try:
            numbers.append(int(number))
            values.append(float(value))
        except ValueError:
            raise source.error(
                f"{term!r} is no feature, expected number:value such as 5:0.2; labels are joined by commas only."
            ) from None
    if numbers and not 1 <= min(numbers) <= max(numbers) <= LARGEST_INDEX:
        raise source.error(f"feature numbers must lie in 1 … {LARGEST_INDEX:,}; add 1 to all if they count from 0.")
    for before, after in pairwise(numbers):
        if after <= before:
            raise source.error(f"feature {after} follows {before}, expected rising numbers, each once; sort them.")
    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinity and is refused as such
        return SparseVector(np.array(numbers, np.int64).astype(np.int32) - np.int32(1), np.array(values, np.float32))


@readers.register("npz")
def read_npz(source: Source, options: DataConfig) -> Iterator[Example]:
    """Features (N, F) or (N, T, F), 0/1 targets (N, L); optional arrays `label_names`, `n_frames` and `ids`."""
    with source.open_seekable() as file:
        archive = _Archive(file, source)
        features = archive.numbers(options.features_field, "data.features_field")  # (N, F) or (N, T, F)
        if features.ndim not in (2, 3):
            raise source.error(
                f"the array {options.features_field!r} has shape {features.shape}, expected 2 or 3 axes."
            )
        frames = _frame_counts(archive, features, source)
        ids = archive.column("ids", len(features))
        names, targets = _targets(archive, options, len(features), source) if source.labelled else (None, None)
    for i in range(len(features)):
        source.row = i + 1
        dense = as_features(features[i, : None if frames is None else frames[i]])  # (F,) or (T, F)
        labels = None
        if names is not None and targets is not None:
            labels = tuple(names[column] for column in np.flatnonzero(targets[i]))
        yield Example(source.example_id(None if ids is None else str(ids[i])), features=dense, labels=labels)


def as_features(values: np.ndarray) -> np.ndarray:
    """float32, or the bytes of features that were quantised: a quarter of the size."""
    with np.errstate(over="ignore"):  # what is too large becomes infinity and is refused as such
        return values.astype(np.uint8 if values.dtype == np.uint8 else np.float32)


class _Archive:
    """An .npz file whose arrays are read when asked for; never one that holds pickles."""

    def __init__(self, file: Any, source: Source) -> None:
        self.source = source
        self.arrays = self._read(lambda: np.load(file, allow_pickle=False))
        if not isinstance(self.arrays, np.lib.npyio.NpzFile):
            raise source.error("holds a single array, expected an .npz archive; save it with numpy.savez.")

    def _read(self, action: Any) -> Any:
        try:
            return action()
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise self.source.error(
                f"is not a readable .npz archive of plain arrays ({error}); save it with numpy.savez."
            ) from None

    def get(self, name: str, setting: str) -> np.ndarray:
        if name not in self.arrays.files:
            raise self.source.error(
                f"the array {name!r} is missing, the file holds {', '.join(self.arrays.files) or 'none'}; "
                f"add it or correct {setting}.{nearest(name, self.arrays.files)}"
            )
        return self._read(lambda: self.arrays[name])

    def numbers(self, name: str, setting: str) -> np.ndarray:
        array = self.get(name, setting)
        if array.dtype.kind not in "buif":
            raise self.source.error(f"the array {name!r} is of type {array.dtype}, expected real numbers.")
        return array

    def column(self, name: str, length: int) -> np.ndarray | None:
        """An optional array of that many entries."""
        if name not in self.arrays.files:
            return None
        array = self._read(lambda: self.arrays[name])
        if array.shape != (length,):
            raise self.source.error(f"the array {name!r} has shape {array.shape}, expected ({length},); correct it.")
        return self._read(lambda: array.astype(str)) if array.dtype.kind == "S" else array


def _frame_counts(archive: _Archive, features: np.ndarray, source: Source) -> np.ndarray | None:
    """How many frames of each item are real, the others being padding."""
    frames = archive.column("n_frames", len(features)) if features.ndim == 3 else None
    if frames is None:
        return None
    if frames.dtype.kind not in "iu":
        raise source.error(f"the array 'n_frames' is of type {frames.dtype}, expected whole numbers.")
    wrong = np.flatnonzero((frames < 1) | (frames > features.shape[1]))
    if len(wrong):
        source.row = int(wrong[0]) + 1
        raise source.error(
            f"'n_frames' is {frames[wrong[0]]}, expected 1 … {features.shape[1]}; correct or leave out this item."
        )
    return frames


def _targets(archive: _Archive, options: DataConfig, length: int, source: Source) -> tuple[list[str], np.ndarray]:
    field = options.targets_field
    targets = archive.numbers(field, "data.targets_field")
    if targets.ndim != 2 or len(targets) != length:
        raise source.error(
            f"the array {field!r} has shape {targets.shape}, expected ({length}, labels) as "
            f"{options.features_field!r} has {length} rows."
        )
    wrong = np.flatnonzero(((targets != 0) & (targets != 1)).any(axis=1))
    if len(wrong):
        source.row = int(wrong[0]) + 1
        raise source.error(f"the array {field!r} holds something other than 0 and 1; write 1 for each label it has.")
    given = archive.column("label_names", targets.shape[1])
    names = [str(name) for name in (range(targets.shape[1]) if given is None else given)]
    if len(set(names)) < len(names):
        raise source.error("the array 'label_names' names a label twice; rename one of them.")
    return names, targets
