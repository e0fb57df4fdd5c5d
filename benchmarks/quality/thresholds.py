"""One threshold on the scores of a system, chosen for each metric on validation data: the freedom all systems have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from orderfree.metrics.counts import Matrix

EQUAL = 1e-12  # curves are sums of many small steps: what differs by less is the same


@dataclass(frozen=True)
class Cut:
    threshold: float
    validation: float  # the metric there


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


def sets_at(scores: Matrix, threshold: float, at_least_one: bool) -> sparse.csr_array:
    """The sets (N, L) bool of labels that reach the threshold; the best label where none does and one is due."""
    pairs = Pairs.of(scores)
    chosen = pairs.scores >= threshold
    if at_least_one:
        chosen[pairs.best()] = True
    said = np.ones(int(chosen.sum()), dtype=bool)
    return sparse.csr_array((said, (pairs.rows[chosen], pairs.labels[chosen])), shape=pairs.shape)


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
