"""Texts as tf-idf bags of terms; libsvm vectors as they are."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from math import log
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from ...config import DataConfig, Section
from ...errors import DataError
from ...files import write_json
from ...types import BagInput, Example, SparseVector
from . import Arrays, Encoded

CHARACTERS = "~"  # tells a character n-gram from a word
WORD = re.compile(r"(?u)\b\w\w+\b")  # what scikit-learn's TfidfVectorizer calls a word


class BagFeaturizer:
    """Sublinear tf-idf, rows of length 1, as scikit-learn computes them with `sublinear_tf=True`; with character
    n-grams, words and n-grams are a bag each, and half of the row's squared length each.

    With more than twenty times `vocabulary_size` different terms, counting forgets the rarest half now and then, so
    that memory stays bounded: a term that is spread thinly may then be counted too low.
    """

    columns: ClassVar[dict[str, type]] = {"indices": np.int32, "weights": np.float32}

    def __init__(
        self, terms: dict[str, float] | None, size: int, ngrams: int, lowercase: bool, max_words: int, chars: int = 0
    ) -> None:
        self.terms = terms  # inverse document frequency of each; None: libsvm features
        self.input_size = size
        self.ngrams, self.chars, self.lowercase, self.max_words = ngrams, chars, lowercase, max_words
        self._ids = {term: place for place, term in enumerate(terms)} if terms is not None else {}
        self._idf = np.fromiter(terms.values(), dtype=np.float64) if terms is not None else np.zeros(0)

    @classmethod
    def fit(cls, examples: Iterable[Example], data: DataConfig, options: Section) -> BagFeaturizer:
        examples = iter(examples)
        first = next(examples)
        everything = chain([first], examples)
        if first.text is None:
            return cls(None, _widest(everything), 1, data.lowercase, data.max_words)
        ngrams, chars = int(getattr(options, "ngrams", 1)), int(getattr(options, "chars", 0))
        blank = cls({}, 0, ngrams, data.lowercase, data.max_words, chars)
        frequencies: tuple[Counter[str], ...] = (Counter(), Counter())  # of words, of character n-grams
        documents = 0
        for example in everything:
            bags, _ = blank._bags(_text(example))
            for frequency, bag in zip(frequencies, bags, strict=True):
                frequency.update(set(bag))
                if len(frequency) > 20 * data.vocabulary_size:  # memory stays bounded; counts are then lower bounds
                    commonest = dict(frequency.most_common(10 * data.vocabulary_size))
                    frequency.clear()
                    frequency.update(commonest)
            documents += 1
        terms: dict[str, float] = {}
        for frequency in frequencies:
            kept = [(term, n) for term, n in frequency.items() if n >= data.min_count]
            kept = sorted(kept, key=lambda pair: (-pair[1], pair[0]))[: data.vocabulary_size]
            terms |= {term: log((1 + documents) / (1 + n)) + 1 for term, n in sorted(kept)}
        return cls(terms, max(len(terms), 1), ngrams, data.lowercase, data.max_words, chars)

    def _bags(self, text: str) -> tuple[tuple[list[str], list[str]], bool]:
        """The words with their n-grams, the character n-grams, and whether the text was cut at `max_words`."""
        found = WORD.finditer(text.lower() if self.lowercase else text)
        words = [match.group() for match in islice(found, self.max_words + 1)]
        truncated = len(words) > self.max_words
        words = words[: self.max_words]
        longer = (
            " ".join(words[place : place + n]) for n in range(2, self.ngrams + 1) for place in range(len(words) - n + 1)
        )
        return ([*words, *longer], self._character_ngrams(words)), truncated

    def _character_ngrams(self, words: list[str]) -> list[str]:
        """Of three to `chars` characters, within words; the edges of a word count as one."""
        if not self.chars:
            return []
        marked = [f" {word} " for word in words]
        return [
            CHARACTERS + word[place : place + n]
            for n in range(3, self.chars + 1)
            for word in marked
            for place in range(len(word) - n + 1)
        ]

    def encode(self, example: Example) -> Encoded:
        if isinstance(example.features, SparseVector) and self.terms is None:
            inside = example.features.indices < self.input_size  # terms unseen in training carry nothing
            arrays = {
                "indices": example.features.indices[inside].astype(np.int32),
                "weights": example.features.values[inside].astype(np.float32),
            }
            return Encoded(arrays, len(arrays["indices"]))
        if self.terms is None:
            raise DataError(f"example {example.id!r} is a text, and this model was trained on libsvm features.")
        bags, truncated = self._bags(_text(example))
        encoded = [self._weighted(bag) for bag in (bags if self.chars else bags[:1])]
        indices = np.concatenate([places for places, _ in encoded])
        weights = np.concatenate([values for _, values in encoded]) / np.sqrt(len(encoded))
        return Encoded({"indices": indices, "weights": weights.astype(np.float32)}, len(indices), truncated)

    def _weighted(self, bag: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the known terms, and their weights: a vector of length 1."""
        counts = Counter(self._ids[term] for term in bag if term in self._ids)
        indices = np.fromiter(sorted(counts), dtype=np.int32)
        frequency = np.fromiter((counts[i] for i in indices), dtype=np.float64, count=len(indices))
        weights = (1 + np.log(frequency)) * self._idf[indices] if len(indices) else frequency
        norm = np.sqrt((weights**2).sum())
        return indices, weights / norm if norm > 0 else weights

    def collate(self, rows: Sequence[Arrays]) -> BagInput:
        lengths = np.array([len(row["indices"]) for row in rows])
        offsets = np.concatenate([[0], lengths[:-1].cumsum()])
        indices = np.concatenate([row["indices"] for row in rows]).astype(np.int64)
        weights = np.concatenate([row["weights"] for row in rows]).astype(np.float32)
        return BagInput(torch.from_numpy(indices), torch.from_numpy(weights), torch.from_numpy(offsets))

    def save(self, directory: Path) -> None:
        content = {"ngrams": self.ngrams, "chars": self.chars, "size": self.input_size, "terms": self.terms}
        write_json(directory / "vocabulary.json", content)

    @classmethod
    def load(cls, directory: Path, data: DataConfig, options: Section) -> BagFeaturizer:
        content: dict[str, Any] = json.loads((directory / "vocabulary.json").read_text(encoding="utf-8"))
        chars = content.get("chars", 0)
        return cls(content["terms"], content["size"], content["ngrams"], data.lowercase, data.max_words, chars)


def _text(example: Example) -> str:
    if example.text is None:
        raise DataError(
            f"example {example.id!r} has no text and no libsvm features; for dense features set model.encoder=dense."
        )
    return example.text


def _widest(examples: Iterator[Example]) -> int:
    """One more than the highest term number."""
    widest = 0
    for example in examples:
        if not isinstance(example.features, SparseVector):
            raise DataError(f"example {example.id!r} has dense features; set model.encoder=dense to train on them.")
        if len(example.features.indices):
            widest = max(widest, int(example.features.indices[-1]) + 1)
    return max(widest, 1)
