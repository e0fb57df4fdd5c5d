"""One small model and one service of it for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient
from service_support import opened

from orderfree.inference import Predictor
from unit_models import made_model


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    trained = made_model(1)
    trained.thresholds = {"br": {"micro_f1": 0.4, "macro_f1": [0.1, 0.2, 0.3, 0.4]}}
    trained.decisions = {"micro_f1": "joint", "macro_f1": "br"}
    return Predictor(trained)


@pytest.fixture(scope="module")
def client(predictor: Predictor) -> Iterator[TestClient]:
    with opened(predictor) as client:
        yield client
