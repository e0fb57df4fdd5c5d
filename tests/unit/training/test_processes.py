"""What processes that train one model tell one another, without starting any."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from torch import nn

from orderfree.build import complete_config
from orderfree.errors import OrderfreeError
from orderfree.training.distributed.processes import Team
from orderfree.training.loop import Stop, Trainer
from orderfree.training.prepare import fingerprints
from orderfree.training.run import train


class Joined(Team):
    """One of two processes; the other one wishes nothing."""

    def wait(self) -> None:
        pass

    def add_gradients(self, parameters: Iterable[nn.Parameter], others: list[float]) -> list[float]:
        return others


def test_a_signal_that_comes_while_gradients_are_added_is_obeyed_one_update_later() -> None:
    trainer = Trainer.__new__(Trainer)

    class Signalled(Joined):
        def add_gradients(self, parameters: Iterable[nn.Parameter], others: list[float]) -> list[float]:
            trainer.stop.requested = True
            return others

    trainer.stop, trainer.network, trainer.team = Stop(), nn.Linear(1, 1), Signalled(1, 2)  # type: ignore[assignment]
    assert trainer.add_up({"loss": 1.0}) == {"loss": 1.0}
    assert not trainer.ending.requested  # the other process does not know of it
    trainer.team = Joined(1, 2)
    trainer.add_up({"loss": 1.0})
    assert trainer.ending.requested


@pytest.mark.parametrize("size", ["2", "two"])
def test_a_number_of_processes_that_nobody_started(monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    monkeypatch.setenv("WORLD_SIZE", size)
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(OrderfreeError, match=f"WORLD_SIZE is '{size}' in the environment.* torchrun, or unset it"):
        Team.join()


def test_other_data_or_another_directory_on_another_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Team, "join", classmethod(lambda cls: Joined(1, 2)))
    config, data = complete_config({}, "the test"), tmp_path / "train.jsonl"
    data.write_text('{"text": "red", "labels": ["a"]}\n', encoding="utf-8")
    with pytest.raises(OrderfreeError, match="holds no run of the first process"):
        train(config, data, None, tmp_path / "run")
    record = {"config": config.model_dump(), "data": fingerprints(config, data, None), "threads": 1}
    (tmp_path / "run" / "training").mkdir(parents=True)
    (tmp_path / "run" / "training" / "run.json").write_text(json.dumps(record), encoding="utf-8")
    data.write_text('{"text": "blue", "labels": ["a"]}\n', encoding="utf-8")
    with pytest.raises(OrderfreeError, match="the train data is not what this run was started with"):
        train(config, data, None, tmp_path / "run")
