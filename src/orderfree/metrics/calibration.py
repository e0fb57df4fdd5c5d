"""Calibration of probabilities: of all labels with probability 0.7, seven in ten should be true.

Every (example, label) pair is one *cell*, with a probability and a truth. The other scores judge decisions:
they do not detect a model that decides well but is overconfident. Calibration matters when a probability is used as a
number: to set a threshold by hand, to choose examples for review, to weigh it against a cost.

- The expected calibration error (Naeini, Cooper & Hauskrecht, AAAI 2015; Guo, Pleiss, Sun & Weinberger, ICML 2017) is
  the mean distance between the probabilities of a bin and the share of its cells that are true. Guo et al. use the
  probability of the one class chosen; here every label is a binary decision, as in Naeini et al.
- Nearly all cells of a multi-label problem are easy negatives, whose error of nearly 0 hides the others. Therefore the
  same figure is also computed over the cells with a probability of at least 0.05. Cells are selected by prediction,
  never by truth: such a selection leaves perfectly calibrated probabilities calibrated.
- The Brier score (1950), the mean squared distance to the truth, needs no bins and, unlike the calibration error,
  penalises a model that gives every example the same average probability.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .counts import Matrix

BINS = 15  # Guo et al.'s
LIKELY = 0.05


def calibration(probs: np.ndarray, targets: Matrix) -> dict[str, Any]:
    """All these figures as plain JSON, from probabilities and targets (N, L). A mean over no cells is None."""
    cells, truth = _cells(probs, targets)
    likely = cells >= LIKELY
    rows = reliability(cells, truth)
    return {
        "cells": cells.size,
        "expected_calibration_error": _mean_gap(rows),
        "brier_score": brier_score(cells, truth),
        "likely_from": LIKELY,
        "likely_cells": int(np.count_nonzero(likely)),
        "likely_expected_calibration_error": expected_calibration_error(cells[likely], truth[likely]),
        "reliability": rows,
    }


def calibration_by_group(probs: np.ndarray, true: np.ndarray, groups: np.ndarray) -> list[dict[str, Any]]:
    """The figures for each group of cells (C,): number of cells, mean probability, share of true cells, calibration
    error and Brier score."""
    rows = []
    for group in np.unique(groups):
        in_group = groups == group
        rows.append(
            {
                "group": int(group),
                "count": int(in_group.sum()),
                "mean_probability": float(probs[in_group].mean()),
                "share_true": float(true[in_group].mean()),
                "expected_calibration_error": expected_calibration_error(probs[in_group], true[in_group]),
                "brier_score": brier_score(probs[in_group], true[in_group]),
            }
        )
    return rows


def reliability(probs: np.ndarray, targets: Matrix, bins: int = BINS) -> list[dict[str, float | int]]:
    """Mean probability and share of true cells, in `bins` equally wide parts of [0, 1].

    A bin includes its lower end; the last bin also includes 1. Empty bins have no mean and are left out."""
    cells, truth = _cells(probs, targets)
    edges = np.arange(bins + 1) / bins  # not multiples of 1 / bins: 3 * 0.1 is more than 0.3
    bin_of = np.searchsorted(edges[1:-1], cells, side="right")  # (N * L,) the bin of each cell
    count = np.bincount(bin_of, minlength=bins)  # (bins,)
    total = np.bincount(bin_of, cells, minlength=bins)
    true = np.bincount(bin_of[truth], minlength=bins)
    return [
        {
            "lower": float(edges[b]),
            "upper": float(edges[b + 1]),
            "mean_probability": float(total[b] / count[b]),
            "share_true": float(true[b] / count[b]),
            "count": int(count[b]),
        }
        for b in np.flatnonzero(count)
    ]


def expected_calibration_error(probs: np.ndarray, targets: Matrix, bins: int = BINS) -> float | None:
    """Mean over cells of |share true - mean probability| of the bin they fall into. None without cells."""
    return _mean_gap(reliability(probs, targets, bins))


def _mean_gap(rows: list[dict[str, float | int]]) -> float | None:
    gaps = [row["count"] * abs(row["share_true"] - row["mean_probability"]) for row in rows]
    return sum(gaps) / sum(row["count"] for row in rows) if rows else None


def brier_score(probs: np.ndarray, targets: Matrix) -> float | None:
    """Mean squared distance between probability and truth (0 or 1). None without cells."""
    cells, truth = _cells(probs, targets)
    distance = cells - truth
    return float(distance @ distance) / cells.size if cells.size else None


def _cells(probs: np.ndarray, targets: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and truth of all cells, (N * L,) float64 and bool."""
    if probs.shape != targets.shape:
        raise ValueError(f"probs are {probs.shape}, targets {targets.shape}: expected the same shape.")
    cells = probs.ravel().astype(np.float64, copy=False)
    if not np.all((cells >= 0) & (cells <= 1)):
        raise ValueError("probs hold numbers that are not between 0 and 1.")
    truth = targets if isinstance(targets, np.ndarray) else targets.toarray()
    return cells, truth.ravel().astype(bool, copy=False)
