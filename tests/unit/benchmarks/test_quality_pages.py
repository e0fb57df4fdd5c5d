"""The pages made of the comparison with other systems and of the ablation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

QUALITY = Path(__file__).parents[3] / "benchmarks" / "quality"
sys.path.insert(0, str(QUALITY))  # its modules are scripts that lie side by side

import ablation  # noqa: E402
import ablation_page  # noqa: E402
import origins  # noqa: E402
from judge import save_sets  # noqa: E402
from layout import METRICS  # noqa: E402


def result(system: str, ours: bool, values: dict[str, float], seed: int = 1) -> dict[str, Any]:
    choice = {"decoder": "br", "threshold": 0.5, "br_power": None} if ours else {"c": 4.0, "threshold": [0.1, 0.2]}
    return {
        "system": system,
        "seed": seed,
        "ours": ours,
        "commit": "0" * 40,
        "command": f"python run.py --systems {system} --seeds {seed} --threads 1",
        "versions": {"torch": "2", "scikit-learn": "1"},
        "choices": {metric: {**choice, **({} if ours else {"tried": [2.0, 4.0, 8.0]})} for metric in METRICS},
        "parts": {"test": {"scores": {metric: values.get(metric, 0.5) for metric in METRICS}}},
    }


FOUND = {
    "svm": [result("svm", False, {"macro_f1": 0.6, "micro_f1": 0.49})],
    "fast": [result("fast", True, {"macro_f1": value}, seed) for seed, value in ((1, 0.57), (2, 0.59))],
}


def test_where_fast_is_behind_is_said() -> None:
    line = origins.standing("reuters", FOUND, "test")
    assert line == (
        "- **reuters**, 1 other system: behind on macro-F1 (.580; svm .600); ahead of all or level on the others."
    )


def test_choices_say_c_and_the_kind_of_threshold() -> None:
    rows = origins.tuning_rows(FOUND)
    assert rows[0] == ["svm ‡", *["C 4, each"] * 5, "2 4 8"]
    assert rows[1] == ["orderfree `fast` ‡", *["br, one"] * 5, ""]
    assert origins.run_rows(FOUND)[1][1:] == ["`python run.py --systems fast --seeds 1 2`", "‡", "torch 2"]


def test_a_paired_test_of_other_predictions_is_not_shown() -> None:
    own, theirs = (origins.mean_scores(FOUND[name], "test") for name in ("fast", "svm"))
    metrics = {metric: {"difference": own[metric] - theirs[metric]} for metric in METRICS}
    test = {"ours": "fast", "theirs": "svm", "part": "test", "seeds": [1, 2], "metrics": metrics}
    assert origins.is_current(test, FOUND)
    assert not origins.is_current({**test, "seeds": [1]}, FOUND)
    assert not origins.is_current({**test, "seeds": [1, 2, 3]}, FOUND)
    assert not origins.is_current(test, {"fast": FOUND["fast"]})
    assert not origins.is_current(test, {**FOUND, "svm": [result("svm", False, {"macro_f1": 0.55})]})


def seed_of(differences: float, low: float, high: float) -> dict[str, Any]:
    test = {metric: {"difference": differences, "interval": [low, high]} for metric in METRICS}
    return {"rows": {"neighbours": {"less": {ablation.FULL: test}}}}


def test_one_fold_keeps_its_own_interval() -> None:
    found = ablation_page.difference([seed_of(-0.02, -0.05, 0.0)], "neighbours", ablation.FULL, "micro_f1")
    assert found == (-0.02, -0.05, 0.0)
    assert ablation_page.difference([{"rows": {}}], "neighbours", ablation.FULL, "micro_f1") is None


def test_folds_that_agree_narrow_the_interval_and_folds_that_do_not_widen_it() -> None:
    agreeing = [seed_of(-0.02, -0.04, 0.0)] * 4
    mean, low, high = ablation_page.difference(agreeing, "neighbours", ablation.FULL, "micro_f1") or (0, 0, 0)
    assert (mean, low, high) == pytest.approx((-0.02, -0.03, -0.01))
    differing = [seed_of(-0.08, -0.1, -0.06), seed_of(0.04, 0.02, 0.06)]
    mean, low, high = ablation_page.difference(differing, "neighbours", ablation.FULL, "micro_f1") or (0, 0, 0)
    assert mean == pytest.approx(-0.02)
    assert high - mean == pytest.approx(12.706 * 0.06, rel=1e-3)  # t with one degree of freedom times the error


def test_gains_are_told_by_the_number_of_true_labels() -> None:
    targets = sparse.csr_array(np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]], dtype=bool))
    right, wrong = targets, sparse.csr_array(np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0]], dtype=bool))
    found = ablation.by_size(targets, dict.fromkeys(METRICS, right), dict.fromkeys(METRICS, wrong))
    assert found["1"] == {"examples": 2, "subset_accuracy": 0.0, "example_f1": 0.0}
    assert found["2"] == {"examples": 1, "subset_accuracy": 1.0, "example_f1": pytest.approx(1 / 3)}
    assert set(found) == {"1", "2"}


def test_the_page_of_the_ablation_has_what_was_measured(tmp_path: Path) -> None:
    targets = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=bool)
    worse = targets.copy()
    worse[2, 1] = False
    said = {ablation.FULL: targets, ablation.BR: worse, "leading words": worse}
    content: dict[str, Any] = {"rows": {}}
    save_sets(tmp_path / "targets.npz", targets)
    for row, sets in said.items():
        content["rows"][row] = {"cpu_seconds": {"fit": 12.0, "predict": 1.0}}
        for metric in METRICS:
            save_sets(ablation.file(tmp_path, row, metric), sets)
    content |= {"seed": 21, "commit": "0" * 40, "examples": {"train": 9, "held_out": 4}}
    seed = ablation.judged(tmp_path, content)
    written = ablation_page.page({"toy": [seed]}, figure=False)
    (without,) = [line for line in written.splitlines() if line.startswith("| – ")]
    assert without.startswith("| – leading words | ")
    assert "−.250 (" in without  # of subset accuracy: one of four examples
    (gain,) = [line for line in written.splitlines() if line.startswith(f"| fast, less {ablation.BR}")]
    assert "+.250 (" in gain
    assert ablation_page.gains([seed])[2]["subset_accuracy"] == 1.0
