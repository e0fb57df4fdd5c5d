from __future__ import annotations

import pytest

from orderfree.metrics.combinations import combination_counts, position_accuracy, seen_unseen

TRAINING = [("a",), ("a", "b"), ("b", "a")]


def test_order_does_not_make_a_combination():
    produced = [("b", "a"), ("a", "b"), ("b",), ()]
    assert combination_counts(produced, TRAINING) == {"distinct": 3, "unseen": 2}


def test_no_sets_no_combinations():
    assert combination_counts([], TRAINING) == {"distinct": 0, "unseen": 0}


def test_masks_split_the_examples():
    seen, unseen = seen_unseen([["b", "a"], ["b"], []], TRAINING)
    assert seen.tolist() == [True, False, False]
    assert unseen.tolist() == [False, True, True]


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
