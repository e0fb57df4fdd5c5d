"""A few requests that schemathesis makes up from the service's own document; `make fuzz` tries many more."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("schemathesis")

from fuzz_models import make_models
from fuzz_service import accepted, fuzz


def test_every_made_up_request_gets_a_documented_answer(tmp_path: Path) -> None:
    found = fuzz(make_models(tmp_path)["linear"], examples=8, seed=1, place=tmp_path, heavy=20)
    assert found["code"] == 0, found["printed"]
    assert found["failures"] == found["errors"] == []
    assert found["heavy"]["wrong"] == []
    assert found["heavy"]["requests"] == 20
    assert found["test_cases"]["generated"] > 100
    assert accepted(found) > 5  # not refusals alone
