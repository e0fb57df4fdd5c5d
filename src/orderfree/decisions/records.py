"""Decisions: how to decode for one purpose. This module stores them and looks them up; `finding.py` finds them on
validation.

A decoder is named in one of three ways:

    joint                  a search, with the thresholds that are best for micro-F1
    best:macro_f1          the search and the settings that were best for this metric on validation
    thresholds:cautious    the thresholds that `orderfree thresholds` stored under this name
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..build import preferred_decoder
from ..config import Config
from ..decoding.beam import Limits
from ..decoding.search import at_threshold
from ..decoding.sets import membership
from ..errors import OrderfreeError, nearest
from ..metrics.recalibration import Repair
from ..promises.promise import CANDIDATES, Promise
from ..promises.shift import Reference

BEST = "best:"
NAMED = "thresholds:"
USUAL_METRIC = "micro_f1"
# metrics that have a decision
TUNED = ("micro_f1", "macro_f1", "example_f1", "subset_accuracy", "hamming_accuracy", "average")

Threshold = float | list[float]  # one for all labels, or one for each


@dataclass(frozen=True, slots=True)
class Decision:
    """How to decode for one purpose."""

    search: str
    thresholds: Threshold | None = None  # None: the search has none, or one half for all labels
    br_power: float | None = None  # None: the power of the config
    min_labels: int | None = None  # None: the number of the config
    promise: Promise | None = None  # what these thresholds promise

    def limits(self, usual: Limits) -> Limits:
        power = usual.br_power if self.br_power is None else self.br_power
        fewest = usual.min_labels if self.min_labels is None else self.min_labels
        return replace(usual, br_power=power, min_labels=fewest)


@dataclass(frozen=True)
class NamedThresholds:
    """Thresholds for a purpose of the user, found by `orderfree thresholds`."""

    decoder: str
    threshold: Threshold
    min_labels: int
    goal: str  # what they were found for
    scores: dict[str, float]  # what they reach on the data they were found on
    examples: int  # of that data
    promise: Promise | None = None


@dataclass(frozen=True)
class Decisions:
    """All decisions of one model."""

    thresholds: dict[str, dict[str, Threshold]] = field(default_factory=dict)  # search -> metric -> best thresholds
    best: dict[str, Decision] = field(default_factory=dict)  # metric -> what was best for it on validation
    named: dict[str, NamedThresholds] = field(default_factory=dict)
    fewest: dict[str, int] = field(default_factory=dict)  # search -> min_labels, where validation chose it
    candidates: dict[str, Promise] = field(default_factory=dict)  # level, as "0.9" -> the promise of lists of sets
    references: dict[str, Reference] = field(default_factory=dict)  # decoder -> how it saw examples of promises
    label_repair: Repair | None = None  # of binary-relevance probabilities, chosen on validation
    set_repairs: dict[str, Repair] = field(default_factory=dict)  # decoder -> of the probability of its sets

    @property
    def promises(self) -> dict[str, Promise]:
        """All promises of the model, by the name of thresholds or as "candidates=0.9"."""
        of_labels = {name: named.promise for name, named in self.named.items() if named.promise is not None}
        return of_labels | {f"{CANDIDATES}={level}": promise for level, promise in self.candidates.items()}

    def without_promises(self) -> Decisions:
        """For a network that computes other probabilities: no promise made on those of the first one holds."""
        plain = {name: named for name, named in self.named.items() if named.promise is None}
        return replace(self, named=plain, candidates={}, references={})

    def candidate_promise(self, level: float) -> Promise:
        if f"{level:g}" not in self.candidates:
            raise OrderfreeError(
                f"this model promises no lists of candidate sets at {level:g}; it does at "
                f"{', '.join(self.candidates) or 'no level'}, and `orderfree thresholds RUN calibration.jsonl "
                f"--for {CANDIDATES}={level:g}` makes such a promise."
            )
        return self.candidates[f"{level:g}"]

    def look_up(self, decoder: str) -> Decision:
        if decoder.startswith(NAMED):
            named = self._named(decoder.removeprefix(NAMED))
            return Decision(named.decoder, named.threshold, min_labels=named.min_labels, promise=named.promise)
        if decoder.startswith(BEST):
            return self._best(decoder.removeprefix(BEST))
        thresholds = self.thresholds.get(decoder, {}).get(USUAL_METRIC)
        return Decision(decoder, thresholds, min_labels=self.fewest.get(decoder))

    def _named(self, name: str) -> NamedThresholds:
        if name not in self.named:
            raise OrderfreeError(
                f"this model has no thresholds named {name!r}; it has {', '.join(self.named) or 'none'}, and "
                f"`orderfree thresholds` finds some.{nearest(name, list(self.named))}"
            )
        return self.named[name]

    def _best(self, metric: str) -> Decision:
        if metric not in self.best:
            raise OrderfreeError(
                f"this model has not been tuned for {metric!r}; it has for {', '.join(self.best) or 'nothing'}."
                + nearest(metric, list(self.best))
            )
        return self.best[metric]

    @property
    def searches(self) -> dict[str, str]:
        """metric -> the search that was best for it."""
        return {metric: decision.search for metric, decision in self.best.items()}

    def to_json(self) -> dict[str, Any]:
        """The content of thresholds.json. Named thresholds stand in manifest.json, which one write can replace."""
        powers = {metric: best.br_power for metric, best in self.best.items() if best.br_power is not None}
        fewest = {metric: best.min_labels for metric, best in self.best.items() if best.min_labels is not None}
        chosen: dict[str, Any] = {"min_labels": {"decisions": fewest, "decoders": self.fewest}} if self.fewest else {}
        if self.label_repair is not None:
            sets = {decoder: repair.to_json() for decoder, repair in self.set_repairs.items()}
            chosen["repairs"] = {"labels": self.label_repair.to_json(), "sets": sets}
        return {"thresholds": self.thresholds, "decisions": self.searches, "powers": powers, **chosen}

    def stored_later(self) -> dict[str, dict[str, Any]]:
        """What `orderfree thresholds` adds to manifest.json."""
        return {
            "thresholds": {name: asdict(thresholds) for name, thresholds in self.named.items()},
            "candidates": {level: asdict(promise) for level, promise in self.candidates.items()},
            "references": {decoder: reference.to_json() for decoder, reference in self.references.items()},
        }

    @classmethod
    def from_json(
        cls, content: dict[str, Any], manifest: dict[str, Any], labels: int, decoders: Collection[str]
    ) -> Decisions:
        """Of a model with so many labels and these decoders; ValueError where the content does not fit it.

        content of thresholds.json, and of manifest.json"""
        thresholds = {
            str(search): {str(metric): _checked_threshold(value, labels) for metric, value in tuned.items()}
            for search, tuned in content["thresholds"].items()
        }
        powers = {str(metric): float(power) for metric, power in content.get("powers", {}).items()}
        if not all(0 <= power < math.inf for power in powers.values()):
            raise ValueError("a power in thresholds.json is negative or not finite")
        fewest = {kind: _checked_fewest(counts, labels) for kind, counts in content.get("min_labels", {}).items()}
        for_metric = fewest.get("decisions", {})
        best = {}
        for metric, search in content["decisions"].items():
            if search not in decoders:
                raise ValueError(f"thresholds.json decides for {search!r}, which is no decoder of this model")
            tuned = thresholds.get(search, {})
            chosen = tuned.get(metric, tuned.get(USUAL_METRIC))
            best[str(metric)] = Decision(search, chosen, powers.get(metric), for_metric.get(metric))
        named = {str(n): _checked_named(e, labels, decoders) for n, e in manifest.get("thresholds", {}).items()}
        lists = {str(level): Promise.from_json(entry) for level, entry in manifest.get("candidates", {}).items()}
        references = {str(d): Reference.from_json(looks, labels) for d, looks in manifest.get("references", {}).items()}
        repairs = content.get("repairs")
        for_labels = None if repairs is None else Repair.from_json(repairs["labels"])
        for_sets = {} if repairs is None else {str(d): Repair.from_json(r) for d, r in repairs["sets"].items()}
        few = fewest.get("decoders", {})
        return cls(thresholds, best, named, few, lists, references, for_labels, for_sets)


def default_decoder(config: Config, decisions: Decisions) -> str:
    """What a model is decoded with where nothing else is asked for: the decoder its config names, else what validation
    preferred for `training.select_metric`."""
    metric = config.training.select_metric
    if config.decoding.decoder is None and metric in decisions.best:
        return BEST + metric
    return config.decoding.decoder or preferred_decoder(config)


def _checked_fewest(content: dict[str, Any], labels: int) -> dict[str, int]:
    if not all(type(count) is int and 0 <= count <= labels for count in content.values()):
        raise ValueError("a min_labels in thresholds.json is not a number of labels")
    return {str(name): count for name, count in content.items()}


def _checked_named(content: dict[str, Any], labels: int, decoders: Collection[str]) -> NamedThresholds:
    promise = content.get("promise")
    checked = {
        "threshold": _checked_threshold(content["threshold"], labels),
        "promise": None if promise is None else Promise.from_json(promise),
    }
    named = NamedThresholds(**{**content, **checked})
    if named.decoder not in decoders or not 0 <= named.min_labels <= labels:
        raise ValueError(f"manifest.json holds thresholds for {named.decoder!r} that do not fit this model")
    return named


def _checked_threshold(value: Any, labels: int) -> Threshold:
    each = [float(one) for one in (value if isinstance(value, list) else [value])]
    if any(math.isnan(one) for one in each):
        raise ValueError("a threshold in thresholds.json is not a number")
    if isinstance(value, list) and len(each) != labels:
        raise ValueError(f"thresholds.json has {len(each)} thresholds for {labels} labels")
    return each if isinstance(value, list) else each[0]


def probabilities(log_odds: Tensor) -> np.ndarray:
    probs: np.ndarray = log_odds.sigmoid().numpy()
    return probs


def sets_at(log_odds: Tensor, threshold: float | np.ndarray, limits: Limits) -> Tensor:
    """The sets (N, L) at this threshold, within min_labels and max_labels as in prediction."""
    num_labels = log_odds.shape[1]
    hypotheses = at_threshold(log_odds, torch.as_tensor(threshold, dtype=log_odds.dtype).expand(num_labels), limits)
    return membership(hypotheses.sequences[:, 0], num_labels)
