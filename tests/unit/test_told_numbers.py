"""What is only shown of a model, its history and scores, is numbers that can be printed and drawn, or is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fuzz_models import seal

from orderfree.checkpoint import save_model
from orderfree.errors import OrderfreeError
from orderfree.inference import Predictor
from orderfree.report.page import learning_curves
from orderfree.training.listeners import read_history
from unit_models import made_model

ROW = {"update": 3, "epoch": 1, "loss": 2.5, "validation": {"joint": {"micro_f1": 0.5}}, "best": True}
STRANGE: list[Any] = [
    {"loss": "much"},
    {"loss": [1]},
    {"loss_br": {}},
    {"loss": 10**400},
    {"loss": float("nan")},
    {"update": "3"},
    {"update": True},
    {"update": 10**400},
    {"validation": []},
    {"validation": {"joint": 5}},
    {"validation": {"joint": {"micro_f1": "0.5"}}},
    {"validation": {"joint": {"micro_f1": float("inf")}}},
]


@pytest.mark.parametrize("change", STRANGE, ids=str)
def test_a_line_of_a_history_with_other_types_is_left_out(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps({**ROW, **change})}\n[1]\n5\n", encoding="utf-8")
    history = read_history(path)
    assert history == [ROW]
    nothing_to_judge = {**ROW, "update": 9, "validation": {"joint": {"micro_f1": float("nan")}}}
    assert learning_curves([*history, {**ROW, "update": 6}, nothing_to_judge], ["joint"], "micro_f1")


@pytest.mark.parametrize(
    "metrics",
    [
        {"validation": []},
        {"validation": {"joint": []}},
        {"validation": {"joint": {"micro_f1": "0.5"}}},
        {"validation": {"joint": {"micro_f1": 10**400}}},
        {"validation": {"surprise": {}}},
        {"update": "1"},
        {"updates": []},
        {"default": {"decoder": "joint", "search": "joint", "scores": {"micro_f1": []}}},
        {"default": {"decoder": ["joint"], "search": "joint", "scores": {"micro_f1": 0.5}}},
        {"default": {"decoder": "\x1b[2J", "search": "joint", "scores": {"micro_f1": 0.5}}},
    ],
    ids=str,
)
def test_scores_of_other_types_are_refused(tmp_path: Path, metrics: Any) -> None:
    save_model(made_model(1), tmp_path / "model", "# a card\n")
    (tmp_path / "model" / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    seal(tmp_path / "model")
    with pytest.raises(OrderfreeError, match="is damaged"):
        Predictor.load(tmp_path / "model")
