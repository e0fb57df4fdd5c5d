"""Lists of candidate sets, abstention, and the curve of quality against the share of examples answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from orderfree.checkpoint import load_model, save_model
from orderfree.decisions.promised import CandidateList
from orderfree.errors import DataError, OrderfreeError
from orderfree.inference import Predictor
from orderfree.metrics.recalibration import Repair
from orderfree.metrics.selective import answered_curve, reached
from orderfree.report.examples import evaluate_with_examples
from orderfree.report.page import render
from orderfree.serve.app import create_app
from orderfree.serve.schema import ServiceLimits
from orderfree.tools.prediction_records import abstaining, prediction_record
from orderfree.types import Example, LabelSet
from unit_models import labelled_texts, made_model


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    made = Predictor(made_model(seed=5))
    made.promise(labelled_texts(200, 1), "candidates=0.8")
    return made


def test_lists_of_an_untrained_model_hold_the_truth(predictor: Predictor) -> None:
    new = labelled_texts(400, 2)
    listed = [p.candidates for p in predictor.predict(new, ["beam"], candidates=0.8)]
    covered = [
        any(set(labels) == set(example.labels or ()) for labels, _ in found.sets) or found.outside
        for example, found in zip(new, listed, strict=True)
        if found is not None
    ]
    assert len(covered) == 400
    assert 0.7 < np.mean(covered) < 0.95
    limit = predictor.trained.decisions.candidate_promise(0.8).limit
    for found in listed:
        assert found is not None
        probs = [prob for _, prob in found.sets]
        assert probs == sorted(probs, reverse=True)
        assert sum(probs[:-1]) <= limit + 1e-9
        assert len({frozenset(labels) for labels, _ in found.sets}) == len(found.sets)


def test_a_promise_survives_saving_and_is_on_the_card(predictor: Predictor, tmp_path: Path) -> None:
    save_model(predictor.trained, tmp_path / "model", "# card\n")
    loaded = load_model(tmp_path / "model").decisions
    assert loaded.promises == predictor.trained.decisions.promises
    assert loaded.promises["candidates=0.8"].sentence in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")


def test_the_promise_tells_how_long_its_lists_are(predictor: Predictor) -> None:
    promise = predictor.trained.decisions.promises["candidates=0.8"]
    calibration = predictor.predict(labelled_texts(200, 1), ["beam"], candidates=0.8)
    lengths = [len(p.candidates.sets) for p in calibration if p.candidates is not None]
    assert promise.lists is not None
    assert promise.lists["median"] == np.median(lengths)
    assert promise.lists["mean"] == pytest.approx(np.mean(lengths), abs=0.05)  # other batches, other last digits
    assert f"The length of their lists is {np.median(lengths):g} in the median" in promise.sentence


def test_what_cannot_be_promised_of_sets(predictor: Predictor) -> None:
    with pytest.raises(OrderfreeError, match=r"promises no lists of candidate sets at 0\.9; it does at 0\.8, and"):
        list(predictor.predict(labelled_texts(3, 2), candidates=0.9))
    with pytest.raises(OrderfreeError, match="5 calibration examples; about 19 like them would suffice"):
        predictor.promise(labelled_texts(5, 1), "candidates=0.95")
    with pytest.raises(OrderfreeError, match="no label decoder"):
        Predictor(made_model(seed=5, sequence=None)).promise(labelled_texts(50, 1), "candidates=0.8")
    with pytest.raises(DataError, match="no calibration example has a label that the model knows"):
        predictor.promise([replace(e, labels=("z",)) for e in labelled_texts(50, 1)], "candidates=0.8")
    with pytest.raises(OrderfreeError, match="'f1' is no promise"):
        predictor.promise(labelled_texts(50, 1), "f1")


def test_labels_the_model_does_not_know_are_outside(predictor: Predictor) -> None:
    strange = [replace(e, labels=("a", "never seen")) for e in labelled_texts(50, 1)]
    made = Predictor(made_model(seed=5)).promise(strange, "candidates=0.8")
    assert made.unknown_labels == 50
    assert "50 of their labels are unknown to the model" in made.sentence


def test_doubtful_sets_are_withheld(predictor: Predictor) -> None:
    for prediction in predictor.predict(labelled_texts(20, 3), ["joint"]):
        record = prediction_record(predictor, prediction, "joint", None, "none")
        prob = predictor.set_prob("joint", prediction.label_sets["joint"])
        assert prob == pytest.approx(np.exp(record["log_prob"]))
        kept, withheld = abstaining(record, prob, prob), abstaining(record, prob, prob + 0.001)
        assert (kept["labels"], kept["abstained"]) == (record["labels"], False)
        assert (withheld["labels"], withheld["withheld"], withheld["abstained"]) == ([], record["labels"], True)


def test_the_probability_of_a_set_is_repaired_where_validation_chose_that() -> None:
    made = Predictor(made_model(seed=5))
    found = LabelSet(("a",), float(np.log(0.9)))
    made.trained.decisions = replace(made.trained.decisions, set_repairs={"joint": Repair("temperature", 2.0)})
    assert made.set_prob("joint", found) == pytest.approx(0.75)  # odds of 9 become odds of 3
    assert made.set_prob("br", found) == pytest.approx(0.9)


def test_the_curve_of_what_is_answered() -> None:
    sure = np.array([0.9, 0.8, 0.8, 0.1])
    right = np.array([True, True, False, False])
    curve = answered_curve(sure, right, right.astype(float))
    assert [(row["share"], row["abstain_below"], row["subset_accuracy"]) for row in curve] == [
        (1.0, 0.1, 0.5),
        (0.75, 0.8, pytest.approx(2 / 3)),
        (0.25, 0.9, 1.0),
    ]
    assert [(row["wanted"], row["share"]) for row in reached(curve)] == [
        (0.99, 0.25), (0.95, 0.25), (0.9, 0.25), (0.8, 0.25), (0.7, 0.25), (0.6, 0.75)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def client(predictor: Predictor) -> Iterator[TestClient]:
    app = create_app(predictor, "fish", ServiceLimits(), None, False)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def test_the_service_promises_lists_and_abstains(client: TestClient, predictor: Predictor) -> None:
    promise = predictor.trained.decisions.promises["candidates=0.8"]
    assert client.get("/v1/model").json()["promises"] == {"candidates=0.8": promise.sentence}
    asked = {"text": "red fish", "candidates": 0.8, "abstain_below": 1.0}
    (answer,) = client.post("/v1/predict", json=asked).json()["predictions"]
    (expected,) = predictor.predict([Example("0", text="red fish")], candidates=0.8)
    assert expected.candidates is not None
    assert [one["labels"] for one in answer["candidates"]] == [list(names) for names, _ in expected.candidates.sets]
    assert answer["outside"]["possible"] == expected.candidates.outside
    assert answer["abstained"]
    assert answer["labels"] == []
    refused = client.post("/v1/predict", json={"text": "red fish", "candidates": 0.9})
    assert refused.status_code == 422
    assert "promises no lists of candidate sets at 0.9" in refused.json()["detail"]


def test_the_page_is_told_what_is_possible_and_doubtful(client: TestClient, predictor: Predictor) -> None:
    promise = predictor.trained.decisions.promises["candidates=0.8"]
    (expected,) = predictor.predict([Example("0", text="red fish")], candidates=0.8)
    assert expected.candidates is not None
    told = client.post("/v1/explain", json={"text": "red fish"}).json()["possible"]
    assert told["promise"] == promise.sentence
    assert [tuple(one["labels"]) for one in told["sets"]] == [labels for labels, _ in expected.candidates.sets]
    assert told["doubtful"] == expected.candidates.doubtful
    # the promise is about the model's own set sizes
    assert client.post("/v1/explain", json={"text": "red fish", "max_labels": 1}).json()["possible"] is None


@pytest.mark.parametrize(("sets", "outside", "doubtful"), [(1, False, False), (2, False, True), (1, True, True)])
def test_more_than_one_answer_is_doubtful(sets: int, outside: bool, doubtful: bool) -> None:
    assert CandidateList(((("a",), 0.5),) * sets, outside, 0.1).doubtful == doubtful


def test_the_report_shows_promises_lists_and_what_is_answered(predictor: Predictor, tmp_path: Path) -> None:
    found = evaluate_with_examples(predictor, labelled_texts(150, 4), ["beam"])
    for example in found["examples_shown"]:
        (expected,) = predictor.predict([Example("0", text=example["text"])], candidates=0.8)
        assert expected.candidates is not None
        assert len(example["possible"]["sets"]) + example["possible"]["more"] == len(expected.candidates.sets)
        assert example["possible"]["doubtful"] == expected.candidates.doubtful
    promises = {name: made.sentence for name, made in predictor.trained.decisions.promises.items()}
    page = render(found, [], {"promises": promises})
    assert promises["candidates=0.8"] in page
    assert "One of these sets is the true one, with a probability of 80 %:" in page
    assert page.count('<strong class="doubtful">') == sum(e["possible"]["doubtful"] for e in found["examples_shown"])
    assert "Quality of the examples answered" in page
    assert "Share of predicted sets that were exactly right" in page


def test_shifted_data_are_noticed_in_the_report() -> None:
    sentence = "the data have shifted (p = 1e-09): the number of predicted labels differ from the reference"
    assert "The data have shifted" in render({"shift": {"shifted": True, "sentence": sentence}}, [], {})
    assert "have shifted" not in render({"shift": {"shifted": False, "sentence": "alike"}}, [], {})
