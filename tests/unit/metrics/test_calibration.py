"""Answers a person can check by hand, or that follow from how the data were made."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy import sparse

from orderfree.decisions.records import Decisions
from orderfree.evaluation import judge
from orderfree.inference import Prediction
from orderfree.metrics.calibration import brier_score, calibration, expected_calibration_error, reliability
from orderfree.types import Example, LabelSet

PROBS = np.array([[0.02, 0.9], [0.7, 0.8]])
TARGETS = np.array([[0, 1], [0, 1]])
#   two bins   mean of what was predicted    share true
#   [0, .5)    .02                           0             distance .02, 1 cell
#   [.5, 1]    (.9 + .7 + .8) / 3 = .8       2/3           distance .4/3, 3 cells


def made(seed: int, sharpen: float = 1.0, shape: tuple[int, int] = (20_000, 10)) -> tuple[np.ndarray, np.ndarray]:
    """Truth drawn with probabilities that are mostly small, and those, with log-odds `sharpen` times as large."""
    random = np.random.default_rng(seed)
    probs = random.beta(0.3, 1.5, shape)
    odds = (probs / (1 - probs)) ** sharpen
    return odds / (1 + odds), random.random(shape) < probs


def slowly(probs: np.ndarray, targets: np.ndarray, bins: int) -> list[dict[str, float | int]]:
    rows = []
    for b in range(bins):
        lower, upper, last = b / bins, (b + 1) / bins, b == bins - 1
        inside = [
            (float(p), int(t))
            for p, t in zip(probs.ravel(), targets.ravel(), strict=True)
            if lower <= p and (p < upper or last)
        ]
        if inside:
            mean, share = (math.fsum(part) / len(inside) for part in zip(*inside, strict=True))
            row = {"lower": lower, "upper": upper, "mean_probability": mean, "share_true": share, "count": len(inside)}
            rows.append(row)
    return rows


def test_four_cells_by_hand():
    low, high = reliability(PROBS, TARGETS, bins=2)
    assert low == {"lower": 0.0, "upper": 0.5, "mean_probability": 0.02, "share_true": 0.0, "count": 1}
    assert high == pytest.approx({"lower": 0.5, "upper": 1.0, "mean_probability": 0.8, "share_true": 2 / 3, "count": 3})
    assert expected_calibration_error(PROBS, TARGETS, bins=2) == pytest.approx((0.02 + 3 * (0.8 - 2 / 3)) / 4)
    assert brier_score(PROBS, TARGETS) == pytest.approx((0.0004 + 0.01 + 0.49 + 0.04) / 4)


def test_everything_at_once_is_plain_json():
    # In 15 bins every one of the four cells is alone: the errors are the distances themselves.
    found = calibration(PROBS, TARGETS)
    assert json.loads(json.dumps(found)) == found
    assert found.pop("reliability") == reliability(PROBS, TARGETS)
    assert found == pytest.approx(
        {
            "cells": 4,
            "expected_calibration_error": (0.02 + 0.1 + 0.7 + 0.2) / 4,
            "brier_score": 0.5404 / 4,
            "likely_from": 0.05,
            "likely_cells": 3,
            "likely_expected_calibration_error": (0.1 + 0.7 + 0.2) / 3,
        }
    )


def test_right_probabilities_have_nearly_no_error():
    found = calibration(*made(seed=0))
    assert found["expected_calibration_error"] < 0.003
    assert found["likely_expected_calibration_error"] < 0.005


@pytest.mark.parametrize("sharpen", [0.5, 2.0], ids=["too timid", "too sure"])
def test_wrong_probabilities_have_an_error(sharpen):
    right, wrong = calibration(*made(seed=0)), calibration(*made(seed=0, sharpen=sharpen))
    for error in ("expected_calibration_error", "likely_expected_calibration_error"):
        assert wrong[error] > 0.05
    assert wrong["brier_score"] > right["brier_score"]


def test_easy_zeros_hide_the_error_of_all_others_but_not_among_likely_cells():
    probs, targets = np.zeros((100, 10)), np.zeros((100, 10), dtype=bool)
    probs[:, 0] = 0.9  # and never true
    found = calibration(probs, targets)
    assert found["expected_calibration_error"] == pytest.approx(0.09)
    assert found["likely_expected_calibration_error"] == pytest.approx(0.9)
    assert found["likely_cells"] == 100


def test_probabilities_of_exactly_the_limit_are_likely():
    probs = np.array([[0.05, np.nextafter(0.05, 0)]])
    assert calibration(probs, np.zeros((1, 2)))["likely_cells"] == 1
    assert calibration(probs.astype(np.float32), np.zeros((1, 2)))["likely_cells"] == 2  # both round to the same


def test_empty_bins_are_left_out():
    rows = reliability(np.array([0.05, 0.95, 0.97]), np.array([0, 1, 1]), bins=10)
    assert [(row["lower"], row["count"]) for row in rows] == [(0.0, 1), (0.9, 2)]


def test_both_ends_have_a_bin():
    first, last = reliability(np.array([0.0, 1.0]), np.array([0, 1]))
    assert (first["lower"], first["mean_probability"], first["share_true"]) == (0.0, 0.0, 0.0)
    assert (last["upper"], last["mean_probability"], last["share_true"]) == (1.0, 1.0, 1.0)
    assert expected_calibration_error(np.array([0.0, 1.0]), np.array([0, 1])) == 0


@pytest.mark.parametrize("bins", [1, 5, 10, 15, 49])
def test_an_edge_belongs_to_the_bin_above(bins):
    edges = np.array([place / bins for place in range(bins)])
    rows = reliability(edges, np.zeros(bins), bins)
    assert [row["lower"] for row in rows] == [row["mean_probability"] for row in rows] == edges.tolist()
    assert {row["count"] for row in rows} == {1}


def test_the_order_of_cells_does_not_matter():
    probs, targets = made(seed=1, shape=(200, 7))
    order = np.random.default_rng(2).permutation(probs.size)
    shuffled = (part.ravel()[order].reshape(7, 200) for part in (probs, targets))
    first, second = calibration(probs, targets), calibration(*shuffled)
    for one, other in zip(first.pop("reliability"), second.pop("reliability"), strict=True):
        assert one == pytest.approx(other)
    assert first == pytest.approx(second)


@pytest.mark.parametrize("bins", [1, 2, 15])
@pytest.mark.parametrize("seed", range(5))
def test_as_counted_cell_by_cell(seed, bins):
    probs, targets = made(seed, shape=(30, 8))
    probs = np.round(probs, 1 + seed % 3)  # many on the edges
    fast, slow = reliability(probs, targets, bins), slowly(probs, targets, bins)
    for one, other in zip(fast, slow, strict=True):
        assert one == pytest.approx(other)
    gaps = math.fsum(row["count"] * abs(row["share_true"] - row["mean_probability"]) for row in slow)
    assert expected_calibration_error(probs, targets, bins) == pytest.approx(gaps / probs.size)


def test_brier_score_equals_scikit_learn():
    from sklearn.metrics import brier_score_loss

    probs, targets = made(seed=3, shape=(50, 4))
    assert brier_score(probs, targets) == pytest.approx(brier_score_loss(targets.ravel(), probs.ravel()))


def test_sparse_targets_and_single_precision():
    found = calibration(PROBS.astype(np.float32), sparse.csr_array(TARGETS))
    assert found["expected_calibration_error"] == pytest.approx(
        calibration(PROBS, TARGETS)["expected_calibration_error"]
    )
    assert json.loads(json.dumps(found)) == found


def test_without_cells_there_is_no_mean():
    nothing = calibration(np.zeros((0, 3)), np.zeros((0, 3)))
    assert (nothing["cells"], nothing["expected_calibration_error"], nothing["brier_score"]) == (0, None, None)
    unlikely = calibration(np.full((2, 2), 0.01), np.zeros((2, 2)))
    assert unlikely["likely_expected_calibration_error"] is None
    assert unlikely["expected_calibration_error"] == pytest.approx(0.01)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="same shape"):
        calibration(np.zeros((2, 3)), np.zeros((3, 2)))


@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan])
def test_what_is_no_probability_is_refused(wrong):
    with pytest.raises(ValueError, match="between 0 and 1"):
        reliability(np.array([0.5, wrong]), np.array([0, 1]))


def judged(probs: list[Any]) -> Any:
    """The calibration in an evaluation of two examples, by a model that knows b and a but not z."""
    predictor = SimpleNamespace(
        labels=SimpleNamespace(names=["b", "a"], counts=[1, 1], combinations={}),
        trained=SimpleNamespace(decisions=Decisions()),
        set_prob=lambda decoder, found: 1.0,
        default_decoder="br",
        decision=Decisions().look_up,
    )
    predictions = [
        Prediction(Example(id=str(number), text="", labels=labels), {"br": LabelSet(("a",), 0.0, ())}, row, False)
        for number, (labels, row) in enumerate(zip([("a", "z"), ("a",)], probs, strict=True))
    ]
    return judge(cast(Any, predictor), predictions, ["br"])["calibration"]


def test_an_evaluation_has_it_for_the_labels_the_model_knows():
    assert judged(list(PROBS)) == calibration(PROBS, np.array([[0, 1], [0, 1]]))


def test_an_evaluation_of_a_model_without_probabilities_has_none():
    assert judged([None, None]) is None
