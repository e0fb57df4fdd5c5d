from __future__ import annotations

import numpy as np
import pytest

from orderfree.errors import ConfigError
from orderfree.metrics.thresholds import best_threshold


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
