"""The probability at which a label is predicted, chosen on held-out data."""

from __future__ import annotations

import numpy as np

from ..errors import ConfigError
from .counts import Matrix, count

NEUTRAL = 0.5


def best_threshold(probs: np.ndarray, targets: Matrix, metric: str = "micro_f1") -> tuple[float, float]:
    """The one threshold for all labels at which `probs >= threshold` has the highest micro-F1, and that micro-F1.

    Exact: micro-F1 changes only where the threshold passes a score, so every cut between two neighbouring distinct
    scores is tried, at the cost of one sort. The threshold lies midway between them, so that rounding does not matter.
    Among equally good cuts the one nearest to 0.5 is chosen."""
    if metric != "micro_f1":
        raise ConfigError(f"a threshold can be chosen for micro_f1 only, not for {metric!r}.")
    if probs.shape != targets.shape:
        raise ValueError(f"probs are {probs.shape}, targets {targets.shape}: expected the same shape.")
    truth = (targets if isinstance(targets, np.ndarray) else targets.toarray()).astype(bool).ravel()  # (N * L,)
    scores = probs.ravel() if np.issubdtype(probs.dtype, np.floating) else probs.ravel().astype(float)
    if np.isnan(scores).any():
        raise ValueError("probs hold NaN.")
    positives = int(truth.sum())
    if positives == 0:  # every threshold scores 0
        return NEUTRAL, 0.0

    order = np.argsort(-scores)
    scores = scores[order]
    is_cut = np.append(scores[:-1] > scores[1:], True)  # equal scores are on the same side of any threshold
    predicted = np.flatnonzero(is_cut) + 1  # (C,) number of scores above each cut
    hits = np.cumsum(truth[order])[is_cut]
    micro_f1 = 2 * hits / (predicted + positives)

    thresholds = _midway(scores[is_cut])
    best = np.flatnonzero(micro_f1 == micro_f1.max())
    chosen = best[np.argmin(np.abs(thresholds[best] - NEUTRAL))]
    return float(thresholds[chosen]), float(micro_f1[chosen])


def precision_recall(probs: np.ndarray, targets: Matrix, steps: int = 50) -> list[dict[str, float]]:
    """Micro-averaged precision and recall of `probs >= threshold` at thresholds from 0 to 1. A threshold that no
    probability reaches has no precision and is left out."""
    truth = (targets if isinstance(targets, np.ndarray) else targets.toarray()).astype(bool)  # (N, L)
    reached = np.sort(probs.ravel())
    hit = np.sort(probs[truth])
    rows = []
    for threshold in np.arange(steps + 1) / steps:
        predicted = len(reached) - int(np.searchsorted(reached, threshold))
        hits = len(hit) - int(np.searchsorted(hit, threshold))
        if predicted:
            recall = hits / len(hit) if len(hit) else 0.0
            rows.append({"threshold": float(threshold), "precision": hits / predicted, "recall": recall})
    return rows


def label_thresholds(probs: np.ndarray, targets: Matrix, shared: float, strength: float) -> np.ndarray:
    """(L,) the threshold at which each label's own F1 is highest, shrunk towards `shared`: `strength` is the number
    of positives at which both have the same weight. A label with few positives stays near `shared`, a label without
    positives gets it. Shrinkage is on the scale of log-odds, on which steps near 0 and near 1/2 are comparable."""
    positives = np.asarray(targets.sum(axis=0)).ravel()  # (L,)
    best = np.array([best_threshold(probs[:, [label]], targets[:, [label]])[0] for label in range(probs.shape[1])])
    share = positives / (positives + strength)  # (L,)
    return _probability(share * _log_odds(best) + (1 - share) * _log_odds(np.array(shared)))


def _log_odds(probs: np.ndarray) -> np.ndarray:
    inside = np.clip(probs.astype(float), 1e-6, 1 - 1e-6)
    log_odds: np.ndarray = np.log(inside / (1 - inside))
    return log_odds


def _probability(log_odds: np.ndarray) -> np.ndarray:
    probs: np.ndarray = 1 / (1 + np.exp(-log_odds))
    return probs


def macro_threshold(probs: np.ndarray, targets: np.ndarray) -> float:
    """The one of `candidate_thresholds` with the highest macro-F1; of several, the middle one."""
    tried = candidate_thresholds(probs, targets)
    values = np.array([count(targets, probs >= threshold)[0].f1().mean() for threshold in tried])
    best = np.flatnonzero(values >= values.max() - 1e-12)
    return float(tried[best[len(best) // 2]])


CANDIDATES = 60


def candidate_thresholds(probs: np.ndarray, targets: Matrix) -> np.ndarray:
    """Candidate thresholds for any metric: the best for micro-F1 and a grid on the scale of log-odds. Of thresholds
    without a probability between them, which give the same decisions, only the lowest."""
    best, _ = best_threshold(probs, targets)
    odds = np.linspace(-5.0, 4.0, CANDIDATES)
    tried = np.unique(np.append(_probability(odds), best))
    below = np.searchsorted(np.sort(probs, axis=None), tried.astype(probs.dtype))  # number of probabilities below each
    return tried[np.unique(below, return_index=True)[1]]


def _midway(distinct: np.ndarray) -> np.ndarray:
    """Thresholds that just admit each of the falling scores; the lower neighbour of the lowest score is 0."""
    below = np.append(distinct[1:], np.minimum(distinct[-1], 0)).astype(distinct.dtype)
    middle = below + (distinct - below) / 2
    # The middle of two neighbouring floats rounds to one of them; it must be the upper one.
    return np.where(middle > below, middle, distinct)
