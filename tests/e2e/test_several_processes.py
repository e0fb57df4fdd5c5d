"""Training shared by two processes, as torchrun starts them: the same model as one process trains, and kills."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from e2e_support import TINY, TINY_SPARSE, Cli, Toy, environment, sets
from safetensors.torch import load_file

from orderfree.errors import OrderfreeError
from orderfree.system.files import locked
from orderfree.training.distributed.processes import Team
from tiny_bert import tiny_encoder

PATIENCE = 400  # seconds, on a machine that has much else to do
NOTHING_DRAWN = ["objective.sequence=mle", "objective.normalise=step", "model.dropout=0"]
EXACT = [*TINY_SPARSE, *NOTHING_DRAWN]
SAMPLED = [*TINY_SPARSE, "training.epochs=4", "training.save_minutes=0", "model.br_batch_norm=true"]


def start_two(toy: Toy, out: Path, *options: str, **variables: str) -> subprocess.Popen[str]:
    # standalone: on a free port
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    command = [*launcher, "-m", "orderfree", "train", str(toy.train), "--valid", str(toy.valid), "--out", str(out)]
    return subprocess.Popen(
        [*command, *options], env=environment() | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, out, err


def scores_of(out: Path) -> dict[str, Any]:
    return json.loads((out / "metrics.json").read_text(encoding="utf-8"))["validation"]


def assert_same_weights(one: Path, two: Path) -> None:
    first, second = (load_file(run / "model.safetensors") for run in (one, two))
    assert list(first) == list(second)
    for name, weights in first.items():
        assert second[name].numpy() == pytest.approx(weights.numpy(), abs=1e-5), name


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [1, 2, 5, 15, 16, 64])
def test_shares_of_a_batch_hold_every_row_and_add_up(rows: int, size: int) -> None:
    """Each row counts 1 / rows in the mean of the batch, by whichever processes it is taken."""
    counted = np.zeros(rows)
    for rank in range(size):
        own, share = Team(rank, size).share_of(np.arange(rows))
        assert len(own) >= min(2, rows)
        counted[own] += share / len(own)
    assert counted == pytest.approx(np.full(rows, 1 / rows))


def test_two_processes_train_the_model_of_one(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    cli("train", toy.train, "--valid", toy.valid, "--out", tmp_path / "one", *sets(EXACT)).worked()
    code, out, err = ended(start_two(toy, tmp_path / "two", "--json", *sets(EXACT)))
    assert code == 0, err
    assert len(out.splitlines()) == 1  # one process speaks
    assert_same_weights(tmp_path / "one", tmp_path / "two")
    first, second = scores_of(tmp_path / "one"), scores_of(tmp_path / "two")
    for decoder, scores in first.items():
        assert second[decoder] == pytest.approx(scores, abs=1e-6), decoder
    history = (tmp_path / "two" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["update"] for line in history] == [7, 14]


def test_a_killed_process_ends_the_run_and_it_goes_on_with_one_or_two(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    """Sequences are sampled here, so each process unrolls another number of steps."""
    out, copy = tmp_path / "run", tmp_path / "copy"
    launcher = start_two(toy, out, *sets(SAMPLED))
    kill_second(launcher, out)
    code, _, err = ended(launcher)
    assert code not in (0, None)
    assert "orderfree: another process of this run has ended" in err or "Signal 9 (SIGKILL)" in err
    with locked(out):  # nobody holds it
        states = sorted(path.name for path in (out / "training").glob("state-*"))
    assert states
    shutil.copytree(out, copy)
    cli("train", toy.train, "--valid", toy.valid, "--out", copy, "--resume").worked()
    code, _, err = ended(start_two(toy, out, "--resume"))
    assert code == 0, err
    for finished in (out, copy):
        updates = [json.loads(line)["update"] for line in (finished / "history.jsonl").read_text().splitlines()]
        assert updates == [7, 14, 21, 28]
        assert not (finished / "training").exists()
        assert scores_of(finished)["joint"]["micro_f1"] > 0


def kill_second(launcher: subprocess.Popen[str], out: Path) -> None:
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends and launcher.poll() is None:
        if list((out / "training").glob("state-*")):
            workers = psutil.Process(launcher.pid).children(recursive=True)
            second = [worker.pid for worker in workers if worker.environ().get("RANK") == "1"]
            os.kill(second[0], signal.SIGKILL)
            return
        time.sleep(0.01)
    raise AssertionError(f"no state was saved: {ended(launcher)}")


@pytest.mark.parametrize("command", ["reproduce", "tune", "predict", "demo"])
def test_other_commands_are_for_one_process(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    words = {"reproduce": ["reuters"], "tune": ["x.jsonl"], "predict": ["runs/x", "x.jsonl"], "demo": []}[command]
    words += ["--out", tmp_path / "out"] if command in ("tune", "demo") else []
    cli(command, *words).refused(f"`{command}` runs in one process")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("arguments", "code"), [(["config"], 0), (["inspect", "nowhere"], 2)])
def test_a_process_of_several_ends_without_taking_its_interpreter_down(arguments: list[str], code: int) -> None:
    """Which threads of gloo may not survive; what was said has been said, and the exit code is that of any process."""
    alone = [sys.executable, "-m", "orderfree", *arguments]
    joined = f"""
