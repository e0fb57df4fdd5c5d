"""scikit-learn's own checks of an estimator, on feature input."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from orderfree import OrderFreeClassifier

SMALL = {
    "model.encoder_options": {"c": 1.0, "folds": 2},
    "model.label_embedding": 4,
    "model.decoder_hidden": 4,
    "training.epochs": 1,
}
# It has partial_fit. Binary relevance alone: what two decoders say together need not be the highest probability of one.
DESCENDING = {**SMALL, "model.encoder_options": {"hidden": 8}, "training.epochs": 20, "objective.sequence": None}
BY_ROW = "what is held out, the folds and the batches are drawn by row: a row twice is not a row that counts twice"
FAILING = {
    "check_sample_weight_equivalence_on_dense_data": BY_ROW,
    "check_sample_weight_equivalence_on_sparse_data": BY_ROW,
}


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # the checks' own, where they cast NaN
@parametrize_with_checks(
    [
        OrderFreeClassifier(encoder="linear", settings=SMALL, random_state=1),
        OrderFreeClassifier(encoder="sparse", settings=DESCENDING, random_state=1),
    ],
    expected_failed_checks=lambda estimator: FAILING,
)
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
