"""Decisions: how to decode for one purpose. This module finds them on held-out data, stores them and looks them up.

A decoder is named in one of three ways:

    joint                  a search, with the thresholds that are best for micro-F1
    best:macro_f1          the search and the settings that were best for this metric on validation
    thresholds:cautious    the thresholds that `orderfree thresholds` stored under this name
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .data.corpus import Corpus
from .decoding.beam import Limits
from .decoding.search import LINEAR, MARGIN, POWERED, at_threshold, membership, searches
from .errors import OrderfreeError, nearest
from .metrics.scores import scores
from .metrics.thresholds import (
    best_threshold,
    candidate_thresholds,
    label_thresholds,
    macro_threshold,
    precision_threshold,
)

BEST = "best:"
NAMED = "thresholds:"
USUAL_METRIC = "micro_f1"
TUNED = ("micro_f1", "macro_f1", "example_f1", "subset_accuracy", "hamming_accuracy")  # metrics that have a decision

Threshold = float | list[float]  # one for all labels, or one for each


@dataclass(frozen=True, slots=True)
class Decision:
    """How to decode for one purpose."""

    search: str
    thresholds: Threshold | None = None  # None: the search has none, or one half for all labels
    br_power: float | None = None  # None: the power of the config
    min_labels: int | None = None  # None: the number of the config

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


@dataclass(frozen=True)
class Decisions:
    """All decisions of one model."""

    thresholds: dict[str, dict[str, Threshold]] = field(default_factory=dict)  # search -> metric -> best thresholds
    best: dict[str, Decision] = field(default_factory=dict)  # metric -> what was best for it on validation
    named: dict[str, NamedThresholds] = field(default_factory=dict)

    def look_up(self, decoder: str) -> Decision:
        if decoder.startswith(NAMED):
            named = self._named(decoder.removeprefix(NAMED))
            return Decision(named.decoder, named.threshold, min_labels=named.min_labels)
        if decoder.startswith(BEST):
            return self._best(decoder.removeprefix(BEST))
        return Decision(decoder, self.thresholds.get(decoder, {}).get(USUAL_METRIC))

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
        return {"thresholds": self.thresholds, "decisions": self.searches, "powers": powers}

    def named_to_json(self) -> dict[str, Any]:
        return {name: asdict(thresholds) for name, thresholds in self.named.items()}

    @classmethod
    def from_json(
        cls, content: dict[str, Any], named: dict[str, Any], labels: int, decoders: Collection[str]
    ) -> Decisions:
        """Of a model with so many labels and these decoders; ValueError where the content does not fit it."""
        thresholds = {
            str(search): {str(metric): _checked_threshold(value, labels) for metric, value in tuned.items()}
            for search, tuned in content["thresholds"].items()
        }
        powers = {str(metric): float(power) for metric, power in content.get("powers", {}).items()}
        if not all(0 <= power < math.inf for power in powers.values()):
            raise ValueError("a power in thresholds.json is negative or not finite")
        best = {}
        for metric, search in content["decisions"].items():
            if search not in decoders:
                raise ValueError(f"thresholds.json decides for {search!r}, which is no decoder of this model")
            tuned = thresholds.get(search, {})
            best[str(metric)] = Decision(search, tuned.get(metric, tuned.get(USUAL_METRIC)), powers.get(metric))
        stored = {str(name): _checked_named(entry, labels, decoders) for name, entry in named.items()}
        return cls(thresholds, best, stored)


def _checked_named(content: dict[str, Any], labels: int, decoders: Collection[str]) -> NamedThresholds:
    named = NamedThresholds(**{**content, "threshold": _checked_threshold(content["threshold"], labels)})
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


# ── finding decisions on validation ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Decoded:
    """A corpus decoded once by every search, for decisions and validation scores."""

    targets: np.ndarray  # (N, L) bool
    outputs: dict[str, Tensor]  # search -> sets (N, L) bool, or log-odds (N, L) where a threshold makes the sets
    at_powers: dict[float, Tensor] = field(default_factory=dict)  # br_power -> sets (N, L) of joint decoding


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to decode and the value it reaches on validation. A decisive candidate precedes all others."""

    metric: str
    value: float
    decision: Decision
    decisive: bool = False

    def better_than(self, other: Candidate | None) -> bool:
        return other is None or (self.decisive, self.value) > (other.decisive, other.value)


@dataclass(frozen=True, slots=True)
class DecisionReport:
    decisions: Decisions
    scores: dict[str, dict[str, float]]  # search -> metric -> value, at the threshold for micro-F1
    values: dict[str, float]  # metric -> the value its decision reaches on validation


