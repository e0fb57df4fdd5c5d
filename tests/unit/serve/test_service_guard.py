"""What stands around the questions: token, host, request ids, log, counts; and the pages."""

from __future__ import annotations

import json
import logging

import pytest
from fastapi.testclient import TestClient
from service_support import opened, refused

from orderfree.inference import Predictor
from orderfree.serve.logs import JsonLines

TOKEN = "a-token-of-some-length"


def test_with_a_token_only_those_who_bring_it_are_answered(predictor: Predictor) -> None:
    with opened(predictor, token=TOKEN) as client:
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": TOKEN},
            {"authorization": f"Basic {TOKEN}"},
        ):
            answer = client.get("/v1/model", headers=headers)
            refused(answer, 401)
            assert answer.headers["www-authenticate"] == "Bearer"
        refused(client.post("/v1/predict", json={"text": "a"}), 401)
        refused(client.get("/metrics"), 401)
        refused(client.get("/openapi.json"), 401)
        right = {"authorization": f"Bearer {TOKEN}", "host": "models.example"}
        assert client.post("/v1/predict", json={"text": "a"}, headers=right).status_code == 200
        for path in ("/", "/page.js", "/elements.js", "/table.js", "/page.css", "/docs", "/healthz", "/readyz"):
            assert client.get(path).status_code == 200
            assert "fish" not in client.get(path).text  # nothing of the model


def test_without_a_token_the_service_has_the_names_of_this_machine_only(client: TestClient) -> None:
    refused(client.get("/v1/model", headers={"host": "rebound.example:8000"}), 421, "--token-file")
    for host in ("127.0.0.1.example", "localhost.example:80", "192.0.2.1", ""):
        refused(client.get("/v1/model", headers={"host": host}), 421)
    for host in ("localhost:8000", "LocalHost", "127.0.0.1", "127.0.0.2:80", "[::1]:8000", "[::1]"):
        assert client.get("/v1/model", headers={"host": host}).status_code == 200


def test_request_ids_are_taken_or_made(client: TestClient) -> None:
    assert client.get("/healthz", headers={"x-request-id": "mine-1.2"}).headers["x-request-id"] == "mine-1.2"
    for bad in ("", "a b", "x" * 65, '"quoted"'):
        made = client.get("/healthz", headers={"x-request-id": bad}).headers["x-request-id"]
        assert made != bad
        assert len(made) == 32


@pytest.mark.parametrize("log_texts", [False, True])
def test_the_log_has_the_text_only_if_asked(
    predictor: Predictor, caplog: pytest.LogCaptureFixture, log_texts: bool
) -> None:
    with opened(predictor, log_texts=log_texts) as client, caplog.at_level(logging.INFO, "orderfree.serve"):
        client.post("/v1/predict", json={"texts": ["a secret", "b"]}, headers={"x-request-id": "r1"})
        client.post("/v1/explain", json={"text": "a secret"})
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    first = next(line for line in lines if line["request_id"] == "r1")
    assert (first["method"], first["path"], first["status"], first["texts"]) == ("POST", "/v1/predict", 200, 2)
    assert all(("secret" in json.dumps(line)) == log_texts for line in lines)


def test_metrics_count_requests_texts_and_batches(predictor: Predictor) -> None:
    with opened(predictor) as client:
        client.post("/v1/predict", json={"texts": ["a", "b", "c"]})
        client.post("/v1/predict", json={})
        for path in ("/a", "/b"):
            client.get(path)
        client.request("BREW", "/healthz")
        found = client.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = dict(line.rsplit(" ", 1) for line in found.text.splitlines() if not line.startswith("#"))
    assert float(values['orderfree_requests_total{method="POST",path="/v1/predict",status="200"}']) == 1
    assert float(values['orderfree_requests_total{method="POST",path="/v1/predict",status="422"}']) == 1
    assert float(values['orderfree_requests_total{method="GET",path="other",status="404"}']) == 2
    assert float(values['orderfree_requests_total{method="other",path="/healthz",status="405"}']) == 1
    assert float(values["orderfree_texts_total"]) == 3
    assert float(values["orderfree_batch_texts_count"]) == 1
    assert float(values["orderfree_requests_running"]) == 1  # this one
    assert float(values["orderfree_queue_requests"]) == 0


# ---------------------------------------------------------------- pages


def test_pages_need_nothing_from_elsewhere(client: TestClient) -> None:
    for path in ("/", "/docs", "/page.css", "/page.js", "/elements.js", "/table.js"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        outside = answer.text.replace("http://localhost/v1", "")  # the example of /docs
        assert "http://" not in outside
        assert "https://" not in outside
    script = client.get("/page.js").text
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert unsafe not in script


def test_the_description_has_the_address_it_is_read_at(client: TestClient) -> None:
    for host in ("localhost:8123", "127.0.0.1", "[::1]:80"):
        assert f"curl http://{host}/v1/predict" in client.get("/docs", headers={"host": host}).text


def test_a_host_that_is_no_name_does_not_reach_the_page(predictor: Predictor) -> None:
    with opened(predictor, token=TOKEN) as client:
        assert "curl http://localhost/v1" in client.get("/docs", headers={"host": "'<b>$(reboot)"}).text


def test_the_description_names_every_address_and_problem(client: TestClient) -> None:
    page = client.get("/docs").text
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {"/v1/predict", "/v1/explain", "/v1/model", "/healthz", "/readyz", "/metrics"}
    for path in described["paths"]:
        assert path in page
    for name in ("too-busy", "body-too-large", "too-slow", "stopping", "token-missing"):
        assert f'id="{name}"' in page
    assert "Undefined" not in page
