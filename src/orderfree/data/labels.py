"""The labels of a model: names, how often each was seen, and which sets were seen in training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import DataError
from .readers.checks import label_problem


@dataclass(frozen=True)
class LabelVocabulary:
    """Labels from frequent to rare (ties by name); a label's id is its place. After a warm start, those of the earlier
    model come first, in its order."""

    names: tuple[str, ...]
    counts: tuple[int, ...]
    combinations: dict[tuple[int, ...], int]  # every label set of the training part, as sorted ids, with its count
    ids: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", {name: place for place, name in enumerate(self.names)})

    @classmethod
    def count(cls, label_sets: Iterable[Sequence[str]], source: str, fewest: int = 2) -> LabelVocabulary:
        sets = Counter(tuple(labels) for labels in label_sets)
        counts: Counter[str] = Counter()
        for labels, times in sets.items():
            for label in labels:
                counts[label] += times
        if not counts:
            raise DataError("no example has a label; expected at least two different labels.", source)
        if len(counts) < fewest:
            raise DataError(
                f"every label is {next(iter(counts))!r}; expected at least two different labels to choose from.", source
            )
        names = tuple(sorted(counts, key=lambda name: (-counts[name], name)))
        ids = {name: place for place, name in enumerate(names)}
        combinations: Counter[tuple[int, ...]] = Counter()
        for labels, times in sets.items():
            combinations[tuple(sorted(ids[label] for label in labels))] += times
        return cls(names, tuple(counts[name] for name in names), dict(combinations))

    def after(self, earlier: LabelVocabulary) -> LabelVocabulary:
        """These labels behind those of an earlier model, which keep their ids, whether they still occur or not."""
        names = (*earlier.names, *(name for name in self.names if name not in earlier.ids))
        counts = tuple(self.counts[self.ids[name]] if name in self.ids else 0 for name in names)
        place = {name: i for i, name in enumerate(names)}
        combinations = {
            tuple(sorted(place[self.names[i]] for i in ids)): times for ids, times in self.combinations.items()
        }
        return LabelVocabulary(names, counts, combinations)

    def with_seen(self, earlier: LabelVocabulary) -> LabelVocabulary:
        """The same labels, which begin with those of the earlier model, and what both have seen of them."""
        before = (*earlier.counts, *[0] * (len(self) - len(earlier)))
        combinations = Counter(self.combinations) + Counter(earlier.combinations)
        counts = tuple(old + new for old, new in zip(before, self.counts, strict=True))
        return LabelVocabulary(self.names, counts, dict(combinations))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def longest_set(self) -> int:
        return max(len(combination) for combination in self.combinations)

    @property
    def empty_share(self) -> float:
        """The share of training examples that have no label."""
        return self.combinations.get((), 0) / sum(self.combinations.values())

    def known(self, labels: Iterable[str]) -> list[int]:
        """Ids of the labels the model has; the others are left out."""
        return [self.ids[label] for label in labels if label in self.ids]

    def one_hot(self, label_ids: Sequence[np.ndarray]) -> np.ndarray:
        targets = np.zeros((len(label_ids), len(self)), dtype=bool)
        for row, ids in enumerate(label_ids):
            targets[row, ids] = True
        return targets  # (B, L)

    def to_json(self) -> dict[str, Any]:
        return {
            "labels": [{"name": name, "count": n} for name, n in zip(self.names, self.counts, strict=True)],
            "combinations": [[list(ids), times] for ids, times in sorted(self.combinations.items())],
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> LabelVocabulary:
        """What `to_json` has written; anything else is a ValueError."""
        labels = content["labels"]
        names = tuple(str(label["name"]) for label in labels)
        combinations = {tuple(int(i) for i in ids): int(times) for ids, times in content["combinations"]}
        if problem := next(filter(None, map(label_problem, names)), None):
            raise ValueError(problem)
        if not names or len(set(names)) < len(names):
            raise ValueError("labels.json names no label, or one of them twice")
        if not combinations or any(not 0 <= i < len(names) for ids in combinations for i in ids):
            raise ValueError("labels.json holds no label sets, or one with a label that does not exist")
        return cls(names, tuple(int(label["count"]) for label in labels), combinations)
