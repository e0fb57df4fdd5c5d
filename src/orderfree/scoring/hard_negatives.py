"""One linear classifier for each of many labels, solved on the examples that could be mistaken for its own.

With L labels and N examples, solving every label on every example costs L x N. Here a label is solved on its own
examples, on those most similar to its centroid (hard negatives) and on some drawn at random: cost and memory grow with
the number of label assignments. Relations: the label-wise solver with sampled negatives of Jain et al. (2019, Slice),
with centroids in the place of a neighbour graph. Unlike a label tree it needs no random clustering, so the same seed
gives the same bytes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse
from sparse_dot_topn import sp_matmul_topn

CENTROID_TERMS = 200  # heaviest terms of a centroid
RANDOM_NEGATIVES = 500  # examples that every label is solved on besides
SMALLEST_WEIGHT = 0.05  # weights below this are left out of the solution


TOLERANCE, ITERATIONS = 0.1, 50  # of liblinear's dual solver; other values were not compared


@dataclass(frozen=True, slots=True)
class Examples:
    """What classifiers are solved on."""

    bags: sparse.csr_matrix  # (N, V)
    targets: sparse.csr_matrix  # (N, L)
    weights: np.ndarray  # (N,) how much each example counts
    unknown: sparse.csr_matrix  # (N, L) labels that an example may or may not have: they are solved without it

    def __len__(self) -> int:
        return int(self.bags.shape[0])

    def at(self, rows: np.ndarray) -> Examples:
        return Examples(self.bags[rows], self.targets[rows], self.weights[rows], self.unknown[rows])


def label_centroids(examples: Examples) -> sparse.csr_matrix:
    """(V, L) sparse: the heaviest terms of the summed examples of each label, a vector of length 1."""
    sums = sparse.csr_matrix(examples.targets.T.astype(np.float32) @ examples.bags)  # (L, V)
    for start, end in pairwise(sums.indptr):
        if end - start > CENTROID_TERMS:
            weights = sums.data[start:end]
            weights[weights < np.partition(weights, -CENTROID_TERMS)[-CENTROID_TERMS]] = 0.0
    sums.eliminate_zeros()
    lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1))).ravel()  # (L,)
    sums.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(sums.indptr)).astype(np.float32)
    return sums.T.tocsr()


def largest_products(left: sparse.csr_matrix, right: sparse.csr_matrix, top: int) -> sparse.csr_matrix:
    """left (N, V) @ right (V, M), sparse: of each row the `top` largest entries, in the order of their columns."""
    left, right = (sparse.csr_matrix(matrix, dtype=np.float32) for matrix in (left, right))
    lowest = float(np.finfo(np.float32).min)  # without a threshold the library drops negative products
    products = sparse.csr_matrix(sp_matmul_topn(left, right, top_n=top, threshold=lowest, n_threads=1))
    products.sort_indices()
    return products


def solve_classifiers(examples: Examples, confused: sparse.csr_matrix, seed: int, c: float) -> sparse.csr_matrix:
    """(V + 1, L) sparse weights, the biases in the last row. A label without an example keeps a margin of -1.

    confused (N, L): the labels that an example is similar to. It is a hard negative of those it does not have."""
    from sklearn.exceptions import ConvergenceWarning

    features = sparse.csr_matrix(examples.bags, dtype=np.float64)  # liblinear knows no other type
    terms, labels = features.shape[1], examples.targets.shape[1]
    having, similar, unknown = (sparse.csc_matrix(m) for m in (examples.targets, confused, examples.unknown))
    count = min(RANDOM_NEGATIVES, len(examples))
    drawn = np.random.default_rng(seed).choice(len(examples), count, replace=False)
    columns, values = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # solved closely enough after so many iterations
        for label in range(labels):
            positive = _rows_of(having, label)
            rows = np.unique(np.concatenate([positive, _rows_of(similar, label), drawn]))
            rows = np.setdiff1d(rows, _rows_of(unknown, label), assume_unique=True)
            truth = np.isin(rows, positive)
            weights, bias = np.zeros(terms), -1.0
            if truth.any() and not truth.all():
                weights, bias = _solve(features[rows], truth, examples.weights[rows], c)
            kept = np.flatnonzero(np.abs(weights) >= SMALLEST_WEIGHT)
            columns.append(np.append(kept, terms))
            values.append(np.append(weights[kept], bias))
    ends = np.cumsum([0, *(len(some) for some in columns)])
    content = (np.concatenate(values).astype(np.float32), np.concatenate(columns), ends)
    return sparse.csr_matrix(content, shape=(labels, terms + 1)).T.tocsr()


def _rows_of(matrix: sparse.csc_matrix, label: int) -> np.ndarray:
    rows: np.ndarray = matrix.indices[matrix.indptr[label] : matrix.indptr[label + 1]]
    return rows


def _solve(features: sparse.csr_matrix, truth: np.ndarray, weights: np.ndarray, c: float) -> tuple[np.ndarray, float]:
    """Weights (V,) and bias of one label."""
    from sklearn.svm import LinearSVC

    solver = LinearSVC(C=c, dual=True, tol=TOLERANCE, max_iter=ITERATIONS, random_state=0)
    solver.fit(features, truth, sample_weight=None if (weights == 1).all() else weights)
    return solver.coef_[0], float(solver.intercept_[0])
