"""Whether new inputs still look like those a promise was made on.

A promise holds for exchangeable data. Of every example some numbers are taken that need no true labels; their
distribution on reference examples is stored with the model, and that on new examples compared with it: the
Kolmogorov-Smirnov test for each number, and a binomial test for each predicted label. With p-values corrected for
the number of tests (Bonferroni), data that have not changed are reported as shifted in one of a hundred comparisons.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import bdtr, bdtrc, kolmogorov

LEVEL = 0.01  # p-value below which data are said to have shifted
POINTS = 512  # of a distribution that are kept
FEWEST = 20  # new examples below which nothing is said
MEANINGS = {
    "unknown_words": "the share of words unknown to the model",
    "nearest": "the likeness to the nearest training example",
    "set_probability": "the probability of the predicted set",
    "set_size": "the number of predicted labels",
    "label_frequencies": "the frequencies of predicted labels",
}


@dataclass(frozen=True)
class Looks:
    """What is looked at of each of N examples."""

    numbers: dict[str, np.ndarray]  # name -> (N,)
    labels: np.ndarray  # (L,) how many of the examples each label was predicted for
    examples: int

    @classmethod
    def together(cls, parts: list[Looks]) -> Looks:
        names = parts[0].numbers.keys()
        numbers = {name: np.concatenate([part.numbers[name] for part in parts]) for name in names}
        return cls(numbers, np.sum([part.labels for part in parts], axis=0), sum(part.examples for part in parts))


@dataclass(frozen=True)
class Reference:
    """How examples looked that were like those the model was made for."""

    examples: int
    numbers: dict[str, list[float]]  # name -> sorted points of the distribution
    labels: list[int]  # how many of the examples each label was predicted for
    settings: dict[str, Any]  # of decoding, with which alone new predictions can be compared

    @classmethod
    def of(cls, looks: Looks, settings: dict[str, Any] | None = None) -> Reference:
        points = {name: _points(values) for name, values in looks.numbers.items()}
        return cls(looks.examples, points, looks.labels.tolist(), settings or {})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any], labels: int) -> Reference:
        """ValueError where the content does not fit a model with so many labels."""
        made = cls(**content)
        points = [value for values in made.numbers.values() for value in values]
        counts = made.labels
        if made.examples < 1 or len(counts) != labels or not all(0 <= int(n) <= made.examples for n in counts):
            raise ValueError("manifest.json holds a reference of other labels")
        if not all(math.isfinite(float(point)) for point in points) or not made.numbers.keys() <= MEANINGS.keys():
            raise ValueError("manifest.json holds a reference that is none")
        return made


@dataclass(frozen=True)
class Shift:
    """How new examples compare with the reference."""

    examples: int
    p_values: dict[str, float]  # of each test alone
    p_value: float  # of all together

    @property
    def shifted(self) -> bool:
        return self.p_value < LEVEL

    @property
    def sentence(self) -> str:
        if not self.shifted:
            return f"{self.examples:,} new examples look like those of the reference (p = {self.p_value:.2g})"
        most = sorted(self.p_values, key=lambda name: self.p_values[name])
        changed = [MEANINGS[name] for name in most if self.p_values[name] * len(most) < LEVEL]
        return (
            f"the data have shifted (p = {self.p_value:.2g}): {', '.join(changed)} differ from the reference; promises "
            "no longer hold, make them again on labelled examples of the new data"
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "shifted": self.shifted, "sentence": self.sentence}


def compare(reference: Reference, looks: Looks) -> Shift | None:
    """None: there are too few examples to say anything."""
    if looks.examples < FEWEST:
        return None
    p_values = {
        name: _same_distribution(np.array(reference.numbers[name]), reference.examples, values)
        for name, values in looks.numbers.items()
        if name in reference.numbers
    }
    p_values["label_frequencies"] = _same_shares(
        np.array(reference.labels), reference.examples, looks.labels, looks.examples
    )
    return Shift(looks.examples, p_values, min(1.0, len(p_values) * min(p_values.values())))


def _points(values: np.ndarray) -> list[float]:
    rising = np.sort(values.astype(float))
    chosen = np.linspace(0, len(rising) - 1, min(POINTS, len(rising))).round().astype(int)
    return [float(f"{value:.6g}") for value in rising[chosen]]


def _same_distribution(points: np.ndarray, examples: int, values: np.ndarray) -> float:
    """The p-value of Kolmogorov and Smirnov; points (P,) stand for the reference's examples."""
    rounded = np.array([float(f"{value:.6g}") for value in values])
    at = np.concatenate([points, rounded])
    own = np.searchsorted(np.sort(points), at, side="right") / len(points)
    new = np.searchsorted(np.sort(rounded), at, side="right") / len(rounded)
    # a distribution kept as points is a step wrong at most
    distance = max(float(np.abs(own - new).max()) - (1 / len(points) if len(points) < examples else 0.0), 0.0)
    size = examples * len(values) / (examples + len(values))
    return float(kolmogorov(math.sqrt(size) * distance))


def _same_shares(first: np.ndarray, examples: int, second: np.ndarray, new_examples: int) -> float:
    """The smallest p-value over labels that two shares are the same, times the number of labels.

    If they are, the cases of a label fall on the new examples as if drawn without replacement; drawn with replacement
    they are spread a little wider, so that the binomial p-value is too large, if anything, however rare a label is. Of
    a frequent label the examples without it are counted."""
    if not len(first):
        return 1.0
    rare = first + second <= (examples + new_examples) / 2  # (L,)
    new = np.where(rare, second, new_examples - second)
    cases = new + np.where(rare, first, examples - first)
    share = new_examples / (examples + new_examples)
    below, above = bdtr(new, cases, share), bdtrc(new - 1, cases, share)  # P(Binomial <= new), P(Binomial >= new)
    return float(min(1.0, len(first) * 2 * np.minimum(below, above).min()))
