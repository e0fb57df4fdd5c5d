"""The benchmark of promises: its arithmetic, and the page that is made from the stored results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "promises"))  # its modules are scripts that lie side by side

from measure import exact_share, judged  # noqa: E402
from page import page  # noqa: E402

from orderfree.promises.sets import list_limit  # noqa: E402


@pytest.mark.parametrize("level", [0.8, 0.9])
def test_the_exact_share_of_test_halves(level: float) -> None:
    calibration, test, splits = 200, 400, 3000
    rng = np.random.default_rng(1)
    reached = 0
    for _ in range(splits):
        scores = rng.permutation(calibration + test) / (calibration + test)
        limit = list_limit(scores[:calibration], level, 0.95)
        assert isinstance(limit, float)
        reached += np.mean(scores[calibration:] <= limit) >= level
    assert reached / splits == pytest.approx(exact_share(calibration, test, level, 0.95), abs=0.02)


def test_what_counts_as_kept() -> None:
    on_average = {"confidence": None, "level": 0.9, "standard_error": 0.001}
    assert judged({**on_average, "mean": 0.899})
    assert not judged({**on_average, "mean": 0.897})
    sure = {"confidence": 0.95, "level": 0.9, "mean": 0.92}
    assert judged({**sure, "population": {"p_value": 0.3}})
    assert not judged({**sure, "population": {"p_value": 0.001}})
    assert judged({"confidence": 0.95, "level": 0.99}) is None


def test_the_page_is_that_of_the_stored_results() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "promises.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "results" / "promises.md").read_text(encoding="utf-8") == page(results)
    assert all(row["kept"] == judged(row) for found in results["corpora"].values() for row in found.get("promises", []))
