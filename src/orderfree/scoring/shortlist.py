"""Candidate labels of each example, with calibrated scores, where labels are too many to score them all densely.

Centroids of labels and the labels of similar training examples propose candidates. A sparse linear classifier for each
label scores them, and a logistic regression on all scores decides which candidates an example keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
from .hard_negatives import Examples, label_centroids, largest_products, solve_classifiers
from .neighbours import nearest_weights, of_length_one

FILE = "shortlist.safetensors"  # in a model directory
PROPOSED = 100  # labels whose centroids an example is most similar to: they are proposed
NEAREST = 50  # training examples whose labels are proposed too
MOST_REMEMBERED = 200_000  # training examples to be similar to; of more, so many at random
FREQUENT = 0.2  # terms that a larger share of examples holds do not count for similarity: they make it slow
SHARPNESS = 10.0  # a neighbour whose cosine is higher by .1 counts e times as much
SOFTENED = 0.01  # added to a share before its logarithm is taken
HELD_OUT = 20_000  # examples that the combination is fitted to and decoders are trained on, at most a third of all
AT_ONCE = 4096  # rows of a matrix product, fewer where labels are very many
MARGINS_AT_ONCE = 20_000_000  # numbers of a matrix product that is dense for a moment


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
    centroids: sparse.csr_matrix  # (V, L) heaviest terms of the examples of each label
    remembered: sparse.csr_matrix  # (M, V) training bags of length 1, frequent terms left out
    remembered_labels: sparse.csr_matrix  # (M, L) their labels
    frequent: np.ndarray  # (V,) bool, terms that do not count for similarity
    coefficients: np.ndarray  # (5,) of margin, cosine, log share, log count, and the constant
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

    def shortlists(self, bags: sparse.csr_matrix, skipped: np.ndarray | None = None) -> Shortlists:
        """Of bags (N, V). skipped (N,): one remembered example for each bag that does not count, -1 for none."""
        return self.best(self.proposals(bags, skipped))

    def best(self, proposals: Iterable[Proposed]) -> Shortlists:
        """The candidates with the highest scores."""
        lists = []
        for proposed in proposals:
            scores = proposed.features @ self.coefficients[:-1] + self.coefficients[-1]  # (entries,)
            lists.append(proposed.best(scores.astype(np.float32), self.size))
        empty = Shortlists(np.empty((0, self.size), dtype=np.int32), np.empty((0, self.size), dtype=np.float32))
        lists = lists or [empty]
        return Shortlists(np.concatenate([one.labels for one in lists]), np.concatenate([one.scores for one in lists]))

    def proposals(self, bags: sparse.csr_matrix, skipped: np.ndarray | None = None) -> Iterator[Proposed]:
        """As many bags (N, V) at once as fit into memory."""
        at_once = max(min(AT_ONCE, MARGINS_AT_ONCE // self.labels), 1)
        for start in range(0, bags.shape[0], at_once):
            rows = slice(start, start + at_once)
            yield self.proposed(bags[rows], None if skipped is None else skipped[rows])

    def proposed(self, bags: sparse.csr_matrix, skipped: np.ndarray | None) -> Proposed:
        """The candidates of bags (N, V), with all that is known of each."""
        cosines = largest_products(bags, self.centroids, PROPOSED)  # (N, L)
        margins = np.asarray((bags @ self.classifiers[:-1]).todense()) + self.classifiers[-1].toarray()  # (N, L)
        return Proposed.join(cosines, self.shares(bags, skipped), margins, self.log_counts)

    def shares(self, bags: sparse.csr_matrix, skipped: np.ndarray | None) -> sparse.csr_matrix:
        """(N, L) the share of each label among the most similar remembered examples, weighted by similarity.
        skipped (N,): one remembered example for each bag that does not count (itself), -1 for none."""
        comparable = without_terms(bags, self.frequent)
        weights, _ = nearest_weights(comparable, self._by_term, NEAREST, SHARPNESS, skipped)  # (N, M)
        return sparse.csr_matrix(weights @ self.remembered_labels)

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
            if name != "remembered_labels":
                arrays[f"{name}.values"] = matrix.data.astype(np.float16)
        write_tensors(directory / FILE, {name: torch.from_numpy(values) for name, values in arrays.items()})

    def _matrices(self) -> Mapping[str, sparse.csr_matrix]:
        return {
            "classifiers": self.classifiers,
            "centroids": self.centroids,
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
        classifiers, centroids = (_checked(arrays, name, labels) for name in ("classifiers", "centroids"))
        remembered = _checked(arrays, "remembered", terms)
        remembered_labels = _checked(arrays, "remembered_labels", labels)
        numbers = (arrays["coefficients"], arrays["log_counts"])
        if (
            (classifiers.shape[0], centroids.shape[0]) != (rows, terms)
            or remembered.shape[0] != remembered_labels.shape[0]
            or [len(one) for one in numbers] != [5, labels]
            or not all(np.isfinite(one).all() for one in (*numbers, classifiers.data, centroids.data, remembered.data))
        ):
            raise ValueError(f"{FILE} holds matrices that do not fit each other")
        frequent = arrays["frequent"].astype(bool)
        return cls(classifiers, centroids, remembered, remembered_labels, frequent, *numbers, size)


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
    """Labels proposed by centroids or neighbours: one entry for each example and label."""

    rows: np.ndarray  # (entries,) ascending
    labels: np.ndarray  # (entries,) ascending within a row
    features: np.ndarray  # (entries, 4) margin, cosine, log share, log count of the label
    examples: int

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
        features = [margins[rows, columns], cosine, np.log(share + SOFTENED), log_counts[columns]]
        return cls(rows, columns, np.stack(features, axis=1).astype(np.float32), examples)

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


def without_terms(bags: sparse.csr_matrix, left_out: np.ndarray) -> sparse.csr_matrix:
    """(N, V) without these terms (V,), of length 1 again."""
    kept = sparse.csr_matrix(bags, copy=True)
    kept.data[left_out[kept.indices]] = 0.0
    kept.eliminate_zeros()
    return sparse.csr_matrix(of_length_one(kept))


def fit_scorer(
    examples: Examples, size: int, seed: int, c: float, say: Callable[[str], None] = lambda _: None
) -> tuple[ShortlistScorer, np.ndarray, Shortlists]:
    """A scorer solved on these examples with liblinear's C. Rows (n,) of examples that were held out once, and their
    shortlists from classifiers, centroids and neighbours that have not seen them."""
    confused = largest_products(examples.bags, label_centroids(examples), PROPOSED)  # (N, L)
    scorer, position = _remember(examples, size, seed)
    order = np.random.default_rng(seed).permutation(len(examples))
    count = max(min(HELD_OUT, len(examples) // 3), 1)
    held_out, seen = np.sort(order[:count]), np.sort(order[count:])
    say(f"solving without {count:,} examples, which decoders are trained on")
    part = _solved(scorer, examples.at(seen), confused[seen], seed, c)
    proposals = list(part.proposals(examples.bags[held_out], position[held_out]))
    coefficients = _fit_combination(proposals, examples.targets[held_out])
    lists = replace(part, coefficients=coefficients).best(proposals)
    say("solving on all examples")
    return _solved(replace(scorer, coefficients=coefficients), examples, confused, seed, c), held_out, lists


def refit_scorer(scorer: ShortlistScorer, examples: Examples, seed: int) -> ShortlistScorer:
    """Centroids and neighbours from more examples. Classifiers, which take long, and how all is combined stay."""
    again, _ = _remember(examples, scorer.size, seed)
    return replace(
        again,
        coefficients=scorer.coefficients,
        log_counts=scorer.log_counts,
        classifiers=scorer.classifiers,
        centroids=_rounded(label_centroids(examples)),
    )


def _solved(
    scorer: ShortlistScorer, examples: Examples, confused: sparse.csr_matrix, seed: int, c: float
) -> ShortlistScorer:
    """The same scorer with classifiers and centroids of these examples."""
    classifiers = _rounded(solve_classifiers(examples, confused, seed, c))
    return replace(scorer, classifiers=classifiers, centroids=_rounded(label_centroids(examples)))


def _rounded(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """As it will be read from the file."""
    matrix.data = matrix.data.astype(np.float16).astype(np.float32)
    return matrix


def _remember(examples: Examples, size: int, seed: int) -> tuple[ShortlistScorer, np.ndarray]:
    """A scorer that knows neighbours only, and the position of each example among them (N,), -1: not remembered."""
    chosen = np.arange(len(examples))
    if len(examples) > MOST_REMEMBERED:
        chosen = np.sort(np.random.default_rng(seed).choice(len(examples), MOST_REMEMBERED, replace=False))
    position = np.full(len(examples), -1)
    position[chosen] = np.arange(len(chosen))
    bags, terms, labels = examples.bags, examples.bags.shape[1], examples.targets.shape[1]
    holding = np.bincount(bags.indices, minlength=terms)  # (V,) examples that have each term
    frequent = (holding > max(FREQUENT * len(examples), NEAREST)) | (holding == 0)  # (V,)
    remembered = _rounded(without_terms(bags[chosen], frequent))
    counts = np.bincount(examples.targets.indices, minlength=labels)  # (L,)
    scorer = ShortlistScorer(
        sparse.csr_matrix((terms + 1, labels), dtype=np.float32),
        sparse.csr_matrix((terms, labels), dtype=np.float32),
        remembered,
        sparse.csr_matrix(examples.targets[chosen], dtype=np.float32),
        frequent,
        np.zeros(5),
        np.log(np.maximum(counts, 1)).astype(np.float32),
        size,
    )
    return scorer, position


def _fit_combination(proposals: list[Proposed], targets: sparse.csr_matrix) -> np.ndarray:
    """(5,) coefficients of a logistic regression from all scores of a candidate to the log-odds that it is a label."""
    from sklearn.linear_model import LogisticRegression

    labels, right, start = targets.shape[1], [], 0
    for proposed in proposals:
        part = targets[start : start + proposed.examples]
        start += proposed.examples
        true_keys = np.repeat(np.arange(proposed.examples, dtype=np.int64), np.diff(part.indptr)) * labels
        right.append(np.isin(proposed.rows * labels + proposed.labels, true_keys + part.indices))
    truth, features = np.concatenate(right), np.concatenate([proposed.features for proposed in proposals])
    if truth.all() or not truth.any():
        return np.array([1.0, 0.0, 0.0, 0.0, 0.0])  # nothing to tell apart
    model = LogisticRegression(C=1e3, max_iter=200).fit(features, truth)
    return np.append(model.coef_[0], model.intercept_[0])
