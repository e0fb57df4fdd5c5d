"""The description of a corpus, and the function that reads its parts from the data folder."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...config import DataConfig
from ...errors import DataError
from ...system.registry import Registry
from ...types import Example
from ..readers import read_examples

Part = Callable[[], Iterator[Example]]  # reads from the beginning each time it is called
Parts = dict[str, Part]  # train, valid, test, and perhaps more parts whose names begin with test_
Load = Callable[[Path, int], Parts]  # (data folder, seed)


@dataclass(frozen=True)
class CorpusInfo:
    name: str
    title: str
    source_note: str  # where to get it, and its path in the data folder
    comparable: Literal["yes", "near", "no"]  # whether scores may be set beside the paper's
    caveat: str  # what to know before such a comparison
    printed: dict[str, float] | None  # the paper's row of statistics; None: it has none


@dataclass(frozen=True)
class CorpusEntry:
    info: CorpusInfo
    load: Load


corpora: Registry[CorpusEntry] = Registry("corpus")


def printed_row(*values: float) -> dict[str, float]:
    """A row of the paper's table "Summary of datasets", as far as it applies."""
    columns = ("train", "valid", "test", "labels", "words_per_sample", "labels_per_sample")
    return dict(zip(columns, values, strict=False))


def corpus(info: CorpusInfo) -> Callable[[Load], Load]:
    """Decorator: registers the function that loads this corpus."""

    def add(load: Load) -> Load:
        corpora.register(info.name)(CorpusEntry(info, load))
        return load

    return add


def part_of_file(path: Path, advice: str, format: str = "auto") -> Part:
    """The examples of a file or folder; every error message ends with `advice` on how to get it."""
    if not path.exists():
        raise DataError(f"there is no such file. {advice}", path)

    def read() -> Iterator[Example]:
        try:
            yield from read_examples(path, DataConfig(format=format), labelled=True)
        except DataError as error:
            raise DataError(f"{error} {advice}") from None

    return read


def kept(part: Part, keep: Callable[[Example], bool]) -> Part:
    return lambda: filter(keep, part())


def label_set(example: Example) -> frozenset[str]:
    return frozenset(example.labels or ())


def limited(part: Part, number: int, seed: int) -> Part:
    """A random sample of `number` examples, in their order; all of them if there are no more."""
    ids = sorted(example.id for example in part())
    chosen = frozenset(random.Random(seed).sample(ids, min(number, len(ids))))
    return kept(part, lambda example: example.id in chosen)
