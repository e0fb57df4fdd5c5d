"""One threshold on the scores of a system, chosen for each metric on validation data: the freedom all systems have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

EQUAL = 1e-12  # curves are sums of many small steps: what differs by less is the same


@dataclass(frozen=True)
class Cut:
    threshold: float
    validation: float  # the metric there


def sets_at(scores: np.ndarray, threshold: float, at_least_one: bool) -> np.ndarray:
    """The sets (N, L) bool of labels that reach the threshold; the best label where none does and one is due."""
    sets = scores >= threshold
    if at_least_one:
        sets[np.arange(len(scores)), scores.argmax(axis=1)] = True
    return sets


def best_thresholds(scores: np.ndarray, targets: np.ndarray, at_least_one: bool) -> dict[str, Cut]:
    """For each metric the best of all thresholds: scores (N, L), targets (N, L) bool.

    Exact: (example, label) pairs are let in one by one, the highest score first, and each moves a metric by the step of
    its own label or its own example alone. Of equally good cuts the middle one is taken, to leave both sides room."""
    if at_least_one:  # the best label of an example is in at any threshold
        scores = scores.copy()
        scores[np.arange(len(scores)), scores.argmax(axis=1)] = np.inf
    order = np.argsort(-scores, axis=None, kind="stable")
    falling = scores.ravel()[order]
    is_cut = np.append(falling[:-1] > falling[1:], True)  # equal scores stand on the same side of any threshold
    let_in = np.flatnonzero(is_cut) + 1  # (C,) pairs above each cut
    if not at_least_one:
        let_in = np.append(0, let_in)
    best = {}
    for metric, curve in _curves(order, targets).items():
        values = curve[let_in]
        ties = np.flatnonzero(values >= values.max() - EQUAL)
        place = ties[len(ties) // 2]
        best[metric] = Cut(_between(falling, let_in[place]), float(values[place]))
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


def _curves(order: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    """Each metric (N * L + 1,) after the first 0, 1, … pairs of the order were let in."""
    examples, labels = targets.shape
    row_of, label_of = np.divmod(order, labels)
    hit = targets.ravel()[order]
    let_in, hits, true = np.arange(hit.size + 1), np.append(0, np.cumsum(hit)), int(targets.sum())
    per_label, per_example = targets.sum(axis=0), targets.sum(axis=1)
    return {
        "macro_f1": _summed(label_of, hit, per_label, _f1) / labels,
        "micro_f1": _f1(hits, let_in, true),
        "example_f1": _summed(row_of, hit, per_example, _f1_of_examples) / examples,
        "subset_accuracy": _summed(row_of, hit, per_example, _all_right) / examples,
        "hamming_accuracy": 1 - (true - hits + let_in - hits) / hit.size,
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
