"""Candidate labels of examples: what is known of each that is proposed, and the shortlists of the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy import sparse

SOFTENED = 0.01  # added to a share before its logarithm is taken
SCORES, COMPARED = 7, 4  # numbers known of a candidate; from this one on, compared with the best of the example


@dataclass(frozen=True, slots=True)
class Shortlists:
    """The candidate labels of N examples, C for each, in the order of their ids."""

    labels: np.ndarray  # (N, C) int32, ascending in each row
    scores: np.ndarray  # (N, C) float32, log-odds
    sets: np.ndarray | None = None  # (N, S, C) bool, sets that are most likely right; None: nobody has asked
    set_log_probs: np.ndarray | None = None  # (N, S) how likely, falling; -inf: no such set

    @classmethod
    def join(cls, lists: Sequence[Shortlists], size: int) -> Shortlists:
        """Of all examples, in the order of the parts; of none, lists of so many labels."""
        if not lists:
            labels = np.empty((0, size), dtype=np.int32)
            return cls(labels, labels.astype(np.float32))
        labels, scores = (np.concatenate([getattr(one, name) for one in lists]) for name in ("labels", "scores"))
        if any(one.sets is None for one in lists):
            return cls(labels, scores)
        sets, log_probs = (np.concatenate([getattr(one, n) for one in lists]) for n in ("sets", "set_log_probs"))
        return cls(labels, scores, sets, log_probs)

    def tensors(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """What is known of these rows besides their labels, by the names of `BagInput`."""
        known = {"scores": self.scores, "sets": self.sets, "set_log_probs": self.set_log_probs}
        return {name: torch.from_numpy(values[rows]) for name, values in known.items() if values is not None}

    def recall(self, targets: sparse.csr_matrix) -> float:
        """The share of true labels (N, L) among the candidates."""
        hits = sum(
            int(np.isin(targets.indices[start:end], row, assume_unique=True).sum())
            for row, start, end in zip(self.labels, targets.indptr[:-1], targets.indptr[1:], strict=True)
        )
        return hits / max(targets.nnz, 1)


@dataclass(frozen=True, slots=True)
class Proposed:
    """Labels proposed by centroids or neighbours: one entry for each example and label."""

    rows: np.ndarray  # (entries,) ascending
    labels: np.ndarray  # (entries,) ascending within a row
    features: (
        np.ndarray
    )  # (entries, SCORES) margin, cosine, log share, log count; the first three less the example's best
    examples: int
    similar: sparse.csr_matrix | None = None  # (N, M) how much each similar example counts

    @classmethod
    def join(
        cls, cosines: sparse.csr_matrix, shares: sparse.csr_matrix, margins: np.ndarray, log_counts: np.ndarray
    ) -> Proposed:
        """All labels with a cosine or a share, all arguments (N, L). What a label lacks counts as 0."""
        examples, labels = cosines.shape
        keys = [
            np.repeat(np.arange(examples, dtype=np.int64), np.diff(matrix.indptr)) * labels + matrix.indices
            for matrix in (cosines, shares)
        ]
        union = np.union1d(*keys)  # (entries,)
        rows, columns = union // labels, union % labels
        cosine, share = np.zeros((2, len(union)), dtype=np.float32)
        cosine[np.searchsorted(union, keys[0])] = cosines.data
        share[np.searchsorted(union, keys[1])] = shares.data
        given = [margins[rows, columns], cosine, np.log(share + SOFTENED), log_counts[columns]]
        features = np.empty((len(union), SCORES), dtype=np.float32)
        features[:, : len(given)] = np.stack(given, axis=1)
        for place in range(COMPARED, SCORES):
            values = features[:, place - COMPARED]
            highest = np.full(examples, -np.inf, dtype=np.float32)
            np.maximum.at(highest, rows, values)
            features[:, place] = values - highest[rows]
        return cls(rows, columns, features, examples)

    def best(self, scores: np.ndarray, size: int) -> Shortlists:
        """The entries with the highest scores, `size` for each example. Where fewer are proposed, the most frequent of
        the other labels follow with a score as low as the lowest, so that every example has `size` candidates."""
        labels = np.empty((self.examples, size), dtype=np.int32)
        chosen = np.empty((self.examples, size), dtype=np.float32)
        ends = np.searchsorted(self.rows, np.arange(self.examples + 1))
        for row, (start, end) in enumerate(pairwise(ends)):
            names, values = self.labels[start:end], scores[start:end]
            if len(names) > size:
                kept = np.argpartition(-values, size - 1)[:size]
                names, values = names[kept], values[kept]
            elif len(names) < size:
                others = np.setdiff1d(np.arange(min(2 * size, size + len(names))), names)[: size - len(names)]
                floor = values.min() if len(values) else np.float32(-10.0)
                names, values = np.append(names, others), np.append(values, np.full(len(others), floor - 1.0))
            order = np.argsort(names, kind="stable")
            labels[row], chosen[row] = names[order], values[order]
        return Shortlists(labels, chosen)
