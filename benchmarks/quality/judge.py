"""What predicted sets are worth, and how they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from layout import METRICS
from scipy import sparse

from orderfree.metrics.at_k import scores_at_k
from orderfree.metrics.counts import Matrix
from orderfree.metrics.resampling import intervals
from orderfree.metrics.scores import scores
from orderfree.system.files import writing

Sets: TypeAlias = sparse.csr_array  # (N, L) bool


def judged(targets: Sets, predictions: dict[str, Sets]) -> dict[str, Any]:
    """Scores of each metric under the choice made for it; all five of every other choice, a plain decoder say."""
    return {
        "examples": targets.shape[0],
        "labels": targets.shape[1],
        "scores": {metric: scores(targets, predictions[metric])[metric] for metric in METRICS},
        "intervals": {m: intervals(targets, {m: predictions[m]}, [m])[m][m] for m in METRICS},
        "plain": {
            name: {metric: scores(targets, sets)[metric] for metric in METRICS}
            for name, sets in predictions.items()
            if name not in METRICS
        },
    }


def save_ranking(path: Path, ranking: np.ndarray, inverse_propensities: np.ndarray) -> None:
    """The first labels of each example (N, K), and what a hit of each label weighs (L,)."""
    with writing(path) as file:
        np.savez(file, ranking=ranking, inverse_propensities=inverse_propensities)


def first_labels(targets: Sets, path: Path) -> dict[str, float]:
    """P@k and the like of a ranking that was saved."""
    with np.load(path, allow_pickle=False) as content:
        return scores_at_k(content["ranking"], targets, content["inverse_propensities"])


def save_sets(path: Path, sets: Matrix) -> None:
    """Label sets (N, L) as the numbers of their labels; plain arrays, so that reading them runs no code."""
    matrix = sparse.csr_array(sets, dtype=bool)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    with writing(path) as file:
        np.savez(file, indices=matrix.indices, indptr=matrix.indptr, shape=np.array(matrix.shape))


def load_sets(path: Path) -> Sets:
    with np.load(path, allow_pickle=False) as content:
        indices, indptr, shape = content["indices"], content["indptr"], tuple(content["shape"].tolist())
    return sparse.csr_array((np.ones(len(indices), dtype=bool), indices, indptr), shape=shape)
