"""How well probabilities rank the examples of each label: what the field of sound events reports.

Every label is judged alone, on how its own examples are ranked, and the mean is taken over labels. A label that no
example has, or every example has, ranks nothing and is left out; how many were judged is said. An example of which it
is not known whether it has the label (its probability is NaN) has no place in that label's ranking.

- Average precision: the mean, over the examples that have the label, of the precision down to each; ties go together.
- AUC: the probability that an example with the label is ranked above one without it; a tie counts half.
- d′ (d-prime): the distance, in standard deviations, of two normal distributions with that mean AUC: √2 Φ⁻¹(AUC).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from .counts import Matrix


def ranking_scores(probs: np.ndarray, targets: Matrix) -> dict[str, float | int | None]:
    """Of (N, L) probabilities and what was true. None: no label could be judged; d′ also where the AUC is 0 or 1."""
    truth = (targets if isinstance(targets, np.ndarray) else targets.toarray()).astype(bool)
    if probs.shape != truth.shape:
        raise ValueError(f"probs are {probs.shape}, targets {truth.shape}: expected the same shape.")
    known = ~np.isnan(probs)  # (N, L)
    positives, examples = (truth & known).sum(axis=0), known.sum(axis=0)  # (L,)
    judged = np.flatnonzero((positives > 0) & (positives < examples))
    if not len(judged):
        return {"mean_average_precision": None, "auc": None, "d_prime": None, "labels": 0}
    pairs = [(probs[known[:, label], label], truth[known[:, label], label]) for label in judged]
    auc = float(np.mean([area_under_curve(*pair) for pair in pairs]))
    return {
        "mean_average_precision": float(np.mean([average_precision(*pair) for pair in pairs])),
        "auc": auc,
        "d_prime": float(np.sqrt(2) * ndtri(auc)) if 0 < auc < 1 else None,
        "labels": len(judged),
    }


def average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    """Σ (recall gained at a cut) x (precision at that cut), over the cuts between distinct scores (N,)."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    cuts = np.append(np.flatnonzero(ranked[:-1] != ranked[1:]), len(ranked) - 1)  # last place of each run of ties
    hits = np.cumsum(truth[order])[cuts]
    gained = np.diff(hits, prepend=0)
    return float((gained * hits / (cuts + 1)).sum() / hits[-1])


def area_under_curve(scores: np.ndarray, truth: np.ndarray) -> float:
    """The Mann-Whitney statistic, as a share of all pairs."""
    positives = int(truth.sum())
    pairs = positives * (len(truth) - positives)
    ordered, held = np.sort(scores), scores[truth]
    ranks = (np.searchsorted(ordered, held) + np.searchsorted(ordered, held, "right") + 1) / 2  # ties: their mean rank
    return float((ranks.sum() - positives * (positives + 1) / 2) / pairs)
