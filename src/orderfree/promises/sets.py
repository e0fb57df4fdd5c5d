"""Lists of label sets that hold the true one, by split conformal prediction.

A search finds some sets of an example with their probabilities, largest first; `outside` stands for all others and
comes last. The score of a set is the probability that stands before it in the list: 0 for the first one. A list takes
all sets with a score up to a limit, and `outside` where even the sets found do not reach that limit. The limit is
chosen so that the true answer is in the list for enough calibration examples. Whatever the probabilities are worth, the
rank of a new example's score among the calibration scores is uniform, so the promise holds; good probabilities make the
lists short.
"""

from __future__ import annotations

import numpy as np

from .bounds import allowed_risk, examples_needed, highest_threshold
from .labels import Refusal


def true_scores(probs: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(N,) the score of the true answer of every example.

    probs (N, W) of the sets found, largest first, 0 where there is none; place (N,) of the true set, -1: outside."""
    before = mass_before(probs)  # (N, W + 1)
    return before[np.arange(len(before)), place]  # -1: the last, which is outside


def mass_before(probs: np.ndarray) -> np.ndarray:
    """(N, W + 1) the probability before each set, and before `outside`."""
    return np.concatenate([np.zeros((len(probs), 1)), np.cumsum(probs, axis=1, dtype=np.float64)], axis=1)


def list_limit(scores: np.ndarray, coverage: float, confidence: float | None = None) -> float | Refusal:
    """The lowest limit at which lists hold the true answer with this probability."""
    allowed = allowed_risk(len(scores), 1 - coverage, confidence, binary=True)
    if allowed is None:
        return Refusal(1.0, examples_needed(0.0, 1 - coverage, confidence, binary=True))
    found = highest_threshold(-scores, np.ones(len(scores)), len(scores), allowed)
    assert found is not None, "every score is finite"
    return max(-found, 0.0)


def list_lengths(probs: np.ndarray, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """(N,) how many sets each list has, and (N,) whether `outside` is an answer too."""
    within = mass_before(probs) <= limit  # (N, W + 1)
    lengths: np.ndarray = (within[:, :-1] & (probs > 0)).sum(axis=1)
    return lengths, within[:, -1]
