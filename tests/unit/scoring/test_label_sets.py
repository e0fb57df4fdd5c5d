"""Whole label sets as candidates: against twins written from the definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from orderfree.decoding.beam import Limits
from orderfree.decoding.search import searches
from orderfree.decoding.sets import membership
from orderfree.scoring.hard_negatives import Examples
from orderfree.scoring.label_sets import FEATURES, SOFTENED, LabelSets, candidate_sets, fit_set_weights
from orderfree.scoring.shortlist import ShortlistScorer, best_recency
from orderfree.types import DecodeInput

LABELS = np.array([[2, 5, 7], [0, 5, 9]])  # two shortlists of three
SCORES = np.array([[1.0, -1.0, 0.5], [2.0, 0.0, -3.0]], dtype=np.float32)
HAVING = sparse.csr_matrix((5, 10), dtype=np.float32).tolil()  # labels of five remembered examples
for example, names in enumerate([(2, 7), (2, 7), (5,), (2, 8), ()]):
    HAVING[example, list(names)] = 1
SIMILAR = sparse.csr_matrix(np.array([[0.4, 0.3, 0.2, 0.1, 0.0], [0.0, 0.0, 0.6, 0.0, 0.4]], dtype=np.float32))


def found() -> LabelSets:
    ((rows, sets),) = candidate_sets(LABELS, SCORES, SIMILAR, HAVING.tocsr())
    assert rows.start == 0
    return sets


def test_sets_of_similar_examples_and_of_the_first_labels() -> None:
    sets = found()
    named = {
        (int(row), tuple(LABELS[row][members].tolist())): features
        for row, members, features in zip(sets.rows, sets.members, sets.features, strict=True)
    }
    first = {(2,), (2, 7), (2, 5, 7), (5,)}  # (2, 8) has a label outside the shortlist; (2, 7) is also a prefix
    second = {(0,), (0, 5), (0, 5, 9), (5,), ()}
    assert set(named) == {(0, one) for one in first} | {(1, one) for one in second}
    share, odds, lowest, highest, length = named[0, (2, 7)]
    assert share == pytest.approx(np.log(0.7 + SOFTENED))
    probs = 1 / (1 + np.exp(-SCORES[0]))
    assert odds == pytest.approx(np.log(probs[0] * (1 - probs[1]) * probs[2]), rel=1e-5)
    assert (lowest, highest, length) == (0.5, -1.0, 2)


def test_the_likeliest_sets_come_first() -> None:
    weights = np.array([1.0, 0.0, 0.0, 0.0, 0.0, np.log(0.1)])
    sets, log_probs = found().best(weights, 2)
    assert sets[0, 0].tolist() == [True, False, True]
    mass = np.array([0.7, 0.2, 0.0, 0.0]) + SOFTENED
    np.testing.assert_allclose(np.exp(log_probs[0, :4]), mass / (mass.sum() + 0.1), rtol=1e-5)
    assert log_probs[0, 4] == -np.inf
    assert sets[1, 0].tolist() == [False, True, False]


def test_coefficients_are_those_that_made_the_truth() -> None:
    drawn = np.random.default_rng(1)
    examples, each = 4000, 6
    features = drawn.standard_normal((examples * each, FEATURES)).astype(np.float32)
    rows = np.repeat(np.arange(examples), each)
    truly = np.array([1.5, -1.0, 0.5, 0.0, 2.0, 1.0])
    scores = np.concatenate(
        [(features @ truly[:-1]).reshape(examples, each), np.full((examples, 1), truly[-1])], axis=1
    )
    chosen = (scores + drawn.gumbel(size=scores.shape)).argmax(axis=1)
    right = (np.arange(each) == chosen[:, None]).ravel()
    members = np.zeros((len(rows), 0), dtype=bool)
    half = len(rows) // 2
    parts = [
        LabelSets(rows[:half], members[:half], features[:half]),
        LabelSets(rows[half:] - examples // 2, members[half:], features[half:]),
    ]
    np.testing.assert_allclose(fit_set_weights(parts, [right[:half], right[half:]]), truly, atol=0.15)


@pytest.mark.parametrize(("limits", "expected"), [((0, 9), [2, 7]), ((0, 1), [5]), ((3, 9), [2, 5, 7])])
def test_limits_of_a_set(limits: tuple[int, int], expected: list[int]) -> None:
    sets, log_probs = found().best(np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]), 2)
    scores = torch.from_numpy(SCORES)
    given = DecodeInput(3, None, None, None, scores=scores, labels=torch.from_numpy(LABELS))
    given = replace(given, sets=torch.from_numpy(sets), set_log_probs=torch.from_numpy(log_probs))
    made = searches["neighbour_sets"](given, Limits(1, min_labels=limits[0], max_labels=limits[1]))
    assert LABELS[0][membership(made.sequences[:, 0], 3)[0].numpy()].tolist() == expected


@pytest.mark.parametrize(("later", "recency"), [(True, 3.0), (False, 0.0)])
def test_later_examples_count_more_where_the_validation_part_is_like_them(later: bool, recency: float) -> None:
    """All texts are the same; the label of the first half of the file is 0, that of the second half 1."""
    bags = sparse.csr_matrix(np.ones((80, 1), dtype=np.float32))
    targets = np.eye(2, dtype=np.float32)[np.arange(80) // 40]
    empty = sparse.csr_matrix((2, 2), dtype=np.float32)
    scorer = ShortlistScorer(
        empty, empty, bags, sparse.csr_matrix(targets), np.zeros(1, bool), np.zeros(8), np.zeros(2), 2, np.zeros(6)
    )
    asked = targets[40:] if later else targets
    valid = Examples(bags[: len(asked)], sparse.csr_matrix(asked), np.ones(len(asked)), sparse.csr_matrix(asked.shape))
    assert best_recency(scorer, valid) == recency
