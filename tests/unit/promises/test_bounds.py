"""Bounds with known answers, and promises on made-up data whose truth is known: they hold for any score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from orderfree.promises.bounds import allowed_risk, examples_needed, highest_threshold, risk_p_value
from orderfree.promises.labels import Cells, Refusal, precision_threshold, recall_threshold
from orderfree.promises.sets import list_lengths, list_limit, true_scores

DRAWS = 100  # calibration sets drawn from a population whose risk is known


def test_known_numbers_of_examples() -> None:
    assert examples_needed(0.0, 0.1) == 9  # (0 + 1) / (9 + 1) = 0.1
    assert examples_needed(0.0, 0.05, 0.95, binary=True) == 59  # 0.95 ** 59 < 0.05 < 0.95 ** 58
    assert examples_needed(0.0, 0.05, 0.95) == 59  # the p-value of Hoeffding and Bentkus is the same without a loss
    assert examples_needed(0.1, 0.1) is None
    assert allowed_risk(8, 0.1) is None
    assert allowed_risk(9, 0.1) == pytest.approx(0.0)
    assert allowed_risk(99, 0.1) == pytest.approx(9 / 99)


@given(st.integers(1, 3000), st.floats(0.02, 0.5), st.sampled_from([None, 0.8, 0.95]))
def test_what_is_allowed_is_below_the_promise_and_grows_with_the_examples(n: int, most: float, sure: float) -> None:
    fewer, more = allowed_risk(n, most, sure), allowed_risk(4 * n, most, sure)
    if fewer is not None:
        assert more is not None
        assert fewer <= more + 1 / n
        assert more < most


def test_the_p_value_of_a_binary_loss_is_the_binomial_tail() -> None:
    assert risk_p_value(0.0, 10, 0.2, binary=True) == pytest.approx(0.8**10)
    assert risk_p_value(0.1, 10, 0.2, binary=True) == pytest.approx(0.8**10 + 10 * 0.2 * 0.8**9)
    assert risk_p_value(0.3, 10, 0.2) == 1.0


def test_the_highest_threshold_loses_no_more_than_allowed() -> None:
    scores, weights = np.array([0.9, 0.2, 0.2, 0.5]), np.array([1.0, 0.5, 0.5, 1.0])
    assert highest_threshold(scores, weights, 3, 0.0) == pytest.approx(0.2, abs=1e-5)
    assert highest_threshold(scores, weights, 3, 1 / 3) == pytest.approx(0.5, abs=1e-5)
    assert highest_threshold(scores, weights, 3, 2 / 3) == pytest.approx(0.9, abs=1e-5)
    assert highest_threshold(np.array([-np.inf, 0.3]), np.ones(2), 2, 0.4) is None
    assert highest_threshold(np.array([-np.inf, 0.3]), np.ones(2), 2, 0.5) == pytest.approx(0.3, abs=1e-5)


@pytest.mark.parametrize("n", [20, 99, 500])
def test_split_conformal_takes_the_score_of_the_textbook(n: int) -> None:
    scores = np.random.default_rng(n).random(n)
    textbook = np.sort(scores)[int(np.ceil((n + 1) * 0.9)) - 1]
    assert list_limit(scores, 0.9) == pytest.approx(textbook, abs=1e-5)


def population(kind: str, examples: int = 4000, labels: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (N, L) and truth (N, L); how well the first tell the second is the kind's matter."""
    rng = np.random.default_rng(7)
    chance = rng.beta(0.4, 1.6, size=(examples, labels))
    true = rng.random((examples, labels)) < chance
    if kind == "honest":
        return chance, true
    if kind == "noise":
        return rng.random((examples, labels)), true
    if kind == "reversed":
        return 1 - chance, true
    return np.round(chance, 1), true  # ties


@pytest.mark.parametrize("kind", ["honest", "noise", "reversed", "ties"])
def test_recall_holds_for_any_score(kind: str) -> None:
    probs, true = population(kind)
    every = Cells.of(probs, true, 0, 6)
    rng = np.random.default_rng(1)
    for confidence in (None, 0.9):
        reached = []
        for _ in range(DRAWS):
            cells = every.of_examples(rng.choice(4000, 200, replace=False))
            threshold = recall_threshold(cells, 0.8, confidence)
            assert isinstance(threshold, float)
            reached.append(1 - every.recall_losses(threshold).mean())
        if confidence is None:
            assert np.mean(reached) >= 0.8 - 0.004  # three standard errors
            assert np.mean(reached) <= 0.83 or kind == "ties"
        else:
            assert np.mean(np.array(reached) >= 0.8) >= 0.9


@pytest.mark.parametrize("kind", ["honest", "noise", "reversed", "ties"])
def test_precision_holds_for_any_score_or_is_refused(kind: str) -> None:
    probs, true = population(kind)
    every = Cells.of(probs, true, 0, 6)
    rng = np.random.default_rng(1)
    broken = refused = 0
    for _ in range(DRAWS):
        threshold = precision_threshold(every.of_examples(rng.choice(4000, 1000, replace=False)), 0.65, 0.9)
        refused += isinstance(threshold, Refusal)
        broken += isinstance(threshold, float) and every.precision_losses(threshold).mean() > 0.35
    assert broken <= 0.1 * DRAWS
    assert (refused <= 0.1 * DRAWS) == (kind in ("honest", "ties"))


