"""One linear classifier for each of many labels, solved on the examples that could be mistaken for its own.

With L labels and N examples, solving every label on every example costs L x N. Here a label is solved on its own
examples, on those most similar to its centroid (hard negatives) and on some drawn at random: cost and memory grow with
the number of label assignments. Relations: the label-wise solver with sampled negatives of Jain et al. (2019, Slice),
with centroids in the place of a neighbour graph. Unlike a label tree it needs no random clustering, so the same seed
gives the same bytes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sparse_dot_topn import sp_matmul_topn

CENTROID_TERMS = 200  # heaviest terms of a centroid
CONFUSED_LABELS = 100  # labels to which an example is most similar: it is a hard negative of those it does not have
RANDOM_NEGATIVES = 500  # examples that every label is solved on besides
SMALLEST_WEIGHT = 0.05  # weights below this are left out of the solution


TOLERANCE, ITERATIONS = 0.1, 50  # of liblinear's dual solver: more changes no metric by .001


@dataclass(frozen=True, slots=True)
class SolverOptions:
    c: float  # liblinear's C
    positive_weights: np.ndarray  # (L,) what an example that has the label weighs against one that has not


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


def hard_negatives(bags: sparse.csr_matrix, targets: sparse.csr_matrix) -> sparse.csr_matrix:
    """(N, L) sparse: the labels whose centroid each example is most similar to, its own labels included."""
    sums = sparse.csr_matrix(targets.T.astype(np.float32) @ bags)  # (L, V)
    for start, end in zip(sums.indptr[:-1], sums.indptr[1:], strict=True):
        if end - start > CENTROID_TERMS:
            weights = sums.data[start:end]
            weights[weights < np.partition(weights, -CENTROID_TERMS)[-CENTROID_TERMS]] = 0.0
    sums.eliminate_zeros()
    lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1))).ravel()  # (L,)
    sums.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(sums.indptr)).astype(np.float32)
    return largest_products(bags, sums.T.tocsr(), CONFUSED_LABELS)


def largest_products(left: sparse.csr_matrix, right: sparse.csr_matrix, top: int) -> sparse.csr_matrix:
    """left (N, V) @ right (V, M), sparse: of each row the `top` largest entries, in the order of their columns."""
    left, right = (sparse.csr_matrix(matrix, dtype=np.float32) for matrix in (left, right))
    lowest = float(np.finfo(np.float32).min)  # without a threshold the library drops negative products
    products = sparse.csr_matrix(sp_matmul_topn(left, right, top_n=top, threshold=lowest, n_threads=1))
    products.sort_indices()
    return products


def solve_classifiers(
    examples: Examples, negatives: sparse.csr_matrix, seed: int, options: SolverOptions
) -> sparse.csr_matrix:
    """(V + 1, L) sparse weights, the biases in the last row. A label without an example keeps a margin of -1."""
    from sklearn.exceptions import ConvergenceWarning

    features = sparse.csr_matrix(examples.bags, dtype=np.float64)  # liblinear knows no other type
    terms, labels = features.shape[1], examples.targets.shape[1]
    having, similar, unknown = (sparse.csc_matrix(m) for m in (examples.targets, negatives, examples.unknown))
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
                heavy = float(options.positive_weights[label])
                weights, bias = _solve(features[rows], truth, examples.weights[rows], options.c, heavy)
            kept = np.flatnonzero(np.abs(weights) >= SMALLEST_WEIGHT)
            columns.append(np.append(kept, terms))
            values.append(np.append(weights[kept], bias))
    ends = np.cumsum([0, *(len(some) for some in columns)])
    content = (np.concatenate(values).astype(np.float32), np.concatenate(columns), ends)
    return sparse.csr_matrix(content, shape=(labels, terms + 1)).T.tocsr()


def _rows_of(matrix: sparse.csc_matrix, label: int) -> np.ndarray:
    rows: np.ndarray = matrix.indices[matrix.indptr[label] : matrix.indptr[label + 1]]
    return rows


def _solve(
    features: sparse.csr_matrix, truth: np.ndarray, weights: np.ndarray, c: float, heavy: float
) -> tuple[np.ndarray, float]:
    """Weights (V,) and bias of one label."""
    from sklearn.svm import LinearSVC

    classes = {True: heavy, False: 1.0}
    solver = LinearSVC(C=c, dual=True, tol=TOLERANCE, max_iter=ITERATIONS, class_weight=classes, random_state=0)
    solver.fit(features, truth, sample_weight=None if (weights == 1).all() else weights)
    return solver.coef_[0], float(solver.intercept_[0])
