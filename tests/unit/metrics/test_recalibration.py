"""Probabilities that are too sure are repaired, honest ones are left, and their order stays."""

from __future__ import annotations

import numpy as np
import pytest

from orderfree.metrics.calibration import expected_calibration_error
from orderfree.metrics.recalibration import Repair, find_repair, fitted


def drawn(count: int, power: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Chances and what came true; probabilities whose log-odds are `power` times too large."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(0, 1.5, count)
    return 1 / (1 + np.exp(-power * odds)), rng.random(count) < 1 / (1 + np.exp(-odds))


def test_the_temperature_of_data_that_were_made_with_one() -> None:
    probs, true = drawn(20_000, power=3.0)
    assert fitted("temperature", probs, true).temperature == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize("power", [0.4, 3.0])
def test_a_repair_makes_new_probabilities_honest_and_keeps_their_order(power: float) -> None:
    repair, told = find_repair(*drawn(4000, power))
    assert repair.kind != "none"
    assert told["brier_score"]["after"] < told["brier_score"]["before"]
    probs, true = drawn(20_000, power, seed=2)
    repaired = repair(probs)
    before, after = (expected_calibration_error(one, true) for one in (probs, repaired))
    assert before is not None
    assert after is not None
    assert after < 0.03 < before
    assert (np.diff(repaired[np.argsort(probs)]) >= -1e-12).all()


def test_what_is_bent_otherwise_is_repaired_by_isotonic_regression() -> None:
    rng = np.random.default_rng(1)
    chance = rng.random(6000)
    repair, _ = find_repair(chance**4, rng.random(6000) < chance)
    assert repair.kind == "isotonic"


def test_honest_probabilities_and_few_examples_are_left_alone() -> None:
    assert find_repair(*drawn(4000, power=1.0))[0] == Repair("none")
    assert find_repair(*drawn(40, power=3.0))[0] == Repair("none")
    assert find_repair(np.zeros(0), np.zeros(0, dtype=bool))[0] == Repair("none")


@pytest.mark.parametrize("kind", ["none", "temperature", "isotonic"])
def test_repairs_survive_json(kind: str) -> None:
    repair = fitted(kind, *drawn(500, 2.0))
    again = Repair.from_json(repair.to_json())
    probs = np.linspace(0, 1, 50)
    assert again(probs) == pytest.approx(repair(probs))
    with pytest.raises(ValueError, match="a repair of probabilities"):
        Repair.from_json({**repair.to_json(), "kind": "magic"})
    with pytest.raises(ValueError, match="does not rise"):
        Repair.from_json({"kind": "isotonic", "temperature": 1.0, "points": [[0.2, 0.9], [0.4, 0.1]]})
