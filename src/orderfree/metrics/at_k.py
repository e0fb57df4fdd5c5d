"""Scores of the first k labels of an example, as reported for corpora with many labels.

A ranking is an array (N, K) of label numbers, the highest score first; -1 fills the row of an
example with fewer. No array here has examples x labels entries. Every score is a mean over examples with labels.

- Precision (P@k): the share of the first k labels that are true. Recall (R@k): the share of the true labels among them.
- nDCG@k: a true label counts 1 / log2(1 + position), and the sum is divided by that of the best possible ranking.
- Propensity-scored precision (PSP@k; Jain, Prabhu & Varma, KDD 2016): a true label counts 1 / propensity, so that
  rare labels, which annotators miss more often, weigh more; divided by the mean of the best possible ranking.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .counts import Matrix

PLACES = (1, 3, 5, 10)
TITLES = {"p": "precision", "r": "recall", "ndcg": "nDCG", "psp": "propensity-scored precision"}
MANY_LABELS = 200  # with more labels than this, `evaluate` shows these scores
A, B = 0.55, 1.5  # Jain et al.'s, for corpora that are not Wikipedia or Amazon
CELLS_AT_ONCE = 1 << 24


def scores_at_k(ranking: np.ndarray, truth: sparse.csr_array, inverse_propensities: np.ndarray) -> dict[str, float]:
    """Every score at k = 1, 3, 5 and 10 of a ranking (N, K) of the labels of `truth` (N, L); weights are (L,)."""
    if len(ranking) != truth.shape[0]:
        raise ValueError(f"the ranking has {len(ranking)} rows, the truth {truth.shape[0]}: expected as many.")
    truth = truth.astype(bool)
    true = np.diff(truth.indptr)  # (N,)
    has_labels = true > 0
    if not has_labels.any():
        return {f"{name}@{k}": 0.0 for name in TITLES for k in PLACES}
    ranking, truth, true = ranking[has_labels, : max(PLACES)], truth[has_labels], true[has_labels]
    hits = _hits(ranking, truth)  # (N, K) bool
    weighted = np.where(hits, inverse_propensities[ranking], 0.0)  # (N, K)
    best = _largest_weights(truth, inverse_propensities)  # (N, K')
    discount = 1 / np.log2(np.arange(2, hits.shape[1] + 2))  # (K,)
    ideal = np.cumsum(1 / np.log2(np.arange(2, max(PLACES) + 2)))  # of 1, 2, … true labels at the first positions
    scores: dict[str, dict[str, float]] = {name: {} for name in TITLES}
    for k in PLACES:
        right = hits[:, :k].sum(axis=1)  # (N,)
        scores["p"][f"p@{k}"] = float(np.mean(right / k))
        scores["r"][f"r@{k}"] = float(np.mean(right / true))
        scores["ndcg"][f"ndcg@{k}"] = float(np.mean(hits[:, :k] @ discount[:k] / ideal[np.minimum(true, k) - 1]))
        scores["psp"][f"psp@{k}"] = float(weighted[:, :k].sum() / best[:, :k].sum())
    return {key: value for by_k in scores.values() for key, value in by_k.items()}


def inverse_propensities(counts: np.ndarray, examples: int) -> np.ndarray:
    """(L,) the weight of labels that `counts` (L,) of the training examples have: 1 + C (count + B)^-A."""
    scale = (np.log(examples) - 1) * (B + 1) ** A
    weights: np.ndarray = 1 + max(scale, 0.0) * (np.asarray(counts, dtype=np.float64) + B) ** -A
    return weights


def top_labels(scores: Matrix, k: int = max(PLACES)) -> np.ndarray:
    """(N, K) the k labels with the highest scores (N, L), the first of equal ones; labels that a sparse matrix does
    not store are never among them."""
    if sparse.issparse(scores):
        return _top_of_sparse(sparse.csr_array(scores), k)
    k = min(k, scores.shape[1])
    rows = max(1, CELLS_AT_ONCE // scores.shape[1])
    parts = [_top_of_dense(scores[start : start + rows], k) for start in range(0, len(scores), rows)]
    return np.concatenate([np.zeros((0, k), dtype=np.int64), *parts])


def _top_of_dense(scores: np.ndarray, k: int) -> np.ndarray:
    """All labels above the k-th highest score, then the first of those that have exactly this score."""
    smallest = np.partition(scores, -k, axis=1)[:, -k, None]  # (B, 1)
    above, level = scores > smallest, scores == smallest
    left = k - above.sum(axis=1, keepdims=True)  # (B, 1)
    chosen = above | (level & (np.cumsum(level, axis=1) <= left))
    labels = np.nonzero(chosen)[1].reshape(len(scores), k)
    order = np.argsort(-np.take_along_axis(scores, labels, axis=1), axis=1, kind="stable")
    return np.take_along_axis(labels, order, axis=1)


def _top_of_sparse(scores: sparse.csr_array, k: int) -> np.ndarray:
    sizes = np.diff(scores.indptr)
    row_of = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((scores.indices, -scores.data, row_of))
    position = np.arange(len(order)) - np.repeat(scores.indptr[:-1], sizes)
    kept = position < k
    ranking = np.full((len(sizes), k), -1, dtype=np.int64)
    ranking[row_of[kept], position[kept]] = scores.indices[order][kept]
    return ranking


def _hits(ranking: np.ndarray, truth: sparse.csr_array) -> np.ndarray:
    """(N, K) which labels of the ranking are true."""
    rows, labels = truth.shape
    true = np.repeat(np.arange(rows), np.diff(truth.indptr)) * labels + truth.indices
    ranked = np.arange(rows)[:, None] * labels + ranking
    return np.isin(ranked, true) & (ranking >= 0)


def _largest_weights(truth: sparse.csr_array, weights: np.ndarray) -> np.ndarray:
    """(N, K) the weights of each example's true labels, the largest first, padded with 0."""
    weighted = sparse.csr_array((weights[truth.indices], truth.indices, truth.indptr), shape=truth.shape)
    best = top_labels(weighted)
    return np.where(best >= 0, weights[best], 0.0)
