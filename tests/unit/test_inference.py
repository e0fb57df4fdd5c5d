"""How many examples are read ahead."""

from __future__ import annotations

from collections.abc import Iterator

from orderfree.inference import CHUNK_CHARACTERS, read_ahead
from orderfree.types import Example


def test_few_long_texts_are_read_ahead_and_many_short_ones() -> None:
    drawn = 0

    def texts(length: int) -> Iterator[Example]:
        nonlocal drawn
        for drawn in range(1, 12):
            yield Example(str(drawn), text="x" * length)

    assert [len(chunk) for chunk in read_ahead(texts(1), 4)] == [4, 4, 3]
    assert [len(chunk) for chunk in read_ahead(texts(CHUNK_CHARACTERS // 2), 4)] == [2, 2, 2, 2, 2, 1]
    next(read_ahead(texts(CHUNK_CHARACTERS), 4))
    assert drawn == 1
