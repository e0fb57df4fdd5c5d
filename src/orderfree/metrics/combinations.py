"""Scores of whole label sets: the combinations that are generated, and the accuracy at each position."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .counts import Matrix


def combination_counts(label_sets: Iterable[Iterable[str]], training_sets: Iterable[Iterable[str]]) -> dict[str, int]:
    """The paper's S_test, the number of different label sets, and S_test-train, how many of them do not
    occur in training. The empty set counts as a combination."""
    distinct = _distinct(label_sets)
    return {"distinct": len(distinct), "unseen": len(distinct - _distinct(training_sets))}


def size_counts(targets: Matrix, predictions: Matrix) -> list[dict[str, int]]:
    """How often a set of `true` labels was predicted with `predicted` labels, for all pairs of sizes that occur."""
    sizes = [np.asarray(matrix.sum(axis=1)).ravel().astype(int) for matrix in (targets, predictions)]  # (N,) each
    pairs, counts = np.unique(np.stack(sizes), axis=1, return_counts=True)
    return [
        {"true": int(true), "predicted": int(predicted), "count": int(number)}
        for (true, predicted), number in zip(pairs.T, counts, strict=True)
    ]


def co_occurrence(targets: Matrix, predictions: Matrix, names: Sequence[str], most: int) -> list[dict[str, Any]]:
    """The `most` pairs of labels that co-occur most often, in the truth or in predictions, with both numbers."""
    together = []
    for matrix in (targets, predictions):
        sets = sparse.csr_array(matrix, dtype=np.int64)
        together.append(sparse.triu(sets.T @ sets, k=1).tocsr())  # (L, L)
    true, predicted = together
    either = true.maximum(predicted).tocoo()
    order = np.lexsort((either.col, either.row, -either.data))[:most]
    return [
        {"labels": [names[i], names[j]], "true": int(true[i, j]), "predicted": int(predicted[i, j])}
        for i, j in zip(either.row[order], either.col[order], strict=True)
    ]


def _distinct(label_sets: Iterable[Iterable[str]]) -> set[frozenset[str]]:
    return {frozenset(label_set) for label_set in label_sets}


def position_accuracy(sequences: Sequence[Sequence[str]], targets: Sequence[Collection[str]]) -> list[float]:
    """How often the label generated at each position is right, that is, in the reference set (paper, Discussion).

    Position t averages over the examples whose generated or reference sequence has at least t labels; a position that
    a sequence is too short for is wrong. Two examples, A generated for {A, B} and C, A for {A}:

        position  0: A right, C wrong -> 1/2       1: missing, A right -> 1/2
    """
    lengths = [max(len(sequence), len(target)) for sequence, target in zip(sequences, targets, strict=True)]
    longest = max(lengths, default=0)
    right, reached = np.zeros(longest), np.zeros(longest)
    for sequence, target, length in zip(sequences, targets, lengths, strict=True):
        reached[:length] += 1
        right[: len(sequence)] += [label in target for label in sequence]
    return (right / reached).tolist()
