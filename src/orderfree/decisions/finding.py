"""Finds decisions on validation: for every metric the search, its thresholds, its weights and the fewest labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from ..data.corpus import Corpus
from ..decoding.beam import Limits
from ..decoding.search import LINEAR, MARGIN, POWERED, searches
from ..metrics.scores import scores
from ..metrics.thresholds import candidate_thresholds, label_thresholds, macro_threshold
from .records import BEST, TUNED, USUAL_METRIC, Decision, Decisions, Threshold, probabilities, sets_at

EXCESS = 0.02  # share of empty predictions above the true share that is accepted
FEWEST = 5  # validation examples of a label below which its F1 there says next to nothing
MOST_SCORES = 100_000_000  # more out-of-fold scores would take minutes
POWERS = (0.25, 0.5, 1.0, 2.0)  # values of br_power that are tried besides the model's own
STRENGTHS = (5.0, 20.0, 80.0)  # how strongly the threshold of a label is drawn towards the shared one


@dataclass(frozen=True, slots=True)
class ShortlistedTruth:
    """The candidates of each example, and all its labels: one outside its shortlist counts as missed."""

    labels: np.ndarray  # (N, C)
    truth: sparse.csr_array  # (N, L) bool

    def matrix(self, sets: np.ndarray) -> sparse.csr_array:
        """Sets of candidates (N, C) bool as sets of labels (N, L)."""
        ends = np.append(0, sets.sum(axis=1).cumsum())  # (N + 1,)
        chosen = self.labels[sets]  # (entries,)
        return sparse.csr_array((np.ones(len(chosen), dtype=bool), chosen, ends), shape=self.truth.shape)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A corpus decoded once by every search, for decisions and validation scores."""

    limits: Limits  # of the searches
    targets: np.ndarray  # (N, L) bool
    outputs: dict[str, Tensor]  # search -> sets (N, L) bool, or log-odds (N, L) where a threshold makes the sets
    at_powers: dict[float, Tensor] = field(default_factory=dict)  # br_power -> sets (N, L) of joint decoding
    shortlist: ShortlistedTruth | None = None  # where the columns of all these are candidates (N, C), not labels

    def scores(self, sets: Tensor) -> dict[str, float]:
        """Every metric of these sets (N, L)."""
        if self.shortlist is None:
            return scores(self.targets, sets.numpy())
        return scores(self.shortlist.truth, self.shortlist.matrix(sets.numpy()))

    def sets(self, decision: Decision) -> Tensor:
        """The sets (N, L) that this decision makes."""
        if decision.br_power is not None:
            return self.at_powers[decision.br_power]
        output = self.outputs[decision.search]
        if searches[decision.search].log_odds is None:
            return output
        return sets_at(output, np.asarray(decision.thresholds), self.limits)

    def too_empty(self, decision: Decision) -> bool:
        """Whether this decision leaves more examples without labels than there are, by more than chance explains."""
        if self.limits.min_labels > 0:
            return False
        true, predicted = (float((~rows.any(1)).mean()) for rows in (self.targets, self.sets(decision).numpy()))
        return predicted > true + max(EXCESS, math.sqrt(true * (1 - true) / len(self.targets)))


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
    decided: dict[str, dict[str, float]]  # metric -> all scores of its decision, on the very rows that chose it

    def scores_of(self, decoder: str) -> dict[str, float]:
        """Of a search, or of what was best for a metric."""
        return self.decided[decoder.removeprefix(BEST)] if decoder.startswith(BEST) else self.scores[decoder]


