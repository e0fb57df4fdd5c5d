"""One small model and one service of it for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient
from service_support import opened

from orderfree.decisions.records import Decision, Decisions
from orderfree.inference import Predictor
from unit_models import made_model


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    trained = made_model(1)
    each = [0.1, 0.2, 0.3, 0.4]
    best = {"micro_f1": Decision("joint"), "macro_f1": Decision("br", each)}
    trained.decisions = Decisions({"br": {"micro_f1": 0.4, "macro_f1": each}}, best)
    return Predictor(trained)


@pytest.fixture(scope="module")
def client(predictor: Predictor) -> Iterator[TestClient]:
    with opened(predictor) as client:
        yield client
