"""Confidence intervals and paired tests: known answers, and rows really drawn as the slow twin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from orderfree.metrics import resampling
from orderfree.metrics.resampling import (
    INTERVALS,
    between_seeds,
    interval,
    intervals,
    paired,
    resample_weights,
    resampled,
)
from orderfree.metrics.scores import FIVE, scores

TARGETS = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0]], dtype=bool)  # the last label is never true
PREDICTIONS = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0]], dtype=bool)
# By hand. Labels: F1 1, 1, 0, 0. Pooled: 4 hits, 1 wrong, 1 missed. Examples: F1 2/3, 2/3, 1.
KNOWN = {
    "macro_f1": 1 / 2,
    "micro_f1": 8 / 10,
    "example_f1": 7 / 9,
    "subset_accuracy": 1 / 3,
    "hamming_accuracy": 10 / 12,
    "micro_precision": 4 / 5,
    "micro_recall": 4 / 5,
}


def random_sets(seed: int, examples: int = 40, labels: int = 7, share: float = 0.2) -> np.ndarray:
    return np.random.default_rng(seed).random((examples, labels)) < share


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("metric", INTERVALS)
def test_with_every_example_once_the_resampled_score_is_the_score(metric: str, kind: type) -> None:
    found = resampled(metric, kind(TARGETS), kind(PREDICTIONS), np.ones((1, 3)))
    assert found == pytest.approx([KNOWN[metric]])
    assert scores(TARGETS, PREDICTIONS)[metric] == pytest.approx(KNOWN[metric])


@pytest.mark.parametrize("metric", INTERVALS)
def test_resampled_scores_are_those_of_rows_really_drawn(metric: str) -> None:
    targets, predictions = random_sets(1), random_sets(1) ^ random_sets(2, share=0.1)
    weights = resample_weights(len(targets), resamples=30)
    assert (weights.sum(axis=1) == len(targets)).all()
    for found, drawn in zip(resampled(metric, targets, predictions, weights), weights.astype(int), strict=True):
        rows = np.repeat(np.arange(len(targets)), drawn)
        true, given = targets[rows], predictions[rows]
        if metric == "macro_f1":  # labels the draw has missed, but the whole part has, say nothing
            told = true.any(axis=0) | ~targets.any(axis=0)
            true, given = true[:, told], given[:, told]
        assert found == pytest.approx(scores(true, given)[metric])


def test_rows_really_drawn_include_some_that_miss_a_label() -> None:
    targets = random_sets(3, share=0.05)
    weights = resample_weights(len(targets), resamples=30)
    assert ((weights @ targets == 0) & targets.any(axis=0)).any()  # else the test above would not reach that branch


@pytest.mark.parametrize("metric", INTERVALS)
def test_a_perfect_predictor_is_perfect_in_every_draw(metric: str) -> None:
    targets = TARGETS[:, :3]
    assert interval(resampled(metric, targets, targets, resample_weights(3))) == [1, 1]


def test_the_interval_holds_95_percent() -> None:
    assert interval(np.arange(1001.0)) == [25.0, 975.0]


@pytest.mark.parametrize("metric", INTERVALS)
def test_identical_predictions_do_not_differ(metric: str) -> None:
    found = paired(metric, TARGETS, [PREDICTIONS, PREDICTIONS], PREDICTIONS)
    assert found == {"difference": 0, "interval": [0, 0], "better": 0.5, "p": 1, "by_seed": [0, 0]}


def test_the_better_one_of_two_is_told() -> None:
    targets = random_sets(4, examples=300)
    good, bad = targets ^ random_sets(5, 300, share=0.02), targets ^ random_sets(6, 300, share=0.2)
    ahead = paired("micro_f1", targets, [good], bad)
    behind = paired("micro_f1", targets, [bad], good)
    assert ahead["difference"] == pytest.approx(-behind["difference"])
    assert ahead["interval"][0] < ahead["difference"] < ahead["interval"][1]
    assert (ahead["better"], behind["better"]) == (1, 0)
    assert ahead["p"] == behind["p"] == pytest.approx(2 / 1001)  # never 0, however clear


def test_several_seeds_are_their_mean() -> None:
    other = ~PREDICTIONS
    found = paired("micro_f1", TARGETS, [PREDICTIONS, other], PREDICTIONS)
    apart = scores(TARGETS, other)["micro_f1"] - KNOWN["micro_f1"]
    assert found["by_seed"] == pytest.approx([0, apart])
    assert found["difference"] == pytest.approx(apart / 2)


def test_the_spread_over_seeds_widens_the_interval() -> None:
    """Two systems that differ clearly on the test examples, but less than their own seeds do."""
    generator = np.random.default_rng(3)
    truth = generator.random((1000, 4)) < 0.5
    steady, better = ([np.where(generator.random(truth.shape) < share, ~truth, truth)] * 3 for share in (0.3, 0.2))
    shaky = [np.where(generator.random(truth.shape) < share, ~truth, truth) for share in (0.01, 0.2, 0.39)]
    clear = between_seeds("hamming_accuracy", truth, better, steady)
    unclear = between_seeds("hamming_accuracy", truth, shaky, steady)
    assert clear["p"] < 0.01
    assert unclear["p"] > 0.2
    assert clear["interval"][0] > 0 > unclear["interval"][0]
    assert between_seeds("micro_f1", truth, steady, steady)["p"] == 1


def test_draws_made_a_few_at_a_time_are_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = random_sets(4, examples=300)
    predictions = {"one": targets ^ random_sets(5, 300, share=0.1), "right": targets}
    whole = intervals(targets, predictions)
    monkeypatch.setattr(resampling, "AT_ONCE", 300 * 170)
    assert [len(weights) for weights in resampling._draws(300, 7)] == [170] * 5 + [150]
    assert [len(weights) for weights in resampling._draws(7, 300)] == [170] * 5 + [150]  # many labels
    parted = intervals(targets, predictions)
    for metric in FIVE:
        low, high = whole["one"][metric]
        assert low < scores(targets, predictions["one"])[metric] < high
        assert parted["one"][metric] == pytest.approx([low, high], abs=0.01)
        assert parted["right"][metric] == [1, 1] or metric == "macro_f1"
