"""Thresholds on the scores of a system, one for all labels or one for each, chosen for each metric on scores of
examples that the system has not seen: the freedom all systems have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from orderfree.metrics.counts import Matrix
from orderfree.metrics.scores import scores as all_scores

STRENGTHS = (
    5.0,
    20.0,
    80.0,
)  # a label's own threshold is drawn to the shared one as by so many positives, as in `fast`
ROUNDS = 4  # in which micro-F1 and the thresholds that are best for it find each other
EQUAL = 1e-12  # curves are sums of many small steps: what differs by less is the same


@dataclass(frozen=True)
class Cut:
    threshold: float | np.ndarray  # for all labels, or (L,) for each
    value: float  # the metric there

    def as_choice(self) -> dict[str, float | list[float]]:
        threshold = self.threshold.tolist() if isinstance(self.threshold, np.ndarray) else self.threshold
        return {"threshold": threshold, "held_out": self.value}


@dataclass(frozen=True)
class Pairs:
    """Pairs of an example and a label with their scores: all of a dense matrix, or those a sparse one holds."""

    rows: np.ndarray  # (P,)
    labels: np.ndarray  # (P,)
    scores: np.ndarray  # (P,)
    shape: tuple[int, int]

    @classmethod
    def of(cls, scores: Matrix) -> Pairs:
        if sparse.issparse(scores):
            found = scores.tocoo()
            return cls(found.row, found.col, found.data, scores.shape)
        rows, labels = np.divmod(np.arange(scores.size), scores.shape[1])
        return cls(rows, labels, scores.ravel(), scores.shape)

    def best(self) -> np.ndarray:
        """The place of the highest score of each example that has one, of equal ones the first label's."""
        order = np.lexsort((self.labels, -self.scores, self.rows))
        return order[np.unique(self.rows[order], return_index=True)[1]]


def sets_at(scores: Matrix, threshold: float | np.ndarray, at_least_one: bool) -> sparse.csr_array:
    """The sets (N, L) bool of labels that reach the threshold, of dense scores also one for each label (L,); the best
    label where none does and one is due."""
    if not sparse.issparse(scores):
        said = scores >= threshold
        if at_least_one:
            said[np.arange(len(said)), scores.argmax(axis=1)] = True
        return sparse.csr_array(said)
    pairs = Pairs.of(scores)
    chosen = pairs.scores >= threshold
    if at_least_one:
        chosen[pairs.best()] = True
    said = np.ones(int(chosen.sum()), dtype=bool)
    return sparse.csr_array((said, (pairs.rows[chosen], pairs.labels[chosen])), shape=pairs.shape)


def best_cuts(scores: Matrix, targets: sparse.csr_array, at_least_one: bool) -> dict[str, Cut]:
    """For each metric the best of one threshold for all labels and several rules for one for each label. A rule is
    valued on the halves of the examples that it was not applied to; one threshold is valued where it was chosen."""
    best = best_thresholds(scores, targets, at_least_one)
    if sparse.issparse(scores):  # thousands of labels, too rare for their own thresholds
        return best
    truth = targets.toarray().astype(bool)
    even = np.arange(len(truth)) % 2 == 0
    shared = dict(best)
    drawn = [dict(_label_thresholds(scores[half], truth[half], shared)) for half in (even, ~even)]
    everything = dict(_label_thresholds(scores, truth, shared))
    for rule, thresholds in everything.items():
        said = np.zeros_like(truth)
        for half, rules in zip((~even, even), drawn, strict=True):
            said[half] = sets_at(scores[half], rules[rule], at_least_one).toarray()
        for metric, value in all_scores(truth, said).items():
            if metric in best and value > best[metric].value:
                best[metric] = Cut(thresholds, value)
    return best


def _label_thresholds(
    scores: np.ndarray, targets: np.ndarray, shared: dict[str, Cut]
) -> Iterator[tuple[tuple[str, float], np.ndarray]]:
    """(rule, thresholds (L,)): those best for the F1 of each label, for micro-F1 and for Hamming accuracy, drawn to the
    one threshold that is best for that, more or less strongly where a label is rare. Scores and targets (N, L)."""
    order = np.argsort(-scores, axis=0, kind="stable")
    falling = np.take_along_axis(scores, order, axis=0)
    hits = np.cumsum(np.take_along_axis(targets, order, axis=0), axis=0)  # (N, L) after 1, 2, … examples
    predicted = np.arange(1, len(scores) + 1)[:, None]
    is_cut = np.vstack([falling[:-1] > falling[1:], np.ones((1, scores.shape[1]), dtype=bool)])
    positives = targets.sum(axis=0)
    values = {
        "macro_f1": 2 * hits / (predicted + positives),
        "micro_f1": _gains_for_micro_f1(hits, predicted, is_cut, shared["micro_f1"].value),
        "hamming_accuracy": 2.0 * hits - predicted,
    }
    for metric, value in values.items():
        at = np.where(is_cut, value, -np.inf).argmax(axis=0)  # (L,)
        columns = np.arange(scores.shape[1])
        below = falling[np.minimum(at + 1, len(scores) - 1), columns]
        own = (falling[at, columns] + below) / 2
        own = np.where(value[at, columns] > 0, own, falling[0] + 1.0)  # no example is better than any
        for strength in STRENGTHS:
            share = positives / (positives + strength)
            yield (metric, strength), share * own + (1 - share) * shared[metric].threshold


