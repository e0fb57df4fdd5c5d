"""Mean average precision, AUC and d′ against scikit-learn, by hand, and where there is nothing to rank."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import average_precision_score, roc_auc_score

from orderfree.metrics.ranking import area_under_curve, average_precision, ranking_scores
from orderfree.metrics.scores import to_matrix


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=40))
def test_one_label_as_scikit_learn_ties_included(cells: list[tuple[int, bool]]) -> None:
    scores, truth = np.array([s / 4 for s, _ in cells]), np.array([t for _, t in cells])
    if truth.any() and not truth.all():
        assert average_precision(scores, truth) == pytest.approx(average_precision_score(truth, scores))
        assert area_under_curve(scores, truth) == pytest.approx(roc_auc_score(truth, scores))


def test_all_labels_as_scikit_learn() -> None:
    generator = np.random.default_rng(1)
    probs, truth = generator.random((60, 9)).astype(np.float32), generator.random((60, 9)) < 0.2
    found = ranking_scores(probs, truth)
    assert found["mean_average_precision"] == pytest.approx(average_precision_score(truth, probs, average="macro"))
    auc = roc_auc_score(truth, probs, average="macro")
    assert found["auc"] == pytest.approx(auc)
    assert found["d_prime"] == pytest.approx(math.sqrt(2) * norm.ppf(auc))
    assert found["labels"] == 9


def test_by_hand() -> None:
    # ranked: yes, no, yes, no -> precision 1 and 2/3 at the two; of four pairs three are in order
    probs, truth = np.array([[0.9], [0.8], [0.7], [0.1]]), np.array([[1], [0], [1], [0]])
    assert ranking_scores(probs, truth) == {
        "mean_average_precision": pytest.approx(5 / 6),
        "auc": 0.75,
        "d_prime": pytest.approx(0.9539, abs=1e-4),
        "labels": 1,
    }


def test_labels_that_all_or_no_examples_have_are_left_out() -> None:
    probs = np.array([[0.9, 0.1, 0.5], [0.2, 0.7, 0.5]])
    truth = to_matrix([["a", "c"], ["c"]], ["a", "b", "c"])
    assert ranking_scores(probs, truth) == {"mean_average_precision": 1.0, "auc": 1.0, "d_prime": None, "labels": 1}
    assert ranking_scores(probs[:, 1:], truth[:, 1:])["mean_average_precision"] is None


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="same shape"):
        ranking_scores(np.zeros((2, 3)), np.zeros((3, 2)))
