"""`orderfree convert`: any format as any other that can hold the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from ..config import DataConfig
from ..data.readers import detect_format
from ..data.writers import write_examples, written_files
from ..errors import OrderfreeError
from ..system.files import is_standard_output, is_stream
from ..types import Example, SparseVector


def convert_examples(examples: Iterator[Example], output: str, kind: str | None, data: DataConfig) -> int:
    """Writes the examples in the format given, or told by the name; how many there were."""
    if is_standard_output(output) and kind is None:
        raise OrderfreeError("standard output needs a format; choose one with --out-format.")
    kind = kind or detect_format(output)
    for file in written_files(output, kind):
        if file.exists() and not is_stream(file):
            raise OrderfreeError(f"{file}: already exists; name a new file.")
    written = 0

    def counted() -> Iterator[Example]:
        nonlocal written
        for example in _held(examples, kind):
            written += 1
            yield example

    write_examples(counted(), output, kind, data.model_copy(update={"label_columns": None}))
    return written


def _held(examples: Iterable[Example], kind: str) -> Iterable[Example]:
    """Features as the format holds them: numbers of terms with values in LIBSVM, whole vectors in npz."""
    if kind == "npz":
        kept = list(examples)
        sizes = [
            int(e.features.indices[-1]) + 1
            for e in kept
            if isinstance(e.features, SparseVector) and len(e.features.indices)
        ]
        return [_dense(example, max(sizes, default=1)) for example in kept]
    return (_sparse(example) for example in examples) if kind == "libsvm" else examples


def _dense(example: Example, size: int) -> Example:
    if not isinstance(example.features, SparseVector):
        return example
    vector = np.zeros(size, dtype=np.float32)
    vector[example.features.indices] = example.features.values
    return replace(example, features=vector)


def _sparse(example: Example) -> Example:
    if not isinstance(example.features, np.ndarray) or example.features.ndim != 1:
        return example
    places = np.flatnonzero(example.features).astype(np.int32)
    return replace(example, features=SparseVector(places, example.features[places]))