def find_decisions(
    decoded: Sequence[Decoded], br_threshold: float | None = None, train: Corpus | None = None
) -> DecisionReport:
    """For every metric, the best thresholds of every search that has some, and the best of all searches.

    Ties go to the first candidate in the order of the paper's tables. `decoded`: the same corpus, once for each value
    of min_labels to choose from. `br_threshold`: a threshold of binary relevance that the config fixes. `train`: its
    out-of-fold scores, if any, choose thresholds of the linear classifiers."""
    best: dict[str, Candidate] = {}
    thresholds: dict[str, dict[str, Threshold]] = {}
    usual: dict[str, Decision] = {}
    for search in decoded[0].outputs:
        fixed = br_threshold if search == "br" else None
        best_here = _best(decoded, [_candidates(each, search, fixed, train) for each in decoded])
        if searches[search].log_odds is not None:
            tuned = {metric: candidate.decision.thresholds for metric, candidate in best_here.items()}
            thresholds[search] = {metric: each for metric, each in tuned.items() if each is not None}
        usual[search] = best_here[USUAL_METRIC].decision
        _keep_better(best, best_here.values())
    _keep_better(best, _best(decoded, [_power_candidates(each) for each in decoded]).values())
    by_fewest: dict[int | None, Decoded] = {each.limits.min_labels: each for each in decoded}
    by_fewest[None] = decoded[0]

    def scores_of(decision: Decision) -> dict[str, float]:
        return decoded[0].scores(by_fewest[decision.min_labels].sets(decision))

    fewest = {search: one.min_labels for search, one in usual.items() if one.min_labels is not None}
    chosen = {metric: candidate.decision for metric, candidate in best.items()}
    return DecisionReport(
        Decisions(thresholds, chosen, fewest=fewest),
        {search: scores_of(decision) for search, decision in usual.items()},
        {metric: candidate.value for metric, candidate in best.items()},
        {metric: scores_of(decision) for metric, decision in chosen.items()},
    )


def _keep_better(best: dict[str, Candidate], candidates: Iterable[Candidate]) -> None:
    for candidate in candidates:
        if candidate.better_than(best.get(candidate.metric)):
            best[candidate.metric] = candidate


def _best(decoded: Sequence[Decoded], candidates: Sequence[Iterable[Candidate]]) -> dict[str, Candidate]:
    """The best candidate for each metric. Where there is a choice of min_labels, what leaves too many examples without
    labels is no candidate."""
    best: dict[str, Candidate] = {}
    for each, tried in zip(decoded, candidates, strict=True):
        best_here: dict[str, Candidate] = {}
        _keep_better(best_here, tried)
        if len(decoded) > 1:
            allowed = [candidate for candidate in best_here.values() if not each.too_empty(candidate.decision)]
            fewest = each.limits.min_labels
            best_here = {c.metric: replace(c, decision=replace(c.decision, min_labels=fewest)) for c in allowed}
        _keep_better(best, best_here.values())
    return best


def _candidates(decoded: Decoded, search: str, fixed: float | None, train: Corpus | None) -> Iterator[Candidate]:
    """Every way to decode with one search, the simplest first."""
    output, targets, limits = decoded.outputs[search], decoded.targets, decoded.limits
    if searches[search].log_odds is None:
        yield from _set_candidates(decoded, search)
        return
    shared = list(_shared_threshold_candidates(decoded, search, fixed))
    yield from shared
    if fixed is not None or decoded.shortlist is not None:  # thousands of labels are too rare for their own threshold
        return
    for_macro_f1 = next(c.decision.thresholds for c in shared if c.metric == "macro_f1")
    assert isinstance(for_macro_f1, float)
    each, value = thresholds_for_each_label(output, targets, for_macro_f1, limits)
    yield Candidate("macro_f1", value, Decision(search, each))
    if search == LINEAR and train is not None:
        yield from _out_of_fold_candidates(output, targets, limits, train)


def _set_candidates(decoded: Decoded, search: str) -> Iterator[Candidate]:
    values = decoded.scores(decoded.outputs[search])
    for metric in TUNED:
        yield Candidate(metric, values[metric], Decision(search))


def _shared_threshold_candidates(decoded: Decoded, search: str, fixed: float | None) -> Iterator[Candidate]:
    """One threshold for all labels: for each metric the best of some."""
    log_odds = decoded.outputs[search]
    tried = candidate_thresholds(probabilities(log_odds), decoded.targets) if fixed is None else np.array([fixed])
    rows = [decoded.scores(sets_at(log_odds, float(threshold), decoded.limits)) for threshold in tried]
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
        values = decoded.scores(sets)
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
