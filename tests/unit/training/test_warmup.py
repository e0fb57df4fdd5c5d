"""An objective that warms up with another one: weights are kept and patience is counted from its own phase only."""

from __future__ import annotations

from pathlib import Path

import pytest

from orderfree.build import complete_config
from orderfree.testing.toy import toy_corpus
from orderfree.training import loop
from orderfree.training.run import train
from orderfree.training.validation import Validation

TOY = toy_corpus(1, 60, 10, 10)


def test_weights_from_before_the_policy_gradient_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])  # the first is the best of all

    def falling(*_: object) -> Validation:
        return Validation({"beam": {"micro_f1": next(scores), "subset_accuracy": 0.0}}, None)

    monkeypatch.setattr(loop, "validate", falling)
    raw = {
        "model": {"encoder": "sparse", "encoder_options": {"hidden": 4}, "label_embedding": 4, "decoder_hidden": 4},
        "objective": {"sequence": "self_critical", "sequence_options": {"warmup": 0.5}, "br_weight": 0.0},
        "training": {"epochs": 8, "batch_size": 60, "patience": 2, "tensorboard": False, "threads": 1},
    }
    trained = train(complete_config(raw, "the test"), TOY.train, TOY.valid, tmp_path / "run", progress=False)
    assert trained.metrics["update"] == 5  # the first validation after four updates of warm-up
    assert trained.metrics["updates"] == 7  # two worse ones later
