"""What a machine can do to a run: two processes at once, rotten disks, files that change, memory that does not suffice.
The run says what happened and ends as if nothing had, or it stops in one sentence with its last good state."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from e2e_support import TINY, TINY_SPARSE, Cli, Toy, environment, files_below, sets

from orderfree.system.files import locked
from orderfree.training.loop import Trainer

SPARSE = sets([*TINY_SPARSE, "training.save_minutes=0"])
LINEAR = sets([*TINY, "model.encoder=linear", "training.save_minutes=0", "training.max_updates=3"])
NEWEST, BEFORE, SOLVED = "state-000000014", "state-000000013", "data/solved"


def contents(directory: Path) -> dict[str, bytes]:
    """Every byte of a run, but for the seconds in its history."""
    return {name: (directory / name).read_bytes() for name in files_below(directory) if name != "history.jsonl"}


def trained(cli: Cli, toy: Toy, out: Path, settings: list[str]) -> Path:
    cli("train", toy.train, "--valid", toy.valid, "--out", out, *settings).worked()
    return out


def unfinished(cli: Cli, toy: Toy, out: Path, settings: list[str]) -> Path:
    """A run that was killed when only its model directory was left to write."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("orderfree.training.run.finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        cli("train", toy.train, "--valid", toy.valid, "--out", out, *settings).refused("interrupted", code=130)
    return out


@pytest.fixture(scope="module")
def straight() -> dict[str, dict[str, bytes]]:
    """Bytes of undisturbed runs, by encoder; each is made when it is first asked for."""
    return {}


Undisturbed = Callable[[list[str]], dict[str, bytes]]


@pytest.fixture
def undisturbed(cli: Cli, toy: Toy, tmp_path: Path, straight: dict[str, dict[str, bytes]]) -> Undisturbed:
    def bytes_of(settings: list[str]) -> dict[str, bytes]:
        key = " ".join(settings)
        if key not in straight:
            straight[key] = contents(trained(cli, toy, tmp_path / "straight", settings))
        return straight[key]

    return bytes_of


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 64  # in the values of a tensor, where a format without checksums notices nothing
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_two_processes_in_one_directory(cli: Cli, toy: Toy, own_model: Path) -> None:
    before = contents(own_model)
    with locked(own_model):
        for more in ([], ["--overwrite"], ["--resume"]):
            ended = cli("train", toy.train, "--out", own_model, *SPARSE, *more)
            ended.refused(own_model, f"process {os.getpid()} on", "is working here", "choose another place")
    assert contents(own_model) == before


KILLED = """
import os, sys
from pathlib import Path
from orderfree.system.files import locked
with locked(Path(sys.argv[1])):
    os.kill(os.getpid(), 9)
"""


def test_the_lock_of_a_dead_process_holds_nobody_up(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    died = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=environment())
    assert died.returncode == -signal.SIGKILL
    assert files_below(tmp_path) == [".lock"]
    trained(cli, toy, tmp_path, SPARSE)
    assert ".lock" not in files_below(tmp_path)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [("weights.safetensors", flip), ("optimizer.safetensors", cut), ("random.safetensors", Path.unlink)],
)
def test_a_damaged_state_is_said_and_the_one_before_it_taken(
    cli: Cli, toy: Toy, tmp_path: Path, undisturbed: Undisturbed, name: str, spoil: Callable[[Path], None]
) -> None:
    expected = undisturbed(SPARSE)
    out = unfinished(cli, toy, tmp_path / "run", SPARSE)
    assert sorted(path.name for path in (out / "training").glob("state-*")) == [BEFORE, NEWEST]
    spoil(out / "training" / NEWEST / name)
    ended = cli("train", toy.train, "--valid", toy.valid, "--out", out, "--resume").worked()
    assert f"{NEWEST}: is damaged ({name}); continuing from {BEFORE} instead" in ended.err
    assert contents(out) == expected


