"""Selective prediction: scores on the examples with the highest confidence, when the others are left unanswered."""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS = 50  # points of the curve
WANTED = (0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)  # subset accuracies that are reported


def answered_curve(sure: np.ndarray, right: np.ndarray, example_f1: np.ndarray) -> list[dict[str, float]]:
    """Scores on the examples with the highest confidence, from all examples downwards; ties are answered together.

    sure (N,) the probability of the predicted set; right (N,) whether the set is correct; example_f1 (N,)."""
    order = np.argsort(-sure, kind="stable")
    falling, total = sure[order], len(sure)
    last = np.append(falling[:-1] > falling[1:], True)  # (N,) the last of those with equal confidence
    ends = np.flatnonzero(last)
    wanted = np.ceil(np.arange(1, STEPS + 1) / STEPS * total) - 1
    chosen = np.unique(ends[np.minimum(np.searchsorted(ends, wanted), len(ends) - 1)])[::-1]
    subset, f1 = np.cumsum(right[order]), np.cumsum(example_f1[order])
    return [
        {
            "share": float((at + 1) / total),
            "abstain_below": float(falling[at]),
            "subset_accuracy": float(subset[at] / (at + 1)),
            "example_f1": float(f1[at] / (at + 1)),
        }
        for at in chosen
    ]


def reached(curve: list[dict[str, float]], wanted: tuple[float, ...] = WANTED) -> list[dict[str, Any]]:
    """For every subset accuracy, the largest share of examples that reaches it. Levels that all examples reach, or no
    share does, are left out."""
    reached_levels = []
    for level in wanted:
        enough = [row for row in curve if row["subset_accuracy"] >= level]
        if enough and enough[0] is not curve[0]:
            reached_levels.append({"wanted": level, **enough[0]})
    return reached_levels
