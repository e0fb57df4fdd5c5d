"""Requests made to cost much: each gets a short refusal, and nobody else has to wait for it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from service_support import opened, refused

from orderfree.inference import Predictor
from orderfree.serve import app as service
from orderfree.serve.app import create_app
from orderfree.serve.schema import ServiceLimits

BODY = 2_000_000
LONGEST_REFUSAL = 8_000  # bytes
MOST_WAIT = 1.0  # seconds, on a busy machine
HOSTILE: dict[str, Callable[[], bytes]] = {
    "wrong texts": lambda: b'{"texts": [' + b"1," * (BODY // 2 - 20) + b"1]}",
    "unknown fields": lambda: json.dumps({f"f{number}": 1 for number in range(BODY // 14)}).encode(),
    "wrong thresholds": lambda: json.dumps(
        {"text": "a", "thresholds": {f"t{number}": 2 for number in range(BODY // 14)}}
    ).encode(),
    "unknown thresholds": lambda: json.dumps(
        {"text": "a", "decoder": "br", "thresholds": {"long" * (BODY // 5): 0.5}}
    ).encode(),
    "a long decoder": lambda: json.dumps({"text": "a", "decoder": "beam" * (BODY // 5)}).encode(),
    "a long metric": lambda: json.dumps({"text": "a", "optimize_for": "f1" * (BODY // 3)}).encode(),
    "a long field": lambda: json.dumps({"text": "a", "x" * (BODY - 100): 1}).encode(),
    "empty objects": lambda: b'{"texts": [' + b"{}," * (BODY // 3 - 20) + b"1]}",
    "many texts": lambda: b'{"texts": [' + b'"",' * (BODY // 3 - 20) + b'""]}',
}


async def ask(app: Any, body: bytes) -> tuple[int, bytes, float]:
    """Status, answer, and how long the event loop had no time for others."""
    head = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": head, "query_string": b""}
    sent: list[Any] = []
    longest, last = 0.0, time.perf_counter()

    async def others() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    waiting = asyncio.create_task(others())
    await asyncio.sleep(0.02)
    await app(scope, receive, send)
    await asyncio.sleep(0.02)
    waiting.cancel()
    return sent[0]["status"], sent[1]["body"], longest


@pytest.mark.parametrize("kind", list(HOSTILE))
def test_a_hostile_request_costs_nobody_else(predictor: Predictor, kind: str) -> None:
    app = create_app(predictor, "fish", ServiceLimits())
    status, answer, waited = asyncio.run(ask(app, HOSTILE[kind]()))
    assert status == 422, answer
    assert len(answer) < LONGEST_REFUSAL
    assert waited < MOST_WAIT


def test_the_first_few_faults_are_named(client: TestClient) -> None:
    texts = ["a", *[1] * 100, "b"]
    problem = refused(client.post("/v1/predict", json={"texts": texts, "decodr": "br"}), 422, "texts.1: ", "texts.3: ")
    assert len(problem["problems"]) == 5
    thresholds = {"a": 0.5, "b": 2, "c": "x"}
    refused(client.post("/v1/predict", json={"text": "a", "thresholds": thresholds}), 422, "thresholds", "b", "c")


def test_an_answer_has_a_limit(predictor: Predictor) -> None:
    with opened(predictor, probs=8) as client:  # four labels
        assert client.post("/v1/predict", json={"texts": ["a"] * 2, "probs": "all"}).status_code == 200
        refused(client.post("/v1/predict", json={"texts": ["a"] * 3, "probs": "all"}), 422, "12 probabilities")
        assert client.post("/v1/predict", json={"texts": ["a"] * 3}).status_code == 200


def test_large_requests_are_answered_like_small_ones(
    client: TestClient, predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"texts": ["red fish", "two blue fish"] * 3, "probs": "all"}
    small = client.post("/v1/predict", json=body).json()
    monkeypatch.setattr(service, "LARGE_BODY", 1)
    monkeypatch.setattr(service, "LARGE_ANSWER", 1)
    with opened(predictor) as other:
        assert other.post("/v1/predict", json=body).json() == small
        refused(other.post("/v1/predict", content=b"{", headers={"content-type": "application/json"}), 400)
        refused(other.post("/v1/predict", json={}), 422)


def test_a_panic_outside_the_model_is_one_failed_request(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        pass

    def panics(*_: Any) -> None:
        raise Panic

    monkeypatch.setattr(service, "read_request", panics)
    monkeypatch.setattr(service, "LARGE_BODY", 1)
    with opened(predictor) as client:
        refused(client.post("/v1/predict", json={"text": "red"}), 500)
        assert client.get("/readyz").status_code == 200


def test_a_panic_of_the_model_fails_readiness(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        pass

    def panics(*_: Any) -> None:
        raise Panic

    monkeypatch.setattr(service, "predict_texts", panics)
    with opened(predictor) as client:
        refused(client.post("/v1/predict", json={"text": "red"}), 500, "model's thread failed")
        refused(client.get("/readyz"), 503, "model's thread failed")
