"""A promise rests on the settings of decoding it was made with, and is refused with others."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from orderfree.checkpoint import load_model, save_model
from orderfree.errors import OrderfreeError
from orderfree.inference import Predictor
from orderfree.report.examples import evaluate_with_examples
from orderfree.serve.app import create_app
from orderfree.serve.schema import ServiceLimits
from unit_models import labelled_texts, made_model

NAMED = "thresholds:recall=0.5"


@pytest.fixture
def predictor() -> Predictor:
    made = Predictor(made_model(seed=5))
    for goal in ("recall=0.5", "candidates=0.8"):
        made.promise(labelled_texts(200, 1), goal)
    return made


def test_another_number_of_labels_breaks_a_promise(predictor: Predictor) -> None:
    most = predictor.limits.max_labels
    for other in (predictor.adjusted(max_labels=1), predictor.adjusted(min_labels=2)):
        with pytest.raises(OrderfreeError, match=r"recall=0\.5 was promised with (min|max)_labels="):
            other.predict(["red fish"], [NAMED])
        with pytest.raises(OrderfreeError, match=r"candidates=0\.8 was promised with (min|max)_labels="):
            other.predict(["red fish"], candidates=0.8)
        assert other.surest_candidates is None
    assert predictor.adjusted(max_labels=most).predict(["red fish"], [NAMED], candidates=0.8)
    assert predictor.adjusted(max_labels=1).predict(["red fish"])


def test_a_promise_for_larger_sets_is_not_kept_with_the_usual_ones(predictor: Predictor) -> None:
    wide = predictor.adjusted(max_labels=1)
    wide.promise(labelled_texts(200, 1), "recall=0.2")
    assert wide.predict(["red fish"], ["thresholds:recall=0.2"])
    predictor.trained.decisions = wide.trained.decisions
    with pytest.raises(OrderfreeError, match="was promised with max_labels=1 and does not hold with max_labels="):
        predictor.predict(["red fish"], ["thresholds:recall=0.2"])


def test_thresholds_of_a_promise_are_not_changed(predictor: Predictor) -> None:
    with pytest.raises(OrderfreeError, match="keep a promise; leave out the other thresholds"):
        predictor.adjusted(thresholds=0.9).predict(["red fish"], [NAMED])


def test_marginals_rest_on_the_beam_too(predictor: Predictor) -> None:
    predictor.promise(labelled_texts(200, 1), "recall=0.3", decoder="marginal")
    settings = predictor.trained.decisions.promises["recall=0.3"].settings
    assert settings.keys() == {"min_labels", "max_labels", "renormalise", "beam_width", "br_power"}
    assert predictor.trained.decisions.promises["recall=0.5"].settings.keys() == {"min_labels", "max_labels"}


def test_a_report_with_other_settings_shows_no_lists(predictor: Predictor, tmp_path: Path) -> None:
    save_model(predictor.trained, tmp_path / "model", "# card\n")
    assert load_model(tmp_path / "model").decisions.promises == predictor.trained.decisions.promises
    found = evaluate_with_examples(predictor.adjusted(max_labels=1), labelled_texts(20, 2), ["beam"])
    assert all(example["possible"] is None for example in found["examples_shown"])


def test_the_service_refuses_to_break_a_promise(predictor: Predictor) -> None:
    app = create_app(predictor, "fish", ServiceLimits(), None, False)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        for more in ({"max_labels": 1}, {"min_labels": 2}, {"thresholds": 0.9}):
            for asked in ({"decoder": NAMED}, {"candidates": 0.8}):
                if asked.keys() == {"candidates"} and "thresholds" in more:
                    continue
                refused = client.post("/v1/predict", json={"text": "red fish", **asked, **more})
                assert refused.status_code == 422, refused.text
                assert "promise" in refused.json()["detail"]
        assert client.post("/v1/predict", json={"text": "red fish", "decoder": NAMED}).status_code == 200
