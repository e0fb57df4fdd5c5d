"""The questions, in this process: what they are answered, what is refused and how."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from service_support import opened, refused

from orderfree.errors import OrderfreeError
from orderfree.inference import Predictor
from orderfree.report.trace import trace
from orderfree.serve import app as service
from orderfree.serve import server
from orderfree.serve.answers import describe
from orderfree.serve.app import create_app
from orderfree.serve.logs import JsonLines
from orderfree.serve.schema import ServiceLimits
from orderfree.types import Example
from unit_models import made_model

TEXTS = ["red fish", "two blue fish swim in a pond", "", "one"]


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("decoder", ["greedy", "beam", "br", "rescore", "joint", "marginal", "expected_f1"])
def test_predictions_are_those_of_the_predictor(client: TestClient, predictor: Predictor, decoder: str) -> None:
    answer = client.post("/v1/predict", json={"texts": TEXTS, "decoder": decoder, "alternatives": 3, "probs": "all"})
    assert answer.status_code == 200
    assert answer.json()["decoder"] == decoder
    expected = predictor.predict([Example(str(n), text=text) for n, text in enumerate(TEXTS)], [decoder])
    for found, right in zip(answer.json()["predictions"], expected, strict=True):
        chosen = right.label_sets[decoder]
        assert tuple(found["labels"]) == chosen.labels
        assert found["log_prob"] == pytest.approx(chosen.log_prob, abs=1e-5)
        assert [tuple(other["labels"]) for other in found["alternatives"]] == [a for a, _ in chosen.alternatives[:3]]
        assert right.probs is not None
        assert list(found["probs"].values()) == pytest.approx(right.probs.tolist(), abs=1e-5)


def test_one_text(client: TestClient) -> None:
    one = client.post("/v1/predict", json={"text": TEXTS[1]}).json()
    many = client.post("/v1/predict", json={"texts": [TEXTS[1]]}).json()
    assert one == many
    assert len(one["predictions"]) == 1
    assert set(one["predictions"][0]["probs"]) == set(one["predictions"][0]["labels"])
    assert one["predictions"][0]["alternatives"] == []


def test_a_metric_chooses_decoder_and_thresholds(client: TestClient, predictor: Predictor) -> None:
    answer = client.post("/v1/predict", json={"texts": TEXTS, "optimize_for": "macro_f1"}).json()
    assert answer["decoder"] == "br"
    expected = predictor.predict([Example(str(n), text=t) for n, t in enumerate(TEXTS)], ["best:macro_f1"])
    sets = [found.label_sets["best:macro_f1"].labels for found in expected]
    assert [tuple(found["labels"]) for found in answer["predictions"]] == sets


def test_sizes_and_thresholds_of_a_request_hold_for_that_request_only(client: TestClient) -> None:
    def size(**options: Any) -> int:
        answer = client.post("/v1/predict", json={"text": "red", "decoder": "br", **options})
        return len(answer.json()["predictions"][0]["labels"])

    before = size()
    assert size(thresholds=0) == 4
    assert size(thresholds={"a": 0, "b": 0, "c": 1, "d": 1}) == 2
    assert size(thresholds=1, min_labels=1) == 1
    assert size(thresholds=0, max_labels=3) == 3
    assert size() == before


def test_many_clients_get_what_one_would(client: TestClient) -> None:
    bodies = [{"text": text, "decoder": decoder} for text in TEXTS for decoder in ("joint", "br", "beam")] * 3
    alone = [client.post("/v1/predict", json=body).json() for body in bodies]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda body: client.post("/v1/predict", json=body).json(), bodies))
    for one, other in zip(alone, together, strict=True):
        (first,), (second,) = one["predictions"], other["predictions"]
        assert first["labels"] == second["labels"]
        assert first["log_prob"] == pytest.approx(second["log_prob"], abs=1e-4)


def test_explanations_are_the_trace(client: TestClient, predictor: Predictor) -> None:
    told = trace(predictor, Example("0", text=TEXTS[1]), "joint")
    answer = client.post("/v1/explain", json={"text": TEXTS[1], "decoder": "joint", "candidates": 2}).json()
    steps = answer["generation"]["steps"]
    assert [step["taken"] for step in steps] == [step.taken for step in told.steps]
    for step, right in zip(steps, told.steps, strict=True):
        assert step["prob"] == pytest.approx(right.prob, abs=1e-5)
        assert len(step["candidates"]) <= 2
        assert step["taken"] in [one["label"] for one in step["candidates"]]
    assert [tuple(one["labels"]) for one in answer["alternatives"]["sets"]] == [one.labels for one in told.sets]
    assert {one["label"] for one in answer["comparison"] if one["chosen"]} == set(told.chosen.labels)
    assert "'sparse' reads the text as a whole" in answer["words_missing"]


def test_an_explanation_marks_words() -> None:
    with opened(Predictor(made_model(1, encoder="bilstm"))) as client:
        answer = client.post("/v1/explain", json={"text": "red  𝒳 fish", "decoder": "beam"}).json()
    assert answer["spans"] == [[0, 3], [5, 6], [7, 11]]
    for step in answer["generation"]["steps"]:
        assert len(step["attention"]) == 3
        assert sum(step["attention"]) == pytest.approx(1, abs=1e-3)
    assert answer["words_missing"] is None


def test_a_model_with_one_decoder_only_explains_what_it_can() -> None:
    with opened(Predictor(made_model(1, sequence=None))) as client:
        answer = client.post("/v1/explain", json={"text": "red fish"}).json()
    assert (answer["generation"], answer["alternatives"]) == (None, None)
    assert {one["sequence_prob"] for one in answer["comparison"]} == {None}


@pytest.mark.parametrize("encoder", ["sparse", "bilstm"])
@pytest.mark.parametrize(
    ("text", "caveat"),
    [
        (" ", "The text is empty"),
        ("qwertz zzyzx blorf", "None of the words"),
        ("qwertz zzyzx fish", "Only 1 of the 3 words"),
        ("two red qwertz fish", None),
    ],
)
def test_a_text_that_the_model_does_not_know_gets_a_caveat(encoder: str, text: str, caveat: str | None) -> None:
    with opened(Predictor(made_model(1, encoder=encoder))) as client:
        answer = client.post("/v1/explain", json={"text": text}).json()
    assert answer["caveat"] is None if caveat is None else caveat in answer["caveat"]


def test_texts_to_try_are_those_given_or_the_heaviest_words_of_frequent_labels() -> None:
    predictor = Predictor(made_model(1, encoder="linear"))
    with torch.no_grad():
        predictor.network.encoder.terms.zero_()
        names = predictor.trained.featurizer.term_names
        for weight, word in enumerate(("red", "fish"), 1):
            predictor.network.encoder.terms[names.index(word), predictor.labels.ids["a"]] = weight
    assert describe(predictor, "fish", ServiceLimits(), []).examples == ["fish red"]
    assert describe(predictor, "fish", ServiceLimits(), ["mine"]).examples == ["mine"]
    assert describe(Predictor(made_model(1)), "fish", ServiceLimits(), []).examples == []


def test_the_model_says_what_it_can_be_asked(client: TestClient, predictor: Predictor) -> None:
    told = client.get("/v1/model").json()
    assert told["name"] == "fish"
    assert list(told["labels"]) == list(predictor.labels.names)
    assert [one["name"] for one in told["decoders"]] == list(predictor.decoders)
    assert {one["name"] for one in told["decoders"] if one["has_threshold"]} == {"br", "marginal"}
    assert told["best_decoder"] == {"micro_f1": "joint", "macro_f1": "br"}


def test_a_model_of_features_is_refused_before_anything_listens() -> None:
    with pytest.raises(OrderfreeError, match="trained on features"):
        create_app(Predictor(made_model(1, encoder="dense")), "features", ServiceLimits())


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ({}, ["either `text` or `texts`"]),
        ({"text": "a", "texts": ["b"]}, ["either `text` or `texts`"]),
        ({"texts": []}, ["texts: "]),
        ({"texts": ["a", 1]}, ["texts.1: "]),
        ({"text": "a", "decodr": "br"}, ["decodr: "]),
        ({"text": "a", "decoder": "bream"}, ["bream", "Did you mean 'beam'?"]),
        ({"text": "a", "decoder": "best:micro_f1"}, ["optimize_for"]),
        ({"text": "a", "decoder": "br", "optimize_for": "micro_f1"}, ["give only one of them"]),
        ({"text": "a", "optimize_for": "mikro_f1"}, ["not been tuned", "Did you mean 'micro_f1'?"]),
        ({"text": "a", "decoder": "joint", "thresholds": 0.5}, ["'joint' has no thresholds", "br"]),
        ({"text": "a", "decoder": "br", "thresholds": 1.5}, ["thresholds"]),
        ({"text": "a", "decoder": "br", "thresholds": {"z": 0.5}}, ["'z' is no label"]),
        ({"text": "a", "min_labels": 3, "max_labels": 2}, ["min_labels is 3"]),
        ({"text": "a", "max_labels": 0}, ["max_labels"]),
        ({"text": "a", "alternatives": -1}, ["alternatives"]),
        ({"texts": ["a"] * 257}, ["257 texts", "256"]),
        ({"texts": ["a", "b" * 100_001]}, ["text 2 has 100,001 characters", "100,000"]),
    ],
)
def test_what_is_not_possible_is_said_in_words(client: TestClient, body: Any, parts: list[str]) -> None:
    refused(client.post("/v1/predict", json=body), 422, *parts)


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        (b"", 400, "no JSON"),
        (b'{"text": ', 400, "line 1, column 10"),
        (b"\xff", 400, "UTF-8"),
        (b'{"text": NaN}', 400, "NaN"),
        (b'{"text": "a", "text": "b"}', 400, "same key twice"),
        (b'{"min_labels": ' + b"9" * 5000 + b"}", 400, "no JSON"),
        (b"[" * 100_000, 400, "nested"),
        (b"null", 422, "JSON object"),
        (b'{"text": "\\ud800"}', 422, "surrogate"),
        (b'{"\\ud800": 1}', 422, "valid string"),
    ],
)
def test_what_is_no_request_is_refused(client: TestClient, body: bytes, status: int, part: str) -> None:
    response = client.post("/v1/predict", content=body, headers={"content-type": "application/json"})
    refused(response, status, part)


@pytest.mark.parametrize("headers", [{}, {"content-type": "text/plain"}, {"content-type": "application/x-www-form"}])
def test_what_is_not_called_json_is_415(client: TestClient, headers: dict[str, str]) -> None:
    """A browser sends text/plain across sites without asking first."""
    refused(
        client.post("/v1/predict", content=b'{"text": "a"}', headers=headers), 415, "Content-Type: application/json"
    )
    right = {"content-type": "Application/JSON; charset=utf-8"}
    assert client.post("/v1/predict", content=b'{"text": "a"}', headers=right).status_code == 200


def test_refusals_never_quote_the_text(client: TestClient) -> None:
    response = client.post("/v1/predict", json={"texts": ["a secret", {"b": "another secret"}], "min_labels": "secret"})
    assert "secret" not in json.dumps(refused(response, 422))


def test_other_addresses_and_methods(client: TestClient) -> None:
    refused(client.get("/v2/predict"), 404)
    refused(client.get("/v1/predict"), 405)


def test_a_body_is_too_large_by_its_header_or_when_it_comes(predictor: Predictor) -> None:
    body = json.dumps({"text": "a" * 1000}).encode()
    kind = {"content-type": "application/json"}
    with opened(predictor, body_bytes=500) as client:
        refused(client.post("/v1/predict", content=body, headers=kind), 413, "500 bytes")
        parts = (body[place : place + 100] for place in range(0, len(body), 100))  # sent without a length
        refused(client.post("/v1/predict", content=parts, headers=kind), 413, "500 bytes")
    with opened(predictor, body_bytes=len(body)) as client:
        assert client.post("/v1/predict", content=body, headers=kind).status_code == 200


def test_a_body_that_does_not_arrive_is_408(predictor: Predictor) -> None:
    app = create_app(predictor, "fish", ServiceLimits(seconds=0.05))
    head = [(b"host", b"localhost"), (b"content-length", b"9")]
    scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": head, "query_string": b""}
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if not sent:
            sent.append("began")
            return {"type": "http.request", "body": b"{", "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert sent[1]["status"] == 408
    assert json.loads(sent[2]["body"])["type"] == "/docs#slow-request"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The model answers nothing until the gate is opened."""
    gate = threading.Event()
    true_work: Callable[..., Any] = service.predict_texts

    def waiting(*arguments: Any) -> Any:
        gate.wait(30)
        return true_work(*arguments)

    monkeypatch.setattr(service, "predict_texts", waiting)
    yield gate
    gate.set()


