"""Answers a person can check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from orderfree.errors import DataError
from orderfree.metrics.counts import count
from orderfree.metrics.scores import evaluation_labels, per_label, scores, to_matrix

NAMES = ["a", "b", "c", "never"]
TARGETS = [{"a", "b"}, {"a"}, set(), {"c"}]
PREDICTED = [{"a"}, {"a", "b"}, set(), set()]
#        tp fp fn
#   a     2  0  0     F1 1
#   b     0  1  1     F1 0
#   c     0  0  1     F1 0
#   never 0  0  0     F1 0


@pytest.fixture(params=["sparse", "dense", "mixed"])
def matrices(request: pytest.FixtureRequest) -> tuple[object, object]:
    targets, predictions = to_matrix(TARGETS, NAMES), to_matrix(PREDICTED, NAMES)
    return {
        "sparse": (targets, predictions),
        "dense": (targets.toarray(), predictions.toarray()),
        "mixed": (targets.toarray().astype(int), predictions),
    }[request.param]


def test_counts_by_hand(matrices):
    labels, examples = count(*matrices)
    assert labels.tp.tolist() == [2, 0, 0, 0]
    assert labels.fp.tolist() == [0, 1, 0, 0]
    assert labels.fn.tolist() == [0, 1, 1, 0]
    assert labels.tn.tolist() == [2, 2, 3, 4]
    assert examples.tp.tolist() == [1, 1, 0, 0]
    assert examples.fp.tolist() == [0, 1, 0, 0]
    assert examples.fn.tolist() == [1, 0, 0, 1]
    assert examples.tn.tolist() == [2, 2, 4, 3]


def test_scores_by_hand(matrices):
    five = [1 / 4, 4 / 7, (2 / 3 + 2 / 3 + 1 + 0) / 4, 1 / 4, 13 / 16]
    expected = {
        **dict(zip(["macro_f1", "micro_f1", "example_f1", "subset_accuracy", "hamming_accuracy"], five, strict=True)),
        "average": sum(five) / 5,
        "macro_f1_of_means": 1 / 4,
        "micro_precision": 2 / 3,
        "micro_recall": 2 / 4,
        "macro_precision": 1 / 4,
        "macro_recall": 1 / 4,
        "example_precision": (1 + 1 / 2 + 1 + 0) / 4,
        "example_recall": (1 / 2 + 1 + 1 + 0) / 4,
        "predicted_labels_per_example": 3 / 4,
        "true_labels_per_example": 4 / 4,
    }
    result = scores(*matrices)
    assert list(result) == list(expected)
    assert result == pytest.approx(expected)
    assert {type(value) for value in result.values()} == {float}


def test_the_two_macro_f1_differ():
    """a: precision 1, recall 1/2; b: precision 1/2, recall 1."""
    targets, predictions = to_matrix([{"a"}, {"a", "b"}], ["a", "b"]), to_matrix([{"b"}, {"a", "b"}], ["a", "b"])
    result = scores(targets, predictions)
    assert result["macro_f1"] == pytest.approx(2 / 3)
    assert result["macro_f1_of_means"] == pytest.approx(3 / 4)


def test_all_sets_empty():
    empty = np.zeros((3, 2), dtype=bool)
    result = scores(empty, empty)
    assert [result[name] for name in ("example_f1", "example_precision", "example_recall")] == [1, 1, 1]
    assert [result[name] for name in ("subset_accuracy", "hamming_accuracy")] == [1, 1]
    assert [result[name] for name in ("macro_f1", "micro_f1", "macro_f1_of_means", "micro_precision")] == [0, 0, 0, 0]


@pytest.mark.parametrize(("target", "predicted"), [([1, 0], [0, 0]), ([0, 0], [1, 0])])
def test_one_empty_set_scores_zero(target, predicted):
    result = scores(np.array([target]), np.array([predicted]))
    assert [result[name] for name in ("example_f1", "example_precision", "example_recall")] == [0, 0, 0]


def test_per_label(matrices):
    first, second, *_, last = per_label(*matrices, NAMES)
    assert first == {"label": "a", "support": 2, "predicted": 2, "precision": 1.0, "recall": 1.0, "f1": 1.0}
    assert second == {"label": "b", "support": 1, "predicted": 1, "precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert last["support"] == last["predicted"] == last["f1"] == 0


def test_to_matrix_takes_repeated_labels_once_and_any_order():
    assert to_matrix([["b", "a", "b"], []], ["a", "b"]).toarray().tolist() == [[True, True], [False, False]]


def test_to_matrix_names_the_unknown_label():
    with pytest.raises(DataError, match="'z' is not among the 2 labels"):
        to_matrix([["z"]], ["a", "b"])


def test_a_label_written_twice_into_a_sparse_matrix_is_one_label():
    from scipy import sparse

    twice = sparse.csr_array((np.ones(2, dtype=bool), [0, 0], [0, 2]), shape=(1, 2))
    assert count(twice, twice)[0].tp.tolist() == [1, 0]
    assert twice.nnz == 2  # the caller's matrix is left alone


def test_labels_never_trained_count_as_misses():
    names, unseen = evaluation_labels(["b", "a"], [{"a", "z"}, {"y"}])
    assert (names, unseen) == (["b", "a", "y", "z"], ["y", "z"])
    result = scores(to_matrix([{"a", "z"}, {"y"}], names), to_matrix([{"a"}, set()], names))
    assert result["micro_recall"] == pytest.approx(1 / 3)
    assert result["macro_f1"] == pytest.approx(1 / 4)


def test_nothing_to_score_is_said():
    with pytest.raises(DataError, match="nothing to score: 0 examples"):
        scores(to_matrix([], NAMES), to_matrix([], NAMES))


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="same shape"):
        scores(np.zeros((2, 3)), np.zeros((3, 2)))
