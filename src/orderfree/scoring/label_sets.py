"""Whole label sets as candidates: those of similar training examples, and the first labels of a shortlist.

Exact sets recur: authors, editors and catalogues give the same combination of labels again and again. How much of the
similar examples a set stands for and how well its labels are scored say together how likely the set is right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

LONGEST_PREFIX = 5  # so many sets of an example are its first 1, 2, … labels
KEPT = 12  # sets of an example that decoders are told of
SOFTENED = 0.005  # added to a set's share before its logarithm is taken
FEATURES = 5
DRAWN = 1e-3  # how strongly the coefficients are drawn towards 0
AT_ONCE = 1024  # examples whose sets are compared at once


@dataclass(frozen=True, slots=True)
class LabelSets:
    """Candidate sets: one entry for each example and set."""

    rows: np.ndarray  # (entries,) ascending
    members: np.ndarray  # (entries, C) bool, positions in the example's shortlist
    features: np.ndarray  # (entries, FEATURES): log share, log odds, lowest score inside, highest outside, labels

    def without_members(self) -> LabelSets:
        """All that is fitted to; members take a hundred bytes each."""
        return LabelSets(self.rows, self.members[:, :0], self.features)

    def best(self, weights: np.ndarray, examples: int) -> tuple[np.ndarray, np.ndarray]:
        """The sets (N, KEPT, C) that are most likely right and the log of these probabilities (N, KEPT), falling;
        -inf where an example has fewer sets. weights (FEATURES + 1,) as `fit_set_weights` finds them."""
        scores = self.features @ weights[:-1]  # (entries,)
        probs, _ = _probabilities(scores, weights[-1], self.rows)
        order = np.lexsort((-probs, self.rows))
        rank = np.arange(len(order)) - np.searchsorted(self.rows, self.rows)  # `order` keeps rows where they are
        kept, place = order[rank < KEPT], rank[rank < KEPT]
        sets = np.zeros((examples, KEPT, self.members.shape[1]), dtype=bool)
        log_probs = np.full((examples, KEPT), -np.inf, dtype=np.float32)
        sets[self.rows[kept], place] = self.members[kept]
        log_probs[self.rows[kept], place] = np.log(np.maximum(probs[kept], 1e-30))
        return sets, log_probs


def candidate_sets(
    labels: np.ndarray, scores: np.ndarray, similar: sparse.csr_matrix, having: sparse.csr_matrix
) -> Iterable[tuple[slice, LabelSets]]:
    """Of shortlists `labels` (N, C), ascending in each row, with `scores` (N, C): some rows at a time, and their sets.

    similar (N, M): how much each remembered example counts; having (M, L): their labels. A set with a label outside the
    shortlist is no candidate."""
    for start in range(0, len(labels), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        yield some, _sets(labels[some], scores[some], similar[some], having)


def members_of(labels: np.ndarray, rows: np.ndarray, sets: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Sets (E, L) of examples `rows` (E,) as positions in the shortlists `labels` (N, C): (E, C) bool; and whether the
    shortlist holds all of the set (E,)."""
    keys = (np.arange(len(labels))[:, None] * sets.shape[1] + labels).ravel()  # (N * C,) ascending
    entry = np.repeat(np.arange(len(rows)), np.diff(sets.indptr))
    wanted = rows[entry].astype(np.int64) * sets.shape[1] + sets.indices
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    inside = keys[place] == wanted
    members = np.zeros((len(rows), labels.shape[1]), dtype=bool)
    members[entry[inside], place[inside] % labels.shape[1]] = True
    return members, np.bincount(entry[~inside], minlength=len(rows)) == 0


def _sets(labels: np.ndarray, scores: np.ndarray, similar: sparse.csr_matrix, having: sparse.csr_matrix) -> LabelSets:
    examples, size = labels.shape
    rows = np.repeat(np.arange(examples), np.diff(similar.indptr))
    counted = similar.data > 0
    rows, shares = rows[counted], similar.data[counted]
    members, inside = members_of(labels, rows, having[similar.indices[counted]])
    rank = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)  # (N, C)
    prefixes = [rank < length for length in range(1, min(LONGEST_PREFIX, size) + 1)]
    rows = np.concatenate([rows[inside], np.tile(np.arange(examples), len(prefixes))])
    members = np.concatenate([members[inside], *prefixes])
    shares = np.concatenate([shares[inside], np.zeros(examples * len(prefixes), dtype=np.float32)])
    rows, members, shares = _merged(rows, members, shares)
    return LabelSets(rows, members, _features(scores, rows, members, shares))


def _merged(rows: np.ndarray, members: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Equal sets of an example as one, with the sum of their shares."""
    numbers = rows.astype(">i8").view(np.uint8).reshape(-1, 8)  # bytes that sort as the numbers do
    keys = np.concatenate([numbers, np.packbits(members, axis=1)], axis=1)
    keys = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1]))).ravel()
    _, first, same = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], members[first], np.bincount(same, weights=shares)


def _features(scores: np.ndarray, rows: np.ndarray, members: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(entries, FEATURES)"""
    each = scores[rows]  # (entries, C)
    absent = np.logaddexp(0.0, scores).sum(axis=1)  # (N,) minus the logarithm that no label is right
    lengths = members.sum(axis=1)
    lowest = np.where(members, each, np.inf).min(axis=1)
    highest = np.where(members, -np.inf, each).max(axis=1)
    columns = [
        np.log(shares + SOFTENED),
        np.where(members, each, 0.0).sum(axis=1) - absent[rows],
        np.where(lengths > 0, lowest, 0.0),
        np.where(lengths < members.shape[1], highest, 0.0),
        lengths,
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def fit_set_weights(sets: Iterable[LabelSets], right: Iterable[np.ndarray]) -> np.ndarray:
    """(FEATURES + 1,) coefficients of the features, and the score of "none of these sets": the probability of a set is
    the softmax of its score among those of its example. right: of the sets in each part, which are the true ones."""
    rows, features, examples = [], [], 0
    for part in sets:
        rows.append(part.rows + examples)
        features.append(part.features.astype(np.float64))
        examples += int(part.rows[-1]) + 1  # every example has a set
    row, inputs, truth = np.concatenate(rows), np.concatenate(features), np.concatenate(list(right))
    without = examples - truth.sum()

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        scores = inputs @ weights[:-1]
        probs, none = _probabilities(scores, weights[-1], row)
        logs = np.log(np.maximum(probs[truth], 1e-300)).sum()
        missed = np.ones(examples, dtype=bool)
        missed[row[truth]] = False
        logs += np.log(np.maximum(none[missed], 1e-300)).sum()
        slope = np.append((probs - truth) @ inputs, none.sum() - without)
        return DRAWN * (weights @ weights) - logs / examples, 2 * DRAWN * weights + slope / examples

    found: np.ndarray = minimize(loss, np.zeros(FEATURES + 1), jac=True, method="L-BFGS-B").x
    return found


def _probabilities(scores: np.ndarray, none: float, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each set (entries,), and of none of them (N,)."""
    starts = np.searchsorted(rows, np.arange(rows[-1] + 1)) if len(rows) else np.zeros(0, dtype=int)
    highest = np.maximum(np.maximum.reduceat(scores, starts), none) if len(rows) else np.zeros(0)
    mass, rest = np.exp(scores - highest[rows]), np.exp(none - highest)
    total = np.bincount(rows, weights=mass) + rest if len(rows) else rest
    return mass / total[rows], rest / total
