"""Sparse features instead of text: multi-label LIBSVM."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ...config import DataConfig
from ...types import Example, SparseVector
from .checks import BLANKS, split_labels
from .source import Source, readers

LARGEST_INDEX = np.iinfo(np.int32).max


@readers.register("libsvm")
def read_libsvm(source: Source, options: DataConfig) -> Iterator[Example]:
    """`1,3 5:0.2 7:1.0`; a line that begins with a blank has no labels; `#` begins a comment."""
    for line in source.lines():
        content = line.partition("#")[0]
        if content:
            example = source.unless_bad(options.skip_bad, _example, content, source)
            if example is not None:
                yield example


def _example(content: str, source: Source) -> Example:
    names, terms = "", list(split_labels(content, " "))
    if content[0] not in BLANKS and (source.labelled or ":" not in terms[0]):
        names, *terms = terms
    if ":" in names:
        raise source.error(
            f"begins with {names!r}, expected labels such as 1,3; begin the line with a blank if it has none."
        )
    labels = split_labels(names, ",") if source.labelled else None
    return Example(source.example_id(None), features=_sparse(terms, source), labels=labels)


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
