"""Candidate labels of each example, with calibrated scores, where labels are too many to score them all densely.

Centroids of labels and the labels of similar training examples propose candidates. A sparse linear classifier for each
label scores them, and a logistic regression on all scores decides which candidates an example keeps. `label_sets.py`
makes whole sets of the candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from scipy import sparse

from ..system.listed import Folder
from ..system.tensors import write_tensors
from .candidates import COMPARED, SCORES, SOFTENED, Proposed, Shortlists
from .hard_negatives import Examples, label_centroids, largest_products, solve_classifiers
from .label_sets import FEATURES, LabelSets, candidate_sets, fit_set_weights, members_of
from .neighbours import nearest_weights, of_length_one

FILE = "shortlist.safetensors"  # in a model directory
PROPOSED = 100  # labels whose centroids an example is most similar to: they are proposed
NEAREST = 100  # training examples whose labels are proposed too
MOST_REMEMBERED = 200_000  # training examples to be similar to; of more, so many at random
FREQUENT = 0.2  # terms that a larger share of examples holds do not count for similarity: they make it slow
SHARPNESS = 14.0  # a neighbour whose cosine is higher by .07 counts e times as much
RECENCIES = (0.0, 0.5, 1.0, 2.0, 3.0)  # the last training example counts e to this power as much as the first
HELD_OUT = 20_000  # examples that the combination is fitted to and decoders are trained on, at most a third of all
AT_ONCE = 4096  # rows of a matrix product, fewer where labels are very many
MARGINS_AT_ONCE = 20_000_000  # numbers of a matrix product that is dense for a moment


@dataclass(frozen=True)
class ShortlistScorer:
    """Solved once, immutable afterwards."""

    classifiers: sparse.csr_matrix  # (V + 1, L) weights of each term for each label; the last row is the bias
    centroids: sparse.csr_matrix  # (V, L) heaviest terms of the examples of each label
    remembered: sparse.csr_matrix  # (M, V) training bags of length 1, frequent terms left out
    remembered_labels: sparse.csr_matrix  # (M, L) their labels
    frequent: np.ndarray  # (V,) bool, terms that do not count for similarity
    coefficients: np.ndarray  # (SCORES + 1,) of all that is known of a candidate, and the constant
    log_counts: np.ndarray  # (L,) logarithm of the number of training examples of each label
    size: int  # C
    set_weights: np.ndarray  # (FEATURES + 1,) of the features of a candidate set, and the score of no candidate
    recency: float = 0.0  # how much more the later of the remembered examples count, in the order of their file

    @cached_property
    def _by_term(self) -> sparse.csr_matrix:
        return self.remembered.T.tocsr()  # (V, M)

    @property
    def labels(self) -> int:
        return int(self.classifiers.shape[1])

    def contributions(self, terms: np.ndarray, weights: np.ndarray, label: int) -> np.ndarray:
        """(n,) what each of these terms (n,) of a bag adds to the score of a label."""
        solved = self.classifiers[terms][:, [label]].toarray()[:, 0]  # (n,)
        added: np.ndarray = (self.coefficients[0] + self.coefficients[COMPARED]) * weights * solved
        return added

    def shortlists(self, bags: sparse.csr_matrix, skipped: np.ndarray | None = None) -> Shortlists:
        """Of bags (N, V). skipped (N,): one remembered example for each bag that does not count, -1 for none."""
        return self.best(self.proposals(bags, skipped))

    def best(self, proposals: Iterable[Proposed]) -> Shortlists:
        """The candidates with the highest scores, and the sets of them that are most likely right."""
        lists = [self.with_sets(self.ranked(proposed), proposed) for proposed in proposals]
        return Shortlists.join(lists, self.size)

    def ranked(self, proposed: Proposed) -> Shortlists:
        """The candidates with the highest scores."""
        scores = proposed.features @ self.coefficients[:-1] + self.coefficients[-1]  # (entries,)
        return proposed.best(scores.astype(np.float32), self.size)

    def candidate_sets(self, lists: Shortlists, proposed: Proposed) -> Iterable[tuple[slice, LabelSets]]:
        """Those of some rows after the other."""
        assert proposed.similar is not None, "a scorer's own proposals say which examples are similar"
        return candidate_sets(lists.labels, lists.scores, proposed.similar, self.remembered_labels)

    def with_sets(self, lists: Shortlists, proposed: Proposed) -> Shortlists:
        parts = [
            sets.best(self.set_weights, len(lists.labels[some])) for some, sets in self.candidate_sets(lists, proposed)
        ]
        sets, log_probs = (np.concatenate(some) for some in zip(*parts, strict=True))
        return replace(lists, sets=sets, set_log_probs=log_probs)

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
        similar = self.similar(bags, skipped)  # (N, M)
        shares = sparse.csr_matrix(similar @ self.remembered_labels)  # (N, L)
        return replace(Proposed.join(cosines, shares, margins, self.log_counts), similar=similar)

    def similar(self, bags: sparse.csr_matrix, skipped: np.ndarray | None) -> sparse.csr_matrix:
        """(N, M) how much each of the most similar remembered examples counts, 1 in all.
        skipped (N,): one remembered example for each bag that does not count (itself), -1 for none."""
        comparable = without_terms(bags, self.frequent)
        weights, _ = nearest_weights(comparable, self._by_term, NEAREST, SHARPNESS, skipped)  # (N, M)
        return _by_recency(weights, self.recency)

    def save(self, directory: Path) -> None:
        arrays: dict[str, np.ndarray] = {
            "coefficients": self.coefficients,
            "log_counts": self.log_counts,
            "frequent": self.frequent,
            "set_weights": self.set_weights,
            "recency": np.array([self.recency]),
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
        if "set_weights" not in arrays or len(arrays["coefficients"]) != SCORES + 1:
            raise ValueError(f"{FILE} was written by another version")
        size, rows, labels = (int(number) for number in arrays["size"])
        if rows != terms + 1 or not 0 < size <= labels or len(arrays["frequent"]) != terms:
            raise ValueError(f"{FILE} was made for other terms or labels")
        classifiers, centroids = (_checked(arrays, name, labels) for name in ("classifiers", "centroids"))
        remembered = _checked(arrays, "remembered", terms)
        remembered_labels = _checked(arrays, "remembered_labels", labels)
        numbers = (arrays["coefficients"], arrays["log_counts"], arrays["set_weights"], arrays["recency"])
        if (
            (classifiers.shape[0], centroids.shape[0]) != (rows, terms)
            or remembered.shape[0] != remembered_labels.shape[0]
            or [len(one) for one in numbers] != [SCORES + 1, labels, FEATURES + 1, 1]
            or not all(np.isfinite(one).all() for one in (*numbers, classifiers.data, centroids.data, remembered.data))
        ):
            raise ValueError(f"{FILE} holds matrices that do not fit each other")
        frequent = arrays["frequent"].astype(bool)
        coefficients, log_counts, set_weights, recency = numbers
        matrices = classifiers, centroids, remembered, remembered_labels
        return cls(*matrices, frequent, coefficients, log_counts, size, set_weights, float(recency[0]))


def _checked(arrays: Mapping[str, np.ndarray], name: str, width: int) -> sparse.csr_matrix:
    columns, ends = arrays[f"{name}.columns"], arrays[f"{name}.ends"]
    values = arrays.get(f"{name}.values", np.ones(len(columns), np.float32)).astype(np.float32)
    if columns.dtype.kind != "i" or ends.dtype.kind != "i":
        raise ValueError(f"{FILE} holds positions that are no integers")
    matrix = sparse.csr_matrix((values, columns, ends), shape=(len(ends) - 1, width))
    matrix.check_format(full_check=True)
    return matrix


def _by_recency(weights: sparse.csr_matrix, recency: float) -> sparse.csr_matrix:
    """Weights (N, M) of remembered examples, the later ones raised; the sum of each row stays."""
    if recency == 0:
        return weights
    rows = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))  # (entries,)
    raised = weights.data * np.exp(recency * weights.indices / weights.shape[1])
    before, after = (np.bincount(rows, some, minlength=weights.shape[0]) for some in (weights.data, raised))  # (N,)
    raised *= (before / np.maximum(after, 1e-12))[rows]
    return sparse.csr_matrix((raised.astype(np.float32), weights.indices, weights.indptr), shape=weights.shape)


def best_recency(scorer: ShortlistScorer, valid: Examples) -> float:
    """At which the labels of the validation part have the largest shares, on average of their logarithms. A file
    may be sorted by time and the validation part later than the training part; where neither is so, it is 0."""
    weights = scorer.similar(valid.bags, None)  # (N, M)

    def value(recency: float) -> float:
        shares = sparse.csr_matrix(_by_recency(weights, recency) @ scorer.remembered_labels)
        held = sparse.csr_matrix(shares.multiply(valid.targets)).data  # a label that nobody has adds log SOFTENED
        return float((np.log(held + SOFTENED) - np.log(SOFTENED)).sum())

    return max(RECENCIES, key=value)


def without_terms(bags: sparse.csr_matrix, left_out: np.ndarray) -> sparse.csr_matrix:
    """(N, V) without these terms (V,), of length 1 again."""
    kept = sparse.csr_matrix(bags, copy=True)
    kept.data[left_out[kept.indices]] = 0.0
    kept.eliminate_zeros()
    return sparse.csr_matrix(of_length_one(kept))


def fit_scorer(
    examples: Examples,
    size: int,
    seed: int,
    c: float,
    valid: Examples | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[ShortlistScorer, np.ndarray, Shortlists]:
    """A scorer solved on these examples with liblinear's C. Rows (n,) of examples that were held out once, and their
    shortlists from classifiers, centroids and neighbours that have not seen them. `valid` decides on `recency`."""
    confused = largest_products(examples.bags, label_centroids(examples), PROPOSED)  # (N, L)
    scorer, position = _remember(examples, size, seed)
    if valid is not None and len(valid):
        scorer = replace(scorer, recency=best_recency(scorer, valid))
        say(f"similar texts: the last of the training part counts e^{scorer.recency:g} as much as the first")
    order = np.random.default_rng(seed).permutation(len(examples))
    count = max(min(HELD_OUT, len(examples) // 3), 1)
    held_out, seen = np.sort(order[:count]), np.sort(order[count:])
    say(f"solving without {count:,} examples, which decoders are trained on")
    part = _solved(scorer, examples.at(seen), confused[seen], seed, c)
    proposals, targets = list(part.proposals(examples.bags[held_out], position[held_out])), examples.targets[held_out]
    part = replace(part, coefficients=_fit_combination(proposals, targets))
    lists = [part.ranked(proposed) for proposed in proposals]
    scorer = replace(scorer, coefficients=part.coefficients, set_weights=_fit_sets(part, lists, proposals, targets))
    say("solving on all examples")
    return _solved(scorer, examples, confused, seed, c), held_out, Shortlists.join(lists, size)


def refit_scorer(scorer: ShortlistScorer, examples: Examples, seed: int, c: float) -> ShortlistScorer:
    """Solved on more examples. How all is combined stays."""
    confused = largest_products(examples.bags, label_centroids(examples), PROPOSED)  # (N, L)
    again = _solved(_remember(examples, scorer.size, seed)[0], examples, confused, seed, c)
    return replace(again, coefficients=scorer.coefficients, set_weights=scorer.set_weights, recency=scorer.recency)


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
        np.zeros(SCORES + 1),
        np.log(np.maximum(counts, 1)).astype(np.float32),
        size,
        np.zeros(FEATURES + 1),
    )
    return scorer, position


def _fit_sets(
    scorer: ShortlistScorer, lists: list[Shortlists], proposals: list[Proposed], targets: sparse.csr_matrix
) -> np.ndarray:
    """(FEATURES + 1,) by which the sets of these shortlists are most likely right."""
    sets, right, start = [], [], 0
    for one, proposed in zip(lists, proposals, strict=True):
        for some, candidates in scorer.candidate_sets(one, proposed):
            labels = one.labels[some]
            true, inside = members_of(labels, np.arange(len(labels)), targets[start : start + len(labels)])
            start += len(labels)
            same = (candidates.members == true[candidates.rows]).all(axis=1)
            right.append(same & inside[candidates.rows])
            sets.append(candidates.without_members())
    return fit_set_weights(sets, right)


def _fit_combination(proposals: list[Proposed], targets: sparse.csr_matrix) -> np.ndarray:
    """(SCORES + 1,) coefficients of a logistic regression from all that is known of a candidate to the log-odds that it
    is a label."""
    from sklearn.linear_model import LogisticRegression

    labels, right, start = targets.shape[1], [], 0
    for proposed in proposals:
        part = targets[start : start + proposed.examples]
        start += proposed.examples
        true_keys = np.repeat(np.arange(proposed.examples, dtype=np.int64), np.diff(part.indptr)) * labels
        right.append(np.isin(proposed.rows * labels + proposed.labels, true_keys + part.indices))
    truth, features = np.concatenate(right), np.concatenate([proposed.features for proposed in proposals])
    if truth.all() or not truth.any():
        return np.eye(SCORES + 1)[0]  # nothing to tell apart
    model = LogisticRegression(C=1e3, max_iter=200).fit(features, truth)
    return np.append(model.coef_[0], model.intercept_[0])