FEWEST = 5  # validation examples of a label below which its F1 there says next to nothing
MOST_SCORES = 100_000_000  # more out-of-fold scores would take minutes
POWERS = (0.25, 0.5, 1.0, 2.0)  # values of br_power that are tried besides the model's own
STRENGTHS = (5.0, 20.0, 80.0)  # how strongly the threshold of a label is drawn towards the shared one


def find_decisions(
    decoded: Decoded, limits: Limits, br_threshold: float | None = None, train: Corpus | None = None
) -> DecisionReport:
    """For every metric, the best thresholds of every search that has some, and the best of all searches.

    Ties go to the first candidate in the order of the paper's tables. `br_threshold`: a threshold of binary relevance
    that the config fixes. `train`: its out-of-fold scores, if any, choose thresholds of the linear classifiers."""
    best: dict[str, Candidate] = {}
    thresholds: dict[str, dict[str, Threshold]] = {}
    usual_scores: dict[str, dict[str, float]] = {}
    for search in decoded.outputs:
        fixed = br_threshold if search == "br" else None
        best_here: dict[str, Candidate] = {}
        for candidate in _candidates(decoded, search, limits, fixed, train):
            if candidate.better_than(best_here.get(candidate.metric)):
                best_here[candidate.metric] = candidate
        if searches[search].log_odds is not None:
            chosen = {metric: candidate.decision.thresholds for metric, candidate in best_here.items()}
            thresholds[search] = {metric: each for metric, each in chosen.items() if each is not None}
        usual_scores[search] = scores(decoded.targets, sets_of(decoded, search, thresholds, limits).numpy())
        for metric, candidate in best_here.items():
            if candidate.better_than(best.get(metric)):
                best[metric] = candidate
    for candidate in _power_candidates(decoded):
        if candidate.better_than(best[candidate.metric]):
            best[candidate.metric] = candidate
    decisions = Decisions(thresholds, {metric: candidate.decision for metric, candidate in best.items()})
    return DecisionReport(decisions, usual_scores, {metric: candidate.value for metric, candidate in best.items()})


def sets_of(decoded: Decoded, search: str, thresholds: dict[str, dict[str, Threshold]], limits: Limits) -> Tensor:
    """The sets (N, L) of a search, at its thresholds for micro-F1 where it has some."""
    output = decoded.outputs[search]
    if searches[search].log_odds is None:
        return output
    return sets_at(output, np.asarray(thresholds[search][USUAL_METRIC]), limits)


def _candidates(
    decoded: Decoded, search: str, limits: Limits, fixed: float | None, train: Corpus | None
) -> Iterator[Candidate]:
    """Every way to decode with one search, the simplest first."""
    output, targets = decoded.outputs[search], decoded.targets
    if searches[search].log_odds is None:
        yield from _set_candidates(search, output, targets)
        return
    shared = list(_shared_threshold_candidates(search, output, targets, limits, fixed))
    yield from shared
    if fixed is not None:
        return
    for_macro_f1 = next(c.decision.thresholds for c in shared if c.metric == "macro_f1")
    assert isinstance(for_macro_f1, float)
    each, value = thresholds_for_each_label(output, targets, for_macro_f1, limits)
    yield Candidate("macro_f1", value, Decision(search, each))
    if search == LINEAR and train is not None:
        yield from _out_of_fold_candidates(output, targets, limits, train)


def _set_candidates(search: str, sets: Tensor, targets: np.ndarray) -> Iterator[Candidate]:
    values = scores(targets, sets.numpy())
    for metric in TUNED:
        yield Candidate(metric, values[metric], Decision(search))


def _shared_threshold_candidates(
    search: str, log_odds: Tensor, targets: np.ndarray, limits: Limits, fixed: float | None
) -> Iterator[Candidate]:
    """One threshold for all labels: for each metric the best of some."""
    tried = candidate_thresholds(probabilities(log_odds), targets) if fixed is None else np.array([fixed])
    rows = [scores(targets, sets_at(log_odds, float(threshold), limits).numpy()) for threshold in tried]
    for metric in TUNED:
        best = int(np.argmax([row[metric] for row in rows]))
        yield Candidate(metric, rows[best][metric], Decision(search, float(tried[best])))


def _out_of_fold_candidates(
    log_odds: Tensor, targets: np.ndarray, limits: Limits, train: Corpus
) -> Iterator[Candidate]:
    """Thresholds for macro-F1 by the scores that training examples got from classifiers which had not seen them. There
    are nine times as many of those as validation examples: on Reuters, thresholds found on 5,000 of them had a macro-F1
    on others .013 higher than those found on 777. They are decisive where more than half of the labels are too rare on
    validation for a choice by macro-F1."""
    each = _out_of_fold_thresholds(train, limits)
    if each is None:
        return
    value = scores(targets, sets_at(log_odds, np.array(each), limits).numpy())["macro_f1"]
    rare = bool(2 * (targets.sum(axis=0) < FEWEST).sum() > targets.shape[1])
    yield Candidate("macro_f1", value, Decision(LINEAR, each), decisive=rare)


