"""Training examples that are remembered as they are: what labels the ones most like a new example have."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from safetensors.numpy import load_file

from ..system.listed import Folder
from ..system.tensors import write_tensors
from .hard_negatives import largest_products

FILE = "neighbours.safetensors"  # in a model directory
MOST = 50_000  # examples remembered; of more, so many at random: the time of a search grows with them
SHARPNESS = 20.0  # a neighbour whose cosine is higher by .05 counts e times as much
SOFTENED = 0.01  # added to both sides of a share before its log-odds are taken: no neighbour is no proof
ROWS = 256  # searched for at once


class Neighbours:
    """Bags (N, V) of length 1 and their labels (N, L). A label's share among the nearest of them, each counted by how
    near it is, becomes log-odds: votes. They know what no sum of single words can say, and one example is enough."""

    def __init__(
        self,
        bags: scipy.sparse.csr_matrix,
        targets: scipy.sparse.csr_matrix,
        nearest: int,
        unknown: scipy.sparse.csr_matrix | None = None,
    ) -> None:
        self.bags, self.targets, self.nearest = bags, targets, nearest
        self.unknown = unknown  # (N, L) labels of which it is not known whether they are there; None: none
        self._usual = self._of_those_who_know(  # (1, L)
            np.asarray(targets.mean(axis=0)), None if unknown is None else np.asarray(unknown.mean(axis=0))
        )

    @cached_property
    def _by_term(self) -> scipy.sparse.csr_matrix:
        """(V, N)"""
        return self.bags.T.tocsr()

    @classmethod
    def remember(
        cls,
        bags: scipy.sparse.csr_matrix,
        targets: np.ndarray,
        nearest: int,
        seed: int,
        unknown: np.ndarray | None = None,
    ) -> tuple[Neighbours, np.ndarray]:
        """Of bags (N, V) with labels (N, L), some of them unknown (N, L); and the place of each example among those
        remembered (N,), -1: nowhere."""
        chosen = np.arange(len(targets))
        if len(chosen) > MOST:
            chosen = np.sort(np.random.default_rng(seed).choice(len(chosen), MOST, replace=False))
        rows = np.full(len(targets), -1)
        rows[chosen] = np.arange(len(chosen))
        kept = of_length_one(bags[chosen])
        kept.sum_duplicates()  # and sorted: as they will be read from the file
        kept.data = kept.data.astype(np.float16).astype(np.float32)
        labels = [None if some is None else _sparse(some[chosen]) for some in (targets, unknown)]
        return cls(kept, labels[0], nearest, labels[1]), rows

    def votes(self, bags: scipy.sparse.csr_matrix, own_rows: np.ndarray | None = None) -> np.ndarray:
        """Log-odds (B, L) for bags (B, V). own_rows (B,): the row that each is remembered in, without a vote."""
        return self.votes_and_nearest(bags, own_rows)[0]

    def votes_and_nearest(
        self, bags: scipy.sparse.csr_matrix, own_rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log-odds (B, L) and the cosine of the nearest neighbour (B,)."""
        votes = np.empty((bags.shape[0], self.labels), dtype=np.float32)
        nearest = np.empty(len(votes), dtype=np.float32)
        for start in range(0, len(votes), ROWS):
            block = slice(start, start + ROWS)
            asked = of_length_one(bags[block])
            shares, nearest[block] = self._shares(asked, None if own_rows is None else own_rows[block])  # (b, L), (b,)
            votes[block] = np.log((shares + SOFTENED) / (1 - shares + SOFTENED))
        return votes, nearest

    def _shares(self, asked: scipy.sparse.csr_matrix, own_rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        weights, first = nearest_weights(asked, self._by_term, self.nearest, SHARPNESS, own_rows)  # (b, N), (b,)
        have = (weights @ self.targets).toarray()  # (b, L)
        shares = self._of_those_who_know(have, None if self.unknown is None else (weights @ self.unknown).toarray())
        return np.where(first[:, None] > 0, shares, self._usual), first

    def _of_those_who_know(self, have: np.ndarray, unknown: np.ndarray | None) -> np.ndarray:
        """Shares of labels (b, L) among those of whom it is known; one half where there is none."""
        if unknown is None:
            return have.astype(np.float32).clip(0.0, 1.0)
        know = 1 - unknown
        shares = np.where(know > 1e-6, have / np.maximum(know, 1e-6), 0.5)
        return shares.astype(np.float32).clip(0.0, 1.0)

    @property
    def labels(self) -> int:
        return int(self.targets.shape[1])

    def save(self, directory: Path) -> None:
        arrays = {
            "shares": self._usual[0],
            "bags.ends": self.bags.indptr.astype(np.int64),
            "bags.terms": self.bags.indices.astype(np.int32),
            "bags.weights": self.bags.data.astype(np.float16),
        }
        for name, matrix in (("labels", self.targets), ("unknown", self.unknown)):
            if matrix is not None:
                arrays[f"{name}.ends"] = matrix.indptr.astype(np.int64)
                arrays[f"{name}.numbers"] = matrix.indices.astype(np.int32)
        write_tensors(directory / FILE, {name: torch.from_numpy(values) for name, values in arrays.items()})

    @classmethod
    def load(cls, directory: Folder, nearest: int, terms: int) -> Neighbours:
        """Numbers that point nowhere would be read beyond the end of memory: every one of them is looked at."""
        arrays = load_file(directory / FILE)
        bags = _checked(arrays["bags.weights"].astype(np.float32), arrays["bags.terms"], arrays["bags.ends"], terms)
        labels = {
            name: _checked(None, arrays[f"{name}.numbers"], arrays[f"{name}.ends"], len(arrays["shares"]))
            for name in ("labels", "unknown")
            if f"{name}.ends" in arrays
        }
        sizes = {matrix.shape[0] for matrix in (bags, *labels.values())}
        if len(sizes) > 1 or not 0 < bags.shape[0] <= MOST or not np.isfinite(bags.data).all():
            raise ValueError(f"{FILE} does not hold one bag of this model's terms for each set of labels")
        return cls(bags, labels["labels"], nearest, labels.get("unknown"))


def _checked(values: np.ndarray | None, numbers: np.ndarray, ends: np.ndarray, width: int) -> scipy.sparse.csr_matrix:
    """A matrix of `width` columns, ones where no values are given, whose rows name each column once at most."""
    values = np.ones(len(numbers), dtype=np.float32) if values is None else values
    matrix = scipy.sparse.csr_matrix((values, numbers, ends), shape=(len(ends) - 1, width))
    matrix.check_format(full_check=True)
    if numbers.dtype.kind != "i" or ends.dtype.kind != "i" or not matrix.has_canonical_format:
        raise ValueError(f"{FILE} holds rows that are none")
    return matrix


def _sparse(labels: np.ndarray) -> scipy.sparse.csr_matrix:
    return scipy.sparse.csr_matrix(labels.astype(np.float32))


def nearest_weights(
    bags: scipy.sparse.csr_matrix,
    by_term: scipy.sparse.csr_matrix,
    nearest: int,
    sharpness: float,
    skipped: np.ndarray | None = None,
) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """Of bags (B, V) and remembered ones by_term (V, N), all of length 1: how much each of the `nearest` counts (B, N),
    a softmax of its cosine times `sharpness`, and the cosine of the nearest (B,). What has nothing in common with a bag
    is no neighbour of it. skipped (B,): one that does not count for each bag (itself), -1 for none."""
    more = 0 if skipped is None else 1
    near = largest_products(bags, by_term, min(nearest + more, by_term.shape[1]))  # (B, N)
    rows = np.repeat(np.arange(near.shape[0]), np.diff(near.indptr))  # (entries,)
    cosines = near.data
    if skipped is not None:
        cosines[near.indices == skipped[rows]] = 0.0
        counts = np.bincount(rows, weights=cosines > 0, minlength=near.shape[0])  # (B,)
        for row in np.flatnonzero(counts > nearest):  # those that are not remembered have one too many
            span = cosines[near.indptr[row] : near.indptr[row + 1]]
            span[span.argmin()] = 0.0
    first = np.zeros(near.shape[0], dtype=np.float32)  # (B,)
    np.maximum.at(first, rows, cosines)
    weights = np.where(cosines > 0, np.exp(sharpness * (cosines - first[rows])), 0.0)  # (entries,)
    totals = np.bincount(rows, weights=weights, minlength=near.shape[0])  # (B,)
    weights = (weights / np.maximum(totals, 1e-12)[rows]).astype(np.float32)
    return scipy.sparse.csr_matrix((weights, near.indices, near.indptr), shape=near.shape), first


def of_length_one(bags: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Every row (N, V) divided by its length, in float32; empty ones stay empty."""
    bags = scipy.sparse.csr_matrix(bags, dtype=np.float32, copy=True)
    rows = np.repeat(np.arange(bags.shape[0]), np.diff(bags.indptr))  # (entries,)
    lengths = np.sqrt(np.bincount(rows, weights=bags.data.astype(np.float64) ** 2, minlength=bags.shape[0]))
    bags.data /= np.maximum(lengths[rows], 1e-12).astype(np.float32)
    return bags