def test_a_full_queue_is_429_and_those_who_wait_are_answered(predictor: Predictor, gate: threading.Event) -> None:
    with opened(predictor, queue=2, batch_texts=1, batch_seconds=0.0) as client, ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(client.post, "/v1/predict", json={"text": "red"}) for _ in range(12)]
        while sum(one.done() for one in asked) < 9:  # one is at the model, two wait
            time.sleep(0.01)
        gate.set()
        answers = [one.result() for one in asked]
    answered = sum(answer.status_code == 200 for answer in answers)
    assert answered in (2, 3)  # two, where all came before the model's thread took the first
    assert sum(answer.status_code == 429 for answer in answers) == 12 - answered
    busy = next(answer for answer in answers if answer.status_code == 429)
    refused(busy, 429, "2 requests are already waiting")
    assert busy.headers["retry-after"] == "1"


def test_an_answer_that_takes_too_long_is_504(predictor: Predictor, gate: threading.Event) -> None:
    with opened(predictor, seconds=0.1) as client:
        refused(client.post("/v1/predict", json={"text": "red"}), 504, "0.1 seconds")
        gate.set()


def test_a_service_that_stops_says_503(predictor: Predictor) -> None:
    with opened(predictor) as client:
        assert client.get("/readyz").json() == {"status": "ok"}
        client.app.state.batcher.stopping = True  # type: ignore[attr-defined]
        refused(client.post("/v1/predict", json={"text": "red"}), 503)
        refused(client.get("/readyz"), 503)
        assert client.get("/healthz").json() == {"status": "ok"}


