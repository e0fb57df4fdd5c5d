"""A promise: what it says, on how many examples it rests, in words and as JSON; and how one is made or refused."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import OrderfreeError
from .labels import Cells, Refusal, precision_threshold, recall_threshold
from .sets import list_lengths, list_limit

RECALL, PRECISION, CANDIDATES = KINDS = ("recall", "precision", "candidates")
LISTS = ("median", "mean", "outside")
USUAL_CONFIDENCE = 0.95  # of a precision, which can be promised with confidence only
MEANINGS = {
    RECALL: "of the true labels of a new example are predicted, on average over examples",
    PRECISION: "of the labels predicted for a new example are right, on average over examples that get any",
    CANDIDATES: "of new examples have their true label set in the list of candidates, or are told that it is outside",
}


@dataclass(frozen=True)
class Promise:
    kind: str  # recall, precision or candidates
    level: float  # the share that is promised
    confidence: float | None  # None: on average over calibration data
    examples: int  # it was made on
    achieved: float  # on these examples
    limit: float  # the threshold of labels, or the limit of lists of sets
    unknown_labels: int = 0  # true labels of these examples that the model does not know, counted as missed
    data: str | None = None  # SHA-256 of the file of these examples
    settings: dict[str, Any] = field(default_factory=dict)  # of decoding, with which alone it holds
    lists: dict[str, float] | None = None  # of candidates: sets in a list (median, mean), share that may hold none

    @property
    def sentence(self) -> str:
        """The promise with its conditions."""
        sure = "" if self.confidence is None else f", with confidence {_percent(self.confidence)}"
        told = (
            f"At least {_percent(self.level)} {MEANINGS[self.kind]}{sure}, as long as new examples are exchangeable "
            f"with the {self.examples:,} calibration examples, of which it holds for {_percent(self.achieved)}."
        )
        if self.kind != CANDIDATES:
            told = told.replace("of which it holds for", "on which the share is")
        if self.lists is not None:
            median, mean, outside = (self.lists[name] for name in LISTS)
            told += (
                f" The length of their lists is {median:.4g} in the median and {mean:.3g} on average; "
                f"{_percent(outside)} of them may not hold the true set."
            )
        if self.unknown_labels:
            told += f" {self.unknown_labels:,} of their labels are unknown to the model and count as missed."
        return told

    def holds_with(self, settings: dict[str, Any]) -> bool:
        """Whether predictions are decoded with the settings it was made with."""
        return all(settings.get(name) == value for name, value in self.settings.items())

    def refuse_other(self, settings: dict[str, Any]) -> None:
        if not self.holds_with(settings):
            other = [name for name, value in self.settings.items() if settings.get(name) != value]
            made, here = (
                ", ".join(f"{name}={given.get(name)}" for name in other) for given in (self.settings, settings)
            )
            raise OrderfreeError(
                f"{self.kind}={self.level:g} was promised with {made} and does not hold with {here}; leave these "
                "settings of decoding as they were, or make the promise again with the new ones."
            )

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Promise:
        """ValueError where the content is no promise."""
        made = cls(**content)
        if made.lists is not None and not all(math.isfinite(float(made.lists[name])) for name in LISTS):
            raise ValueError("manifest.json holds a promise of lists without lengths")
        shares = (made.level, made.achieved, made.confidence if made.confidence is not None else 0.5)
        if made.kind not in KINDS or not all(0 <= float(share) <= 1 for share in shares):
            raise ValueError(f"manifest.json holds a promise of {made.kind!r} that is none")
        if not math.isfinite(made.limit) or made.examples < 1 or not isinstance(made.settings, dict):
            raise ValueError("manifest.json holds a promise without examples, limit or settings")
        return made


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def parse_goal(goal: str) -> tuple[str, float] | None:
    """`recall=0.9` as kind and level; None: it asks for no promise."""
    kind, equals, text = goal.partition("=")
    if kind not in KINDS or not equals:
        return None
    try:
        level = float(text)
    except ValueError:
        level = float("nan")
    if not 0 < level < 1:
        raise OrderfreeError(f"--for {goal!r}: expected a share between 0 and 1, for example {kind}=0.9.")
    return kind, level


def check_confidence(confidence: float | None) -> None:
    if confidence is not None and not 0 < confidence < 1:
        raise OrderfreeError(f"--confidence {confidence:g}: expected a share between 0 and 1, for example 0.95.")


def label_promise(cells: Cells, kind: str, level: float, confidence: float | None, unknown_labels: int) -> Promise:
    """The threshold of labels that keeps a promise; an error where these examples cannot promise it."""
    found: float | Refusal
    if kind == RECALL:
        found = recall_threshold(cells, level, confidence)
    else:
        confidence = USUAL_CONFIDENCE if confidence is None else confidence
        found = precision_threshold(cells, level, confidence)
    if isinstance(found, Refusal):
        raise OrderfreeError(_refusal(found, kind, level, confidence, cells.examples, unknown_labels))
    losses = cells.recall_losses(found) if kind == RECALL else cells.precision_losses(found)
    achieved = 1 - float(losses.mean()) if len(losses) else 1.0
    return Promise(kind, level, confidence, cells.examples, achieved, found, unknown_labels)


def set_promise(
    scores: np.ndarray, probs: np.ndarray, level: float, confidence: float | None, unknown_labels: int
) -> Promise:
    """The limit of lists that keeps a promise, of the scores of true sets (N,) and the probabilities of all (N, W)."""
    found = list_limit(scores, level, confidence)
    if isinstance(found, Refusal):
        raise OrderfreeError(_refusal(found, CANDIDATES, level, confidence, len(scores), unknown_labels))
    achieved = float(np.mean(scores <= found))
    lengths, outside = list_lengths(probs, found)
    lists = {"median": float(np.median(lengths)), "mean": float(lengths.mean()), "outside": float(outside.mean())}
    return Promise(CANDIDATES, level, confidence, len(scores), achieved, found, unknown_labels, lists=lists)


def _refusal(
    refused: Refusal, kind: str, level: float, confidence: float | None, examples: int, unknown_labels: int
) -> str:
    sure = "" if confidence is None else f" with confidence {confidence:g}"
    asked = f"--for {kind}={level:g}{sure} cannot be promised by {examples:,} calibration examples"
    if refused.needed is not None:
        needed = max(refused.needed, examples + 1)
        return f"{asked}; about {needed:,} like them would suffice, or ask for less."
    unknown = f" ({unknown_labels:,} of their labels are unknown to the model)" if unknown_labels else ""
    raised = " or, if sets are too small for it, raise decoding.max_labels" if kind == RECALL else ""
    return f"{asked}, nor by more like them: the best they reach is {refused.best:.4f}{unknown}; ask for less{raised}."