@pytest.mark.parametrize("width", [2, 8])
@pytest.mark.parametrize("worth", ["honest", "noise"])
def test_lists_hold_the_truth_for_any_probabilities_and_any_beam(width: int, worth: str) -> None:
    rng = np.random.default_rng(5)
    chances = -np.sort(-rng.dirichlet(np.full(12, 0.3), size=5000), axis=1)  # (N, 12) of all sets there are
    drawn = (np.cumsum(chances, axis=1) < rng.random((5000, 1))).sum(axis=1).clip(max=11)
    place = np.where(drawn < width, drawn, -1)
    probs = chances if worth == "honest" else -np.sort(-rng.dirichlet(np.ones(12), size=5000), axis=1)
    scores = true_scores(probs[:, :width], place)
    for confidence in (None, 0.9):
        covered = []
        for _ in range(DRAWS):
            limit = list_limit(scores[rng.choice(5000, 150, replace=False)], 0.85, confidence)
            assert isinstance(limit, float)
            lengths, outside = list_lengths(probs[:, :width], limit)
            covered.append(np.mean(np.where(place < 0, outside, place < lengths)))
        if confidence is None:
            assert np.mean(covered) >= 0.85 - 0.005
        else:
            assert np.mean(np.array(covered) >= 0.85) >= 0.9


def test_coverage_with_confidence_is_the_quantile_of_a_beta() -> None:
    """The coverage of the k-th of n scores is Beta(k, n + 1 - k): the limit is the first k whose tail is small."""
    n, scores = 200, np.arange(200) / 200
    limit = list_limit(scores, 0.9, 0.95)
    assert isinstance(limit, float)
    k = next(k for k in range(1, n + 1) if beta.cdf(0.9, k, n + 1 - k) <= 0.05)
    assert limit == pytest.approx(scores[k - 1], abs=1e-5)


def test_labels_nobody_can_find_make_a_recall_impossible() -> None:
    probs, true = population("honest", 100)
    cells = Cells.of(probs, true, 0, 6).with_missed(np.full(100, 2))
    refused = recall_threshold(cells, 0.9, None)
    assert isinstance(refused, Refusal)
    assert refused.needed is None
    assert refused.best < 0.9


def test_always_and_never_predicted_labels() -> None:
    probs, true = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]]), np.array([[1, 1, 0], [0, 0, 1]], dtype=bool)
    one = Cells.of(probs, true, 1, 1)
    assert one.recall_losses(0.95).tolist() == [0.5, 0.0]
    assert one.recall_losses(0.0).tolist() == [0.5, 0.0]
    assert one.precision_losses(2.0).tolist() == [0.0, 0.0]
    assert Cells.of(probs, true, 0, 3).precision_losses(0.35).tolist() == [0.0, 0.0]


def test_a_label_outside_the_shortlist_is_never_predicted() -> None:
    probs, true = np.array([[0.9, 0.0], [0.8, 0.0]] * 50), np.ones((100, 2), dtype=bool)
    cells = Cells.of(probs, true, 1, 2)
    assert cells.recall_losses(0.0).mean() == 0.5
    assert recall_threshold(cells, 0.9, None) == Refusal(0.5, None)


def test_examples_may_be_chosen_in_any_order_and_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, true = population("honest", 50)
    every = Cells.of(probs, true, 1, 4)
    monkeypatch.setattr("orderfree.promises.labels.BLOCK", 18)  # three examples at once
    chosen = np.array([7, 3, 7, 49, 0])
    some, again = every.of_examples(chosen), Cells.of(probs[chosen], true[chosen], 1, 4)
    for threshold in (0.0, 0.2, 0.7):
        assert some.recall_losses(threshold).tolist() == again.recall_losses(threshold).tolist()
        assert some.precision_losses(threshold).tolist() == again.precision_losses(threshold).tolist()


def test_too_few_examples_for_a_precision_are_told_how_many_suffice() -> None:
    probs, true = np.full((3, 2), 0.9), np.ones((3, 2), dtype=bool)
    refused = precision_threshold(Cells.of(probs, true, 0, 2), 0.95, 0.95)
    assert refused == Refusal(1.0, 79)  # 59 of three quarters of the examples


def test_a_label_whose_truth_is_not_known_takes_its_place_in_the_set() -> None:
    """The first label is always predicted, as at least one is. Where its truth is not known, the second is not always
    predicted in its stead."""
    probs, true = np.array([[0.9, 0.5, 0.4]]), np.array([[False, True, True]])
    hidden = np.array([[True, False, False]])
    assert Cells.of(probs, true, 1, 2, hidden).recall_losses(0.45).tolist() == [0.5]
    assert Cells.of(probs, true, 1, 2, hidden).recall_losses(0.6).tolist() == [1.0]
    assert Cells.of(probs, true, 1, 2, hidden).recall_losses(0.0).tolist() == [0.5]  # max_labels: no third one
    assert Cells.of(probs, true, 0, 3, hidden).precision_losses(0.3).tolist() == [0.0]