def test_no_good_state_is_left(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    out = unfinished(cli, toy, tmp_path / "run", SPARSE)
    for state in (NEWEST, BEFORE):
        flip(out / "training" / state / "weights.safetensors")
    ended = cli("train", toy.train, "--valid", toy.valid, "--out", out, "--resume")
    ended.refused(out / "training" / NEWEST, "is damaged (weights.safetensors)", "no other", "--overwrite")
    assert sorted(path.name for path in (out / "training").glob("state-*")) == [BEFORE, NEWEST]


def test_damaged_caches_are_made_again(cli: Cli, toy: Toy, tmp_path: Path, undisturbed: Undisturbed) -> None:
    expected = undisturbed(LINEAR)
    out = unfinished(cli, toy, tmp_path / "run", LINEAR)
    for name in ("train.arrow", "valid.arrow"):
        (out / "training" / "data" / name).write_bytes(b"ARROW1 and then nothing of the kind")
    flip(out / "training" / SOLVED / "linear.safetensors")
    ended = cli("train", toy.train, "--valid", toy.valid, "--out", out, "--resume").worked()
    assert f"{SOLVED}: is damaged; fitting again" in ended.err
    assert contents(out) == expected


def test_data_that_changes_while_it_is_read(
    cli: Cli, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orderfree.training import prepare, run

    data = Path(shutil.copy(toy.train, tmp_path / "data.jsonl"))

    def append() -> None:
        data.write_bytes(data.read_bytes() + toy.train.read_bytes())

    def changed_after(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            found = original(*arguments)
            append()
            return found

        return wrapped

    for module, name, reason in ((prepare, "_split", "has changed"), (run, "prepare", "was changed")):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, changed_after(getattr(module, name)))
            cli("train", data, "--out", tmp_path / "run", *SPARSE).refused(data, reason, "while it was read")
    assert files_below(tmp_path) == ["data.jsonl"]


def test_an_input_that_vanishes_after_it_was_read_is_not_missed(
    cli: Cli, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Path(shutil.copy(toy.train, tmp_path / "data.jsonl"))
    step = Trainer.train_step

    def removing(self: Trainer, rows: Any) -> float:
        data.unlink(missing_ok=True)
        return step(self, rows)

    monkeypatch.setattr(Trainer, "train_step", removing)
    cli("train", data, "--out", tmp_path / "run", *SPARSE).worked()
    assert not data.exists()


def forgetful(most: int) -> Callable[..., Any]:
    """Losses on a machine whose memory holds no more examples than this."""
    losses = Trainer.losses

    def limited(self: Trainer, batch: Any) -> Any:
        if len(batch.targets) > most:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: 1 bytes")
        return losses(self, batch)

    return limited


def test_a_batch_that_does_not_fit_is_computed_in_pieces(
    cli: Cli, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without sampling and dropout the update is the same: so are the weights, but for rounding."""
    exact = sets([*TINY_SPARSE, "objective.sequence=null", "model.dropout=0", "training.save_minutes=0"])
    whole = trained(cli, toy, tmp_path / "whole", exact)
    monkeypatch.setattr(Trainer, "losses", forgetful(8))
    ended = cli("train", toy.train, "--valid", toy.valid, "--out", tmp_path / "pieces", *exact).worked()
    said = [line for line in ended.err.splitlines() if "not enough memory" in line]
    assert [line[-8:] for line in said] == ["2 pieces", "4 pieces"]
    from safetensors.torch import load_file

    expected, found = (load_file(run / "model.safetensors") for run in (whole, tmp_path / "pieces"))
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values, atol=2e-4, rtol=1e-3)


def test_pieces_are_resumed_exactly(cli: Cli, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "losses", forgetful(8))
    straight = trained(cli, toy, tmp_path / "straight", SPARSE)
    out = unfinished(cli, toy, tmp_path / "run", SPARSE)
    flip(out / "training" / NEWEST / "weights.safetensors")  # so that an update is left to make
    ended = cli("train", toy.train, "--valid", toy.valid, "--out", out, "--resume").worked()
    assert "not enough memory" not in ended.err, "it is known already"
    assert contents(out) == contents(straight)


def test_no_memory_for_two_examples(cli: Cli, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "losses", forgetful(1))
    ended = cli("train", toy.train, "--out", tmp_path / "run", *SPARSE)
    ended.refused("not enough memory for", "update 1", "training.batch_size", "--overwrite", code=1)