def _out_of_fold_thresholds(train: Corpus, limits: Limits) -> list[float] | None:
    if train.scores is None or train.scores.size > MOST_SCORES:
        return None
    log_odds, unknown, targets = MARGIN * torch.from_numpy(train.scores), train.unknown(), train.targets()
    if unknown is not None:
        log_odds = log_odds.masked_fill(torch.from_numpy(unknown), float("-inf"))
    shared = macro_threshold(probabilities(log_odds), targets)
    return thresholds_for_each_label(log_odds, targets, shared, limits)[0]


def _power_candidates(decoded: Decoded) -> Iterator[Candidate]:
    """Joint decoding with other weights of binary relevance."""
    for power, sets in decoded.at_powers.items():
        values = scores(decoded.targets, sets.numpy())
        for metric in TUNED:
            yield Candidate(metric, values[metric], Decision(POWERED, br_power=power))


def thresholds_for_each_label(
    log_odds: Tensor, targets: np.ndarray, shared: float, limits: Limits
) -> tuple[list[float], float]:
    """A threshold for every label, and the macro-F1 such thresholds reach on rows they were not chosen on: on the rows
    that chose them, so many thresholds would always look good."""
    probs = probabilities(log_odds)
    halves = [np.arange(len(probs)) % 2 == side for side in (0, 1)]
    if not all(half.any() for half in halves):
        return [shared] * probs.shape[1], -1.0
    values = {}
    for strength in STRENGTHS:
        sets = np.zeros_like(targets)
        for half in halves:
            chosen = label_thresholds(probs[half], targets[half], shared, strength)
            sets[~half] = sets_at(log_odds[torch.from_numpy(~half)], chosen, limits).numpy()
        values[strength] = scores(targets, sets)["macro_f1"]
    best = max(values, key=lambda strength: (values[strength], strength))
    return label_thresholds(probs, targets, shared, best).tolist(), values[best]


def probabilities(log_odds: Tensor) -> np.ndarray:
    probs: np.ndarray = log_odds.sigmoid().numpy()
    return probs


def sets_at(log_odds: Tensor, threshold: float | np.ndarray, limits: Limits) -> Tensor:
    """The sets (N, L) at this threshold, within min_labels and max_labels as in prediction."""
    num_labels = log_odds.shape[1]
    hypotheses = at_threshold(log_odds, torch.as_tensor(threshold, dtype=log_odds.dtype).expand(num_labels), limits)
    return membership(hypotheses.sequences[:, 0], num_labels)


# ── finding thresholds for a goal of the user ────────────────────────────────────────────────────────────────────────

PRECISION = "precision="  # before the precision that is asked for
SHOWN = ("micro_precision", "micro_recall", "micro_f1", "macro_f1", "predicted_labels_per_example")
STRENGTH = 20.0  # a label's own threshold is drawn towards the shared one as if this many positives voted for that


def find_thresholds(probs: np.ndarray, targets: np.ndarray, goal: str, decoder: str, limits: Limits) -> NamedThresholds:
    """The thresholds of `decoder` that serve a goal best, given its probabilities (N, L) and targets (N, L).

    micro_f1         one threshold for all labels
    macro_f1         one for each label, drawn towards that
    precision=0.9    the lowest one for all labels at which nine of ten predicted labels are right; empty sets are
                     allowed, whatever `decoding.min_labels` is
    """
    threshold: Threshold
    fewest = limits.min_labels
    if goal in ("micro_f1", "macro_f1"):
        threshold, _ = best_threshold(probs, targets)
        if goal == "macro_f1":
            threshold = label_thresholds(probs, targets, threshold, STRENGTH).tolist()
    else:
        threshold, fewest = precision_threshold(probs, targets, _wanted_precision(goal)), 0
    sets = sets_at(torch.from_numpy(probs).logit(), np.asarray(threshold), replace(limits, min_labels=fewest))
    reached = scores(targets, sets.numpy())
    return NamedThresholds(decoder, threshold, fewest, goal, {name: reached[name] for name in SHOWN}, len(targets))


def _wanted_precision(goal: str) -> float:
    try:
        wanted = float(goal.removeprefix(PRECISION)) if goal.startswith(PRECISION) else float("nan")
    except ValueError:
        wanted = float("nan")
    if not 0 < wanted <= 1:
        raise OrderfreeError(f"--for {goal!r}: expected micro_f1, macro_f1 or, with a share up to 1, precision=0.9.")
    return wanted
