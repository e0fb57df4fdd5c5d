from __future__ import annotations

import pytest

from orderfree.metrics.combinations import (
    co_occurrence,
    combination_counts,
    position_accuracy,
    size_counts,
)
from orderfree.metrics.scores import to_matrix

TRAINING = [("a",), ("a", "b"), ("b", "a")]


def test_order_does_not_make_a_combination():
    produced = [("b", "a"), ("a", "b"), ("b",), ()]
    assert combination_counts(produced, TRAINING) == {"distinct": 3, "unseen": 2}


def test_no_sets_no_combinations():
    assert combination_counts([], TRAINING) == {"distinct": 0, "unseen": 0}


def test_position_accuracy_by_hand():
    # The docstring's two examples, and one that both stops and has nothing: it reaches no position.
    assert position_accuracy([["a"], ["c", "a"], []], [{"a", "b"}, {"a"}, set()]) == [0.5, 0.5]


def test_what_is_not_generated_is_wrong():
    assert position_accuracy([["a"], ["a", "b", "c"]], [{"a", "b", "c"}] * 2) == [1.0, 0.5, 0.5]


def test_what_is_generated_beyond_the_reference_is_wrong():
    assert position_accuracy([["a", "x"], ["a"]], [{"a"}, {"a"}]) == [1.0, 0.0]


def test_nothing_generated_nothing_expected():
    assert position_accuracy([], []) == position_accuracy([[]], [set()]) == []


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="zip"):
        position_accuracy([["a"]], [])


NAMES = ("a", "b", "c")
TRUE = to_matrix([["a", "b"], ["a", "b", "c"], [], ["c"]], NAMES)
GIVEN = to_matrix([["a", "b"], ["a"], [], ["b"]], NAMES)


@pytest.mark.parametrize("dense", [True, False])
def test_sizes_by_hand(dense: bool):
    pair = (TRUE.toarray(), GIVEN.toarray()) if dense else (TRUE, GIVEN)
    assert size_counts(*pair) == [
        {"true": 0, "predicted": 0, "count": 1},
        {"true": 1, "predicted": 1, "count": 1},
        {"true": 2, "predicted": 2, "count": 1},
        {"true": 3, "predicted": 1, "count": 1},
    ]


@pytest.mark.parametrize("dense", [True, False])
def test_pairs_by_hand(dense: bool):
    pair = (TRUE.toarray(), GIVEN.toarray()) if dense else (TRUE, GIVEN)
    found = co_occurrence(*pair, NAMES, most=10)
    assert found == [
        {"labels": ["a", "b"], "true": 2, "predicted": 1},
        {"labels": ["a", "c"], "true": 1, "predicted": 0},
        {"labels": ["b", "c"], "true": 1, "predicted": 0},
    ]
    assert co_occurrence(*pair, NAMES, most=1) == found[:1]
    assert co_occurrence(pair[1], pair[0], NAMES, 10)[0] == {"labels": ["a", "b"], "true": 1, "predicted": 2}


def test_labels_that_are_always_alone():
    alone = to_matrix([["a"], ["b"]], NAMES)
    assert co_occurrence(alone, alone, NAMES, 10) == []