def test_an_error_nobody_foresaw_is_500_and_does_not_quote_the_text(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: Any) -> None:
        raise RuntimeError(f"cannot read {arguments}")

    monkeypatch.setattr(service, "predict_texts", broken)
    with opened(predictor) as client, caplog.at_level(logging.INFO, "orderfree.serve"):
        problem = refused(client.post("/v1/predict", json={"text": "a secret"}), 500)
        assert client.get("/healthz").status_code == 200
    assert "secret" not in json.dumps(problem)
    line = next(json.loads(JsonLines().format(record)) for record in caplog.records)
    assert line["error"] == "RuntimeError"
    assert line["request_id"] == problem["request_id"]
    assert "secret" not in json.dumps(line)


def test_collections_of_garbage_leave_out_what_was_loaded(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would go through all libraries, several times while a large request is read."""
    left_out: list[int] = []
    monkeypatch.setattr(server, "log_as_json", lambda: None)
    monkeypatch.setattr(server.signal, "signal", lambda *_: None)
    monkeypatch.setattr(server._Server, "run", lambda *_, **__: left_out.append(gc.get_freeze_count()))
    limits = ServiceLimits()
    with server.listen("127.0.0.1", 0, None) as listener:
        server.run_server(create_app(predictor, "fish", limits), listener, limits)
    gc.unfreeze()
    assert left_out[0] > 10_000
