"""From examples to what an encoder is fed. One featurizer per kind of input; each is fitted on the training part,
saved as JSON and gives back the same arrays for the same text for ever.

A featurizer is a class with
    columns                         names and types of the arrays it makes of one example
    files                           names of the files it may save
    fit(examples, data, options)    (class method) learns its vocabulary in one pass, in memory that does not grow
    encode(example) -> Encoded      the arrays of one example
    collate(list of arrays) -> EncoderInput
    input_size                      vocabulary size, or features per frame; of several parts, one for each
    save(directory), load(directory, data)
and, where every state of its encoder stands for a piece of the text,
    spans(text)                     where each of them stands: first character, one behind the last; or None: nowhere
and, where it has a vocabulary of words,
    known_words(text)               how many words of the text are in it, and how many there are
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...config import DataConfig, Section
from ...errors import DataError
from ...system.listed import Folder
from ...types import EncoderInput, Example

Arrays = dict[str, np.ndarray]
InputSize = int | dict[str, int]


@dataclass(frozen=True, slots=True)
class Encoded:
    arrays: Arrays
    length: int  # what batches are bucketed by
    truncated: bool = False


class Featurizer(Protocol):
    @property
    def columns(self) -> dict[str, type]: ...

    @property
    def files(self) -> tuple[str, ...]: ...

    @property
    def input_size(self) -> InputSize: ...

    @classmethod
    def fit(cls, examples: Iterable[Example], data: DataConfig, options: Section) -> Featurizer: ...

    def encode(self, example: Example) -> Encoded: ...

    def collate(self, rows: Sequence[Arrays]) -> EncoderInput: ...

    def save(self, directory: Path) -> None: ...

    @classmethod
    def load(cls, directory: Folder, data: DataConfig, options: Section) -> Featurizer: ...


def encode_all(featurizer: Featurizer, examples: Sequence[Example]) -> list[Encoded]:
    """The arrays of many examples; featurizers that are faster on many at once have a method of this name."""
    at_once = getattr(featurizer, "encode_all", None)
    return at_once(examples) if at_once is not None else [featurizer.encode(example) for example in examples]


def bag_part(featurizer: Featurizer) -> Any:
    """The featurizer that makes bags of terms, or the part of a hybrid one that does; None: there is none."""
    parts = getattr(featurizer, "parts", {"": featurizer})
    return next((part for part in parts.values() if hasattr(part, "neighbours")), None)


def known_words(featurizer: Featurizer, text: str) -> tuple[int, int]:
    """How many words of a text the vocabulary has, and how many there are; of several parts, the one that knows most.
    Where no part has a vocabulary of words, as with word pieces, all are known."""
    parts = getattr(featurizer, "parts", {"": featurizer})
    counts = [part.known_words(text) for part in parts.values() if hasattr(part, "known_words")]
    words = len(text.split())
    return max(counts, default=(words, words))


def feature_count(featurizer: Featurizer) -> int:
    size = featurizer.input_size
    return sum(size.values()) if isinstance(size, dict) else size


def needs_text(example: Example, encoder: str) -> str:
    """The text of an example, or a clear error where it has features instead."""
    if example.text is None:
        raise DataError(
            f"example {example.id!r} has features but no text, and the {encoder} encoder reads text; "
            "choose model.encoder=audio or dense (--preset audio: sounds, dense features) or sparse (libsvm)."
        )
    return example.text


def kinds() -> dict[str, type[Featurizer]]:
    """Every kind of input an encoder can ask for."""
    from .bag import BagFeaturizer
    from .frames import FrameFeaturizer
    from .hybrid import HybridFeaturizer
    from .pretrained import EmbeddingFeaturizer, WordpieceFeaturizer
    from .words import WordFeaturizer

    return {
        "tokens": WordFeaturizer,
        "bag": BagFeaturizer,
        "dense": FrameFeaturizer,
        "wordpieces": WordpieceFeaturizer,
        "embedding": EmbeddingFeaturizer,
        "hybrid": HybridFeaturizer,
    }
