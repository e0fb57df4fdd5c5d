"""Texts as tf-idf bags of terms, with or without a sentence embedding beside them; libsvm vectors as they are."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from math import log
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
import torch

from ...config import BagOptions, DataConfig, Section
from ...errors import DataError
from ...scoring.neighbours import FILE as NEIGHBOURS_FILE
from ...scoring.neighbours import Neighbours
from ...scoring.shortlist import FILE as SHORTLIST_FILE
from ...scoring.shortlist import ShortlistScorer
from ...system.files import write_json
from ...system.listed import Folder, holds
from ...types import BagInput, Example, SparseVector
from . import Arrays, Encoded
from .embedder import FILES as EMBEDDER_FILES
from .embedder import Embedder

CHARACTERS = "~"  # before a character n-gram
LEAD = "{}^"  # before a word among the first so many
LEAD_WEIGHT = 0.6  # length of such a bag; that of the words is 1
LEADING = re.compile(r"^\d+\^")  # how a term with LEAD begins; no word holds a ^
WORD = re.compile(r"(?u)\b\w\w+\b")  # what scikit-learn's TfidfVectorizer calls a word


class BagFeaturizer:
    """Sublinear tf-idf as scikit-learn computes it with `sublinear_tf=True`: words and their n-grams are a vector of
    length 1. Character n-grams, leading words and the embedding stand beside it, each a vector of its own length.

    With more than twenty times `vocabulary_size` different terms, counting forgets the rarest half now and then, so
    that memory stays bounded: a term that is spread thinly may then be counted too low.
    """

    columns: ClassVar[dict[str, type]] = {"indices": np.int32, "weights": np.float32}
    # the first always, the others where there is an embedder, neighbours, or a shortlist of candidates
    files: ClassVar[tuple[str, ...]] = ("vocabulary.json", *EMBEDDER_FILES, NEIGHBOURS_FILE, SHORTLIST_FILE)

    def __init__(
        self,
        terms: dict[str, float] | None,
        size: int,
        data: DataConfig,
        options: BagOptions,
        embedder: Embedder | None = None,
    ) -> None:
        self.terms = terms  # inverse document frequency of each; None: libsvm features
        self.size = size  # terms; the dimensions of the embedding come behind them
        self.data, self.options, self.embedder = data, options, embedder
        self.neighbours: Neighbours | None = None  # until training examples have been remembered
        self.scorer: ShortlistScorer | None = None  # proposes candidate labels where labels are many
        self._ids = {term: place for place, term in enumerate(terms)} if terms is not None else {}
        self._idf = np.fromiter(terms.values(), dtype=np.float64) if terms is not None else np.zeros(0)

    @property
    def input_size(self) -> int:
        return self.size + (self.embedder.size if self.embedder is not None else 0)

    @classmethod
    def fit(cls, examples: Iterable[Example], data: DataConfig, options: Section) -> BagFeaturizer:
        assert isinstance(options, BagOptions), "an encoder that reads bags has the options of bags"
        examples = iter(examples)
        first = next(examples)
        everything = chain([first], examples)
        if first.text is None:
            if options.embeddings:
                raise DataError(
                    f"example {first.id!r} has no text to embed; use --preset fast, or leave out "
                    "model.encoder_options.embeddings."
                )
            return cls(None, _widest(everything), data, options)
        embedder = None
        if options.embeddings:
            embedder = Embedder.from_name(options.embeddings, options.embedding_tokens, options.embedding_precision)
        blank = cls({}, 0, data, options)
        frequencies: list[Counter[str]] = [Counter() for _ in blank._bags("")[0]]
        documents = 0
        for example in everything:
            bags, _ = blank._bags(_text(example))
            for frequency, (_, bag) in zip(frequencies, bags, strict=True):
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
        return cls(terms, max(len(terms), 1), data, options, embedder)

    def _bags(self, text: str) -> tuple[list[tuple[float, list[str]]], bool]:
        """Every bag with the length of its vector, the words' first; and whether the text was cut at `max_words`."""
        found = WORD.finditer(text.lower() if self.data.lowercase else text)
        words = [match.group() for match in islice(found, self.data.max_words + 1)]
        truncated = len(words) > self.data.max_words
        words = words[: self.data.max_words]
        longer = (
            " ".join(words[place : place + n])
            for n in range(2, self.options.ngrams + 1)
            for place in range(len(words) - n + 1)
        )
        bags = [(1.0, [*words, *longer])]
        if self.options.chars:
            bags.append((1.0, _character_ngrams(words, self.options.chars)))
        for lead in self.options.leads:
            bags.append((LEAD_WEIGHT, [LEAD.format(lead) + word for word in words[:lead]]))
        return bags, truncated

    def unknown_share(self, text: str) -> float:
        """Of the words of a text that are read, those the model does not know."""
        found = WORD.finditer(text.lower() if self.data.lowercase else text)
        known = [match.group() in self._ids for match in islice(found, self.data.max_words)]
        return 1 - sum(known) / len(known) if known else 0.0

    def encode(self, example: Example) -> Encoded:
        return self.encode_all([example])[0]

    def encode_all(self, examples: Sequence[Example]) -> list[Encoded]:
        encoded = [self._encode_terms(example) for example in examples]
        if self.neighbours is not None and encoded:
            bags = self.comparable(as_matrix([row.arrays for row in encoded], self.size))
            for row, own, nearest in zip(encoded, *self.neighbours.votes_and_nearest(bags), strict=True):
                row.arrays.update(votes=own, nearest=nearest)  # (L,), ()
        if self.embedder is not None:
            encoded = self._with_embeddings(examples, encoded)
        if self.scorer is not None and encoded:
            lists = self.scorer.shortlists(as_matrix([row.arrays for row in encoded], self.input_size))
            for place, row in enumerate(encoded):
                row.arrays["candidates"] = lists.labels[place]  # (C,)
                row.arrays.update(**{name: values.numpy() for name, values in lists.tensors(np.array(place)).items()})
        return encoded

    def _with_embeddings(self, examples: Sequence[Example], encoded: list[Encoded]) -> list[Encoded]:
        """The embedding's numbers behind the terms of each bag."""
        assert self.embedder is not None
        vectors = self.options.embedding_weight * self.embedder.embed([_text(example) for example in examples])
        places = np.arange(self.size, self.input_size, dtype=np.int32)
        return [
            Encoded(
                {
                    **row.arrays,
                    "indices": np.concatenate([row.arrays["indices"], places]),
                    "weights": np.concatenate([row.arrays["weights"], vector]),
                },
                row.length,
                row.truncated,
            )
            for row, vector in zip(encoded, vectors, strict=True)
        ]

    def _encode_terms(self, example: Example) -> Encoded:
        if isinstance(example.features, SparseVector) and self.terms is None:
            inside = example.features.indices < self.size  # terms unseen in training carry nothing
            arrays = {
                "indices": example.features.indices[inside].astype(np.int32),
                "weights": example.features.values[inside].astype(np.float32),
            }
            return Encoded(arrays, len(arrays["indices"]))
        if self.terms is None:
            raise DataError(f"example {example.id!r} is a text, and this model was trained on libsvm features.")
        bags, truncated = self._bags(_text(example))
        encoded = [self._weighted(length, bag) for length, bag in bags]
        indices = np.concatenate([places for places, _ in encoded])
        weights = np.concatenate([values for _, values in encoded])
        return Encoded({"indices": indices, "weights": weights.astype(np.float32)}, len(indices), truncated)

    def _weighted(self, length: float, bag: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the known terms, and their weights: a vector of this length."""
        counts = Counter(self._ids[term] for term in bag if term in self._ids)
        indices = np.fromiter(sorted(counts), dtype=np.int32)
        frequency = np.fromiter((counts[i] for i in indices), dtype=np.float64, count=len(indices))
        weights = (1 + np.log(frequency)) * self._idf[indices] if len(indices) else frequency
        norm = np.sqrt((weights**2).sum())
        return indices, weights * (length / norm) if norm > 0 else weights

    def known_words(self, text: str) -> tuple[int, int]:
        words = WORD.findall(text.lower() if self.data.lowercase else text)
        return sum(word in self._ids for word in words), len(words)

    @cached_property
    def term_names(self) -> list[str] | None:
        """Every term as a person reads it: a word among the first ones is that word. None: libsvm features."""
        return None if self.terms is None else [LEADING.sub("", term) for term in self.terms]

    @cached_property
    def leading(self) -> np.ndarray:
        """(V,) which features are leading words: what a classifier may leave out, as they say nothing new."""
        found = [place for term, place in self._ids.items() if LEADING.match(term)]
        return np.isin(np.arange(self.input_size), found)

    def comparable(self, bags: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
        """Of bags (N, V) what likeness is judged by (N, terms): their terms, leading words and embedding left out."""
        terms = bags[:, : self.size]  # a copy
        terms.data[self.leading[terms.indices]] = 0
        terms.eliminate_zeros()
        return terms

    def collate(self, rows: Sequence[Arrays]) -> BagInput:
        lengths = np.array([len(row["indices"]) for row in rows])
        offsets = np.concatenate([[0], lengths[:-1].cumsum()])
        indices = np.concatenate([row["indices"] for row in rows]).astype(np.int64)
        weights = np.concatenate([row["weights"] for row in rows]).astype(np.float32)
        votes = torch.from_numpy(np.stack([row["votes"] for row in rows])) if "votes" in rows[0] else None  # (B, L)
        bags = BagInput(torch.from_numpy(indices), torch.from_numpy(weights), torch.from_numpy(offsets), votes=votes)
        if "candidates" not in rows[0]:
            return bags
        labels = torch.from_numpy(np.stack([row["candidates"] for row in rows]).astype(np.int64))  # (B, C)
        names = ("scores", "sets", "set_log_probs")
        known = {name: torch.from_numpy(np.stack([row[name] for row in rows])) for name in names}
        return replace(bags, labels=labels, **known)

    def save(self, directory: Path) -> None:
        write_json(directory / "vocabulary.json", {"size": self.size, "terms": self.terms})
        if self.embedder is not None:
            self.embedder.save(directory)
        if self.neighbours is not None:
            self.neighbours.save(directory)
        if self.scorer is not None:
            self.scorer.save(directory)

    @classmethod
    def load(cls, directory: Folder, data: DataConfig, options: Section) -> BagFeaturizer:
        assert isinstance(options, BagOptions), "an encoder that reads bags has the options of bags"
        content: dict[str, Any] = json.loads((directory / "vocabulary.json").read_text(encoding="utf-8"))
        terms, size = content["terms"], int(content["size"])
        if terms is not None and (size != max(len(terms), 1) or not np.isfinite([*map(float, terms.values())]).all()):
            raise ValueError("vocabulary.json does not hold one finite weight for each of its terms")
        embedder = None
        if options.embeddings:
            embedder = Embedder.load(directory, options.embedding_tokens, options.embedding_precision)
        featurizer = cls(terms, size, data, options, embedder)
        if holds(directory, SHORTLIST_FILE):
            featurizer.scorer = ShortlistScorer.load(directory, featurizer.input_size)
        elif nearest := getattr(options, "neighbours", 0):
            featurizer.neighbours = Neighbours.load(directory, nearest, size)
        return featurizer


def as_matrix(rows: Sequence[Arrays], terms: int) -> scipy.sparse.csr_matrix:
    """Bags as rows of a matrix (N, terms)."""
    ends = np.cumsum([0, *(len(row["indices"]) for row in rows)])
    indices, weights = (np.concatenate([row[name] for row in rows]) for name in ("indices", "weights"))
    return scipy.sparse.csr_matrix((weights, indices, ends), shape=(len(rows), terms))


def _character_ngrams(words: list[str], longest: int) -> list[str]:
    """Of three to `longest` characters, within words; the edges of a word count as one."""
    marked = [f" {word} " for word in words]
    return [
        CHARACTERS + word[place : place + n]
        for n in range(3, longest + 1)
        for word in marked
        for place in range(len(word) - n + 1)
    ]


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
