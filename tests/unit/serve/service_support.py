"""A service in this process, and what its refusals look like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi.testclient import TestClient

from orderfree.inference import Predictor
from orderfree.serve.app import create_app
from orderfree.serve.schema import ServiceLimits


@contextmanager
def opened(
    predictor: Predictor, token: str | None = None, log_texts: bool = False, **limits: Any
) -> Iterator[TestClient]:
    app = create_app(predictor, "fish", ServiceLimits(**limits), token, log_texts)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def refused(response: Any, status: int, *parts: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert problem["type"].startswith("/docs#")
    assert problem["request_id"] == response.headers["x-request-id"]
    for part in parts:
        assert part in problem["detail"], (part, problem)
    return problem