def _gains_for_micro_f1(hits: np.ndarray, predicted: np.ndarray, is_cut: np.ndarray, micro_f1: float) -> np.ndarray:
    """(N, L) 2 hits - F predicted. The thresholds with the highest sum of these have the highest micro-F1 if F is that
    micro-F1 (Dinkelbach's method for ratios)."""
    true, columns = hits[-1].sum(), np.arange(hits.shape[1])
    for _ in range(ROUNDS):
        gains = 2 * hits - micro_f1 * predicted
        at = np.where(is_cut, gains, -np.inf).argmax(axis=0)  # (L,)
        some = gains[at, columns] > 0
        said = (at + 1)[some].sum()
        micro_f1 = 2 * hits[at, columns][some].sum() / max(said + true, 1)
    return gains


def best_thresholds(scores: Matrix, targets: Matrix, at_least_one: bool) -> dict[str, Cut]:
    """For each metric the best of all thresholds: scores (N, L), targets (N, L) bool.

    Exact: (example, label) pairs are let in one by one, the highest score first, and each moves a metric by the step of
    its own label or its own example alone. Of equally good cuts the middle one is taken, to leave both sides room."""
    pairs = Pairs.of(scores)
    values = pairs.scores.astype(np.float64)
    if at_least_one:  # the best label of an example is in at any threshold
        values[pairs.best()] = np.inf
    order = np.argsort(-values, kind="stable")
    falling = values[order]
    is_cut = np.append(falling[:-1] > falling[1:], True)  # equal scores stand on the same side of any threshold
    let_in = np.flatnonzero(is_cut) + 1  # (C,) pairs above each cut
    if not at_least_one:
        let_in = np.append(0, let_in)
    best = {}
    for metric, curve in _curves(pairs.rows[order], pairs.labels[order], sparse.csr_array(targets, dtype=bool)).items():
        reached = curve[let_in]
        ties = np.flatnonzero(reached >= reached.max() - EQUAL)
        place = ties[len(ties) // 2]
        best[metric] = Cut(_between(falling, let_in[place]), float(reached[place]))
    return best


def _between(falling: np.ndarray, let_in: int) -> float:
    """A threshold that so many of the scores reach."""
    above = falling[let_in - 1] if let_in else np.inf
    if let_in == len(falling):
        return float(above)
    below = falling[let_in]
    if np.isinf(above):
        return float(below) + 1.0
    middle = below + (above - below) / 2
    return float(middle if middle > below else above)


def _curves(row_of: np.ndarray, label_of: np.ndarray, targets: sparse.csr_array) -> dict[str, np.ndarray]:
    """Each metric (P + 1,) after the first 0, 1, … of these pairs were let in."""
    examples, labels = targets.shape
    truly = np.repeat(np.arange(examples), np.diff(targets.indptr)) * labels + targets.indices
    hit = np.isin(row_of.astype(np.int64) * labels + label_of, truly)
    let_in, hits, true = np.arange(hit.size + 1), np.append(0, np.cumsum(hit)), targets.nnz
    per_label, per_example = np.bincount(targets.indices, minlength=labels), np.diff(targets.indptr)
    return {
        "macro_f1": _summed(label_of, hit, per_label, _f1) / labels,
        "micro_f1": _f1(hits, let_in, true),
        "example_f1": _summed(row_of, hit, per_example, _f1_of_examples) / examples,
        "subset_accuracy": _summed(row_of, hit, per_example, _all_right) / examples,
        "hamming_accuracy": 1 - (true - hits + let_in - hits) / (examples * labels),
    }


Value = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # (hits, predicted, true) -> what they are worth


def _summed(group_of: np.ndarray, hit: np.ndarray, true: np.ndarray, value: Value) -> np.ndarray:
    """The sum of all groups' values after 0, 1, … pairs, each of which changes the value of its own group only."""
    by_group = np.argsort(group_of, kind="stable")
    group = group_of[by_group]
    starts = np.searchsorted(group, np.arange(len(true)))
    hits_before = np.append(0, np.cumsum(hit[by_group]))
    hits = hits_before[1:] - hits_before[starts][group]
    predicted = np.arange(len(group)) - starts[group] + 1
    nothing = np.zeros(len(true), dtype=int)
    at_first = value(nothing, nothing, true)
    after = value(hits, predicted, true[group])
    before = np.where(predicted == 1, at_first[group], np.append(0, after[:-1]))
    steps = np.empty(len(group))
    steps[by_group] = after - before
    return at_first.sum() + np.append(0, np.cumsum(steps))


def _f1(hits: np.ndarray, predicted: np.ndarray, true: np.ndarray | int) -> np.ndarray:
    return 2 * hits / np.maximum(predicted + true, 1)


def _f1_of_examples(hits: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    return np.where(predicted + true == 0, 1.0, _f1(hits, predicted, true))


def _all_right(hits: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    return ((hits == predicted) & (hits == true)).astype(float)
