"""Candidate labels of each example, with calibrated scores, where labels are too many to score them all densely.

One sparse linear classifier for each label and the labels of similar training examples propose candidates; a logistic
regression on both scores decides which candidates an example keeps. Everything is sparse: documents x candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from scipy import sparse

from ..system.listed import Folder
from ..system.tensors import write_tensors
from .hard_negatives import Examples, SolverOptions, hard_negatives, largest_products, solve_classifiers
from .neighbours import of_length_one

FILE = "shortlist.safetensors"  # in a model directory
PROPOSED = 100  # labels that the classifiers propose for an example
NEAREST = 50  # training examples whose labels are proposed too
MOST_REMEMBERED = 200_000  # training examples to be similar to; of more, so many at random
FREQUENT = 0.05  # terms that a larger share of examples holds do not count for similarity: they make it slow
SHARPNESS = 10.0  # a neighbour whose cosine is higher by .1 counts e times as much
SOFTENED = 0.01  # added to a share before its logarithm is taken
FITTED_EXAMPLES = 10_000  # examples that the combination is fitted to
FOLDS = 3  # fewer than where labels are few: solving is what takes time here
AT_ONCE = 4096  # rows of a matrix product


@dataclass(frozen=True, slots=True)
class Shortlists:
    """The candidate labels of N examples, C for each, in the order of their ids."""

    labels: np.ndarray  # (N, C) int32, ascending in each row
    scores: np.ndarray  # (N, C) float32, log-odds

    def recall(self, targets: sparse.csr_matrix) -> float:
        """The share of true labels (N, L) among the candidates."""
        hits = sum(
            int(np.isin(targets.indices[start:end], row, assume_unique=True).sum())
            for row, start, end in zip(self.labels, targets.indptr[:-1], targets.indptr[1:], strict=True)
        )
        return hits / max(targets.nnz, 1)


@dataclass(frozen=True)
class ShortlistScorer:
    """Solved once, immutable afterwards."""

    classifiers: sparse.csr_matrix  # (V + 1, L) weights of each term for each label; the last row is the bias
    remembered: sparse.csr_matrix  # (M, V) training bags of length 1, frequent terms left out
    remembered_labels: sparse.csr_matrix  # (M, L) their labels
    frequent: np.ndarray  # (V,) bool, terms that do not count for similarity
    coefficients: np.ndarray  # (4,) of margin, log share, log count, and the constant
    log_counts: np.ndarray  # (L,) logarithm of the number of training examples of each label
    size: int  # C

    @cached_property
    def _by_term(self) -> sparse.csr_matrix:
        return self.remembered.T.tocsr()  # (V, M)

    @property
    def labels(self) -> int:
        return int(self.classifiers.shape[1])

    def contributions(self, terms: np.ndarray, weights: np.ndarray, label: int) -> np.ndarray:
        """(n,) what each of these terms (n,) of a bag adds to the score of a label."""
        solved = self.classifiers[terms][:, [label]].toarray()[:, 0]  # (n,)
        added: np.ndarray = self.coefficients[0] * weights * solved
        return added

    def shortlists(self, bags: sparse.csr_matrix) -> Shortlists:
        """Of bags (N, V)."""
        parts = [self._some(bags[start : start + AT_ONCE]) for start in range(0, bags.shape[0], AT_ONCE)]
        return Shortlists(
            np.concatenate([np.zeros((0, self.size), np.int32), *(part.labels for part in parts)]),
            np.concatenate([np.zeros((0, self.size), np.float32), *(part.scores for part in parts)]),
        )

    def _some(self, bags: sparse.csr_matrix) -> Shortlists:
        shares = self.shares(bags, None)
        return self.combined(proposals(bags, self.classifiers), shares)

    def shares(self, bags: sparse.csr_matrix, skipped: np.ndarray | None) -> sparse.csr_matrix:
        """(N, L) the share of each label among the most similar remembered examples, weighted by similarity.
        skipped (N,): one remembered example for each bag that does not count (itself), -1 for none."""
        comparable = without_terms(of_length_one(bags), self.frequent)
        nearest = largest_products(comparable, self._by_term, NEAREST + 1)  # (N, M)
        weights = nearest.data.astype(np.float64)
        rows = np.repeat(np.arange(nearest.shape[0]), np.diff(nearest.indptr))  # (entries,)
        weights = np.exp(SHARPNESS * weights)
        if skipped is not None:
            weights[nearest.indices == skipped[rows]] = 0.0
        totals = np.bincount(rows, weights=weights, minlength=nearest.shape[0])  # (N,)
        weights /= np.maximum(totals[rows], 1e-12)
        voting = sparse.csr_matrix((weights.astype(np.float32), nearest.indices, nearest.indptr), shape=nearest.shape)
        return sparse.csr_matrix(voting @ self.remembered_labels)

    def combined(self, margins: sparse.csr_matrix, shares: sparse.csr_matrix) -> Shortlists:
        """The `size` candidates (N, C) with the highest scores of all that either side proposes."""
        candidates = Proposed.join(margins, shares, self.log_counts)
        scores = candidates.features @ self.coefficients[:-1] + self.coefficients[-1]  # (entries,)
        return candidates.best(scores.astype(np.float32), self.size)

    def save(self, directory: Path) -> None:
        arrays: dict[str, np.ndarray] = {
            "coefficients": self.coefficients,
            "log_counts": self.log_counts,
            "frequent": self.frequent,
            "size": np.array([self.size, self.classifiers.shape[0], self.classifiers.shape[1]]),
        }
        for name, matrix in self._matrices().items():
            arrays[f"{name}.ends"] = matrix.indptr.astype(np.int64)
            arrays[f"{name}.columns"] = matrix.indices.astype(np.int32)
        arrays["classifiers.values"] = self.classifiers.data.astype(np.float16)
        arrays["remembered.values"] = self.remembered.data.astype(np.float16)
        write_tensors(directory / FILE, {name: torch.from_numpy(values) for name, values in arrays.items()})

    def _matrices(self) -> Mapping[str, sparse.csr_matrix]:
        return {
            "classifiers": self.classifiers,
            "remembered": self.remembered,
            "remembered_labels": self.remembered_labels,
        }

    @classmethod
    def load(cls, directory: Folder, terms: int) -> ShortlistScorer:
        """ValueError where the file does not fit a model of so many terms. Every index is checked: one that points
        nowhere would be read beyond the end of memory."""
        arrays = load_file(directory / FILE)
        size, rows, labels = (int(number) for number in arrays["size"])
        if rows != terms + 1 or not 0 < size <= labels or len(arrays["frequent"]) != terms:
            raise ValueError(f"{FILE} was made for other terms or labels")
        classifiers = _checked(arrays, "classifiers", labels)
        remembered = _checked(arrays, "remembered", terms)
        remembered_labels = _checked(arrays, "remembered_labels", labels)
        numbers = (arrays["coefficients"], arrays["log_counts"])
        if (
            classifiers.shape[0] != rows
            or remembered.shape[0] != remembered_labels.shape[0]
            or [len(one) for one in numbers] != [4, labels]
            or not all(np.isfinite(one).all() for one in (*numbers, classifiers.data, remembered.data))
        ):
            raise ValueError(f"{FILE} holds matrices that do not fit each other")
        frequent = arrays["frequent"].astype(bool)
        return cls(classifiers, remembered, remembered_labels, frequent, *numbers, size)


def _checked(arrays: Mapping[str, np.ndarray], name: str, width: int) -> sparse.csr_matrix:
    columns, ends = arrays[f"{name}.columns"], arrays[f"{name}.ends"]
    values = arrays.get(f"{name}.values", np.ones(len(columns), np.float32)).astype(np.float32)
    if columns.dtype.kind != "i" or ends.dtype.kind != "i":
        raise ValueError(f"{FILE} holds positions that are no integers")
    matrix = sparse.csr_matrix((values, columns, ends), shape=(len(ends) - 1, width))
    matrix.check_format(full_check=True)
    return matrix


@dataclass(frozen=True, slots=True)
class Proposed:
    """Labels proposed by classifiers or neighbours: one entry for each example and label."""

    rows: np.ndarray  # (entries,) ascending
    labels: np.ndarray  # (entries,) ascending within a row
    features: np.ndarray  # (entries, 3) margin, log share, log count of the label
    examples: int

    @classmethod
    def join(cls, margins: sparse.csr_matrix, shares: sparse.csr_matrix, log_counts: np.ndarray) -> Proposed:
        """A label that the classifiers do not propose has at most the lowest margin they do propose; a label that no
        neighbour has a share of 0."""
        labels = margins.shape[1]
        keys = [
            np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr)) * labels + matrix.indices
            for matrix in (margins, shares)
        ]
        union = np.union1d(*keys)  # (entries,)
        rows, columns = union // labels, union % labels
        lowest = np.full(margins.shape[0], -1.0, dtype=np.float32)  # (N,)
        filled = np.diff(margins.indptr) > 0
        lowest[filled] = np.minimum.reduceat(margins.data, margins.indptr[:-1][filled])
        margin = lowest[rows]
        margin[np.searchsorted(union, keys[0])] = margins.data
        share = np.zeros(len(union), dtype=np.float32)
        share[np.searchsorted(union, keys[1])] = shares.data
        features = np.stack([margin, np.log(share + SOFTENED), log_counts[columns]], axis=1).astype(np.float32)
        return cls(rows, columns, features, margins.shape[0])

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


def proposals(bags: sparse.csr_matrix, classifiers: sparse.csr_matrix) -> sparse.csr_matrix:
    """The margins (N, L) of the `PROPOSED` labels with the highest ones."""
    constant = sparse.csr_matrix(np.ones((bags.shape[0], 1), dtype=np.float32))
    with_bias = sparse.hstack([bags, constant], format="csr", dtype=np.float32)
    return largest_products(with_bias, classifiers, PROPOSED)


def without_terms(bags: sparse.csr_matrix, left_out: np.ndarray) -> sparse.csr_matrix:
    """(N, V) without these terms (V,), of length 1 again."""
    kept = sparse.csr_matrix(bags, copy=True)
    kept.data[left_out[kept.indices]] = 0.0
    kept.eliminate_zeros()
    return sparse.csr_matrix(of_length_one(kept))


def fit_scorer(
    examples: Examples, size: int, seed: int, options: SolverOptions, say: Callable[[str], None] = lambda _: None
) -> tuple[ShortlistScorer, Shortlists]:
    """A scorer solved on these examples, and shortlists of the same examples from classifiers and neighbours that have
    not seen them."""
    negatives = hard_negatives(examples.bags, examples.targets)
    margins = _out_of_fold(examples, negatives, seed, options, say)
    say("solving on all examples")
    scorer, position = _without_combination(examples, negatives, size, seed, options)
    say("looking for similar training examples")
    some = [slice(start, start + AT_ONCE) for start in range(0, len(examples), AT_ONCE)]
    parts = [scorer.shares(examples.bags[rows], position[rows]) for rows in some]
    shares = sparse.vstack(parts, format="csr")
    scorer = replace(scorer, coefficients=_fit_combination(margins, shares, examples.targets, scorer.log_counts))
    return scorer, scorer.combined(margins, shares)


def refit_scorer(scorer: ShortlistScorer, examples: Examples, seed: int, options: SolverOptions) -> ShortlistScorer:
    """Classifiers and neighbours from more examples; how they are combined stays."""
    negatives = hard_negatives(examples.bags, examples.targets)
    again, _ = _without_combination(examples, negatives, scorer.size, seed, options)
    return replace(again, coefficients=scorer.coefficients)


def _without_combination(
    examples: Examples, negatives: sparse.csr_matrix, size: int, seed: int, options: SolverOptions
) -> tuple[ShortlistScorer, np.ndarray]:
    """The scorer before its combination is fitted, and the position of each example among those remembered (N,), -1:
    not remembered."""
    chosen = np.arange(len(examples))
    if len(examples) > MOST_REMEMBERED:
        chosen = np.sort(np.random.default_rng(seed).choice(len(examples), MOST_REMEMBERED, replace=False))
    position = np.full(len(examples), -1)
    position[chosen] = np.arange(len(chosen))
    bags = examples.bags
    frequent = np.bincount(bags.indices, minlength=bags.shape[1]) > max(FREQUENT * len(examples), NEAREST)  # (V,)
    remembered = without_terms(bags[chosen], frequent)
    classifiers = solve_classifiers(examples, negatives, seed, options)
    for matrix in (remembered, classifiers):
        matrix.data = matrix.data.astype(np.float16).astype(np.float32)  # as it will be read from the file
    counts = np.bincount(examples.targets.indices, minlength=examples.targets.shape[1])  # (L,)
    log_counts = np.log(np.maximum(counts, 1)).astype(np.float32)
    labels = sparse.csr_matrix(examples.targets[chosen], dtype=np.float32)
    return ShortlistScorer(classifiers, remembered, labels, frequent, np.zeros(4), log_counts, size), position


def _out_of_fold(
    examples: Examples, negatives: sparse.csr_matrix, seed: int, options: SolverOptions, say: Callable[[str], None]
) -> sparse.csr_matrix:
    """Margins (N, L) proposed for each example by classifiers solved on the other folds."""
    folds = min(FOLDS, len(examples))
    fold_of = np.random.default_rng(seed).permutation(len(examples)) % folds  # (N,)
    parts = []
    for fold in range(folds):
        say(f"solving without fold {fold + 1} of {folds}")
        seen = np.flatnonzero(fold_of != fold)
        classifiers = solve_classifiers(examples.at(seen), negatives[seen], seed, options)
        parts.append(proposals(examples.bags[fold_of == fold], classifiers))
    back = np.argsort(np.argsort(fold_of, kind="stable"))  # (N,) where each example stands among the parts
    return sparse.vstack(parts, format="csr")[back]


def _fit_combination(
    margins: sparse.csr_matrix, shares: sparse.csr_matrix, targets: sparse.csr_matrix, log_counts: np.ndarray
) -> np.ndarray:
    """(4,) coefficients of a logistic regression from both scores to the log-odds of a label."""
    from sklearn.linear_model import LogisticRegression

    examples, labels = targets.shape
    fitted = min(examples, FITTED_EXAMPLES)
    some = np.arange(fitted) * examples // fitted  # (n,) at even distances
    proposed = Proposed.join(margins[some], shares[some], log_counts)
    truth = targets[some]
    true_keys = np.repeat(np.arange(fitted, dtype=np.int64), np.diff(truth.indptr)) * labels + truth.indices
    right = np.isin(proposed.rows * labels + proposed.labels, true_keys)
    model = LogisticRegression(C=1e3, max_iter=200).fit(proposed.features, right)
    return np.append(model.coef_[0], model.intercept_[0])
