from __future__ import annotations

import numpy as np
import pytest

from orderfree.errors import ConfigError
from orderfree.metrics.counts import count
from orderfree.metrics.thresholds import best_threshold, label_thresholds, precision_recall


def test_midway_between_the_two_scores_it_separates():
    probs, targets = np.array([[0.9, 0.6], [0.2, 0.1]]), np.array([[1, 1], [0, 0]])
    assert best_threshold(probs, targets) == (pytest.approx(0.4), 1.0)


def test_equally_good_thresholds_go_to_the_middle():
    # Cuts after one and after four give 2/3 each, at 0.85 and at 0.3.
    probs, targets = np.array([[0.9, 0.8, 0.7, 0.4, 0.2]]), np.array([[1, 0, 0, 1, 0]])
    assert best_threshold(probs, targets) == (pytest.approx(0.3), pytest.approx(2 / 3))


def test_equal_scores_are_never_separated():
    probs, targets = np.array([[0.7, 0.7, 0.7, 0.1]]), np.array([[1, 0, 0, 0]])
    assert best_threshold(probs, targets) == (pytest.approx(0.4), pytest.approx(0.5))


def test_predicting_everything_can_be_best():
    assert best_threshold(np.array([[0.4, 0.2]]), np.ones((1, 2))) == (pytest.approx(0.1), 1.0)


def test_without_positives_stays_at_a_half():
    assert best_threshold(np.array([[0.9, 0.2]]), np.zeros((1, 2))) == (0.5, 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbouring_floats_are_separated_in_their_own_precision(dtype):
    lower = dtype(0.3)
    upper = np.nextafter(lower, dtype(1))
    probs = np.array([[upper, lower]], dtype=dtype)
    threshold, _ = best_threshold(probs, np.array([[1, 0]]))
    assert (probs >= threshold).tolist() == [[True, False]]


def test_probabilities_of_zero_are_still_admitted():
    probs = np.zeros((1, 2))
    threshold, micro_f1 = best_threshold(probs, np.ones((1, 2)))
    assert (probs >= threshold).all()
    assert micro_f1 == 1


def test_other_metrics_are_refused():
    with pytest.raises(ConfigError, match="macro_f1"):
        best_threshold(np.zeros((1, 1)), np.zeros((1, 1)), metric="macro_f1")


def test_not_a_number_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        best_threshold(np.array([[np.nan]]), np.ones((1, 1)))


def test_each_label_has_its_own_threshold():
    # The first label is told apart between 0.6 and 0.8, the second between 0.1 and 0.3.
    probs = np.array([[0.8, 0.1], [0.9, 0.3], [0.6, 0.05], [0.2, 0.4]])
    targets = np.array([[1, 0], [1, 1], [0, 0], [0, 1]])
    own = label_thresholds(probs, targets, shared=0.5, strength=0.0)
    assert own.tolist() == pytest.approx([0.7, 0.2])


def test_few_positives_stay_near_the_shared_threshold():
    probs, targets = np.array([[0.9, 0.9], [0.9, 0.1], [0.9, 0.1]]), np.array([[1, 1], [1, 0], [1, 0]])
    odds = lambda p: np.log(p / (1 - p))  # noqa: E731
    own = [best_threshold(probs[:, [label]], targets[:, [label]])[0] for label in (0, 1)]
    found = label_thresholds(probs, targets, shared=0.2, strength=3.0)
    # three positives against three, one against three
    assert odds(found[0]) == pytest.approx((odds(own[0]) + odds(0.2)) / 2)
    assert odds(found[1]) == pytest.approx((odds(own[1]) + 3 * odds(0.2)) / 4)


def test_a_label_without_positives_keeps_the_shared_threshold():
    found = label_thresholds(np.array([[0.9, 0.2], [0.1, 0.3]]), np.array([[1, 0], [0, 0]]), shared=0.3, strength=5.0)
    assert found[1] == pytest.approx(0.3)


def test_infinite_strength_is_one_threshold():
    rng = np.random.default_rng(0)
    probs = rng.random((50, 4))
    found = label_thresholds(probs, rng.random((50, 4)) < probs, shared=0.37, strength=1e12)
    assert found.tolist() == pytest.approx([0.37] * 4)


def test_precision_and_recall_are_those_of_the_sets_at_each_threshold():
    generator = np.random.default_rng(2)
    probs = generator.random((30, 4)).round(2)  # some of them are thresholds
    targets = generator.random((30, 4)) < probs
    rows = precision_recall(probs, targets, steps=20)
    assert [row["threshold"] for row in rows] == pytest.approx([step / 20 for step in range(len(rows))])
    for row in rows:
        pooled = count(targets, probs >= row["threshold"])[0].pooled()
        assert row["precision"] == pytest.approx(pooled.precision()[0])
        assert row["recall"] == pytest.approx(pooled.recall()[0])
    assert not (probs >= (len(rows)) / 20).any(), "rows end where nothing is predicted"


def test_without_true_labels_recall_is_0():
    assert precision_recall(np.array([[0.5]]), np.array([[False]]), steps=1) == [
        {"threshold": 0.0, "precision": 0.0, "recall": 0.0}
    ]
