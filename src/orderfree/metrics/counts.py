"""Counts of true and false positives and negatives, from which all scores of decisions are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from ..errors import DataError

Matrix: TypeAlias = np.ndarray | sparse.csr_array  # (N, L) of 0 and 1, dense or sparse


@dataclass(frozen=True, slots=True)
class Counts:
    """One entry per group: per label (all examples), per example (all labels), or a single entry for all cells."""

    tp: np.ndarray  # (G,) int64
    fp: np.ndarray  # (G,) int64
    fn: np.ndarray  # (G,) int64
    tn: np.ndarray  # (G,) int64

    def pooled(self) -> Counts:
        """The sum over all groups."""
        return Counts(*(np.sum(part, keepdims=True) for part in (self.tp, self.fp, self.fn, self.tn)))

    def precision(self, of_nothing: float = 0.0) -> np.ndarray:
        return self._ratio(self.tp, self.tp + self.fp, of_nothing)

    def recall(self, of_nothing: float = 0.0) -> np.ndarray:
        return self._ratio(self.tp, self.tp + self.fn, of_nothing)

    def f1(self, of_nothing: float = 0.0) -> np.ndarray:
        return self._ratio(2 * self.tp, 2 * self.tp + self.fp + self.fn, of_nothing)

    def _ratio(self, part: np.ndarray, whole: np.ndarray, of_nothing: float) -> np.ndarray:
        """part / whole; if `whole` is 0: `of_nothing` for a group without true or predicted labels, else 0."""
        empty = np.where(self.tp + self.fp + self.fn == 0, of_nothing, 0.0)
        return np.divide(part, whole, out=empty, where=whole > 0)


def count(targets: Matrix, predictions: Matrix) -> tuple[Counts, Counts]:
    """Counts per label (L,) and per example (N,)."""
    if targets.shape != predictions.shape:
        raise ValueError(f"targets are {targets.shape}, predictions {predictions.shape}: expected the same shape.")
    if 0 in targets.shape:
        raise DataError(f"nothing to score: {targets.shape[0]} examples with {targets.shape[1]} labels.")
    if sparse.issparse(targets) or sparse.issparse(predictions):
        targets, predictions = _sparse(targets), _sparse(predictions)
        hits = targets.multiply(predictions)
    else:
        targets, predictions = targets.astype(bool, copy=False), predictions.astype(bool, copy=False)
        hits = targets & predictions
    return _along(0, targets, predictions, hits), _along(1, targets, predictions, hits)


def _sparse(matrix: Any) -> sparse.csr_array:
    matrix = sparse.csr_array(matrix).astype(bool)
    matrix.sum_duplicates()  # a duplicate entry is still one label
    return matrix


def _along(axis: int, targets: Any, predictions: Any, hits: Any) -> Counts:
    tp, true, predicted = (np.asarray(part.sum(axis)).ravel().astype(np.int64) for part in (hits, targets, predictions))
    return Counts(tp, predicted - tp, true - tp, targets.shape[axis] - true - predicted + tp)