import atexit, torch.distributed as dist
from orderfree.cli.main import run
atexit.register(print, "taken down")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
run({arguments!r})
"""
    ends = [
        subprocess.run(command, env=environment(), capture_output=True, text=True)
        for command in (alone, [sys.executable, "-c", joined])
    ]
    assert [end.returncode for end in ends] == [code, code]
    assert ends[0].stdout == ends[1].stdout
    assert "orderfree: nowhere" in ends[1].stderr or code == 0


def test_deepspeed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with pytest.raises(OrderfreeError, match=r"asks for DeepSpeed; choose FSDP, .* multi-GPU\.$"):
        Team.join()


def fine_tuned(tmp_path: Path) -> list[str]:
    """A transformer, of which nothing is drawn at random in training."""
    encoder = tiny_encoder(tmp_path / "tiny")
    without = json.loads((encoder / "config.json").read_text()) | {
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    (encoder / "config.json").write_text(json.dumps(without))
    return [*TINY, *NOTHING_DRAWN, "model.encoder=transformer", f"model.encoder_options.pretrained={encoder}"]


def test_two_processes_that_share_out_the_encoder_train_the_model_of_one(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    settings = [*fine_tuned(tmp_path), "training.clip_norm=0.05"]  # so that the norm of all parts is needed
    cli("train", toy.train, "--valid", toy.valid, "--out", tmp_path / "one", *sets(settings)).worked()
    started = start_two(toy, tmp_path / "two", *sets(settings), ACCELERATE_USE_FSDP="true")
    code, _, err = ended(started)
    assert code == 0, err
    assert_same_weights(tmp_path / "one", tmp_path / "two")
    first, second = scores_of(tmp_path / "one"), scores_of(tmp_path / "two")
    for decoder, scores in first.items():
        assert second[decoder] == pytest.approx(scores, abs=1e-6), decoder
    total, held = re.search(r"the ([\d,]+) parameters of the encoder .* this one holds ([\d,]+)", err).groups()  # type: ignore
    assert int(held.replace(",", "")) < 0.51 * int(total.replace(",", ""))


def test_a_shared_out_encoder_goes_on_whole_and_again_shared_out(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    """Saved by two processes that hold parts, gone on with by one that holds all, and by two again: same end."""
    settings = sets([*fine_tuned(tmp_path), "training.save_minutes=0", "training.epochs=3"])
    out, copy = tmp_path / "run", tmp_path / "copy"
    launcher = start_two(toy, out, *settings, ACCELERATE_USE_FSDP="true")
    kill_second(launcher, out)
    assert ended(launcher)[0] not in (0, None)
    shutil.copytree(out, copy)
    cli("train", toy.train, "--valid", toy.valid, "--out", copy, "--resume").worked()
    code, _, err = ended(start_two(toy, out, "--resume", ACCELERATE_USE_FSDP="true"))
    assert code == 0, err
    assert_same_weights(copy, out)
