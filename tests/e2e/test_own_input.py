"""Commands never destroy what they read, nor what stands where they write; signals leave nothing half done."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from e2e_support import PATIENCE, TINY_SPARSE, Cli, Ended, Toy, call_process, environment, files_below, sets

from orderfree.checkpoint import load_model
from warm_processes import start

SETTINGS = sets(TINY_SPARSE)


@pytest.fixture
def data(toy: Toy, tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_bytes(toy.test.read_bytes())
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "soft.jsonl", "hard.jsonl"])
def test_an_input_is_never_overwritten(cli: Cli, model: Path, data: Path, name: str) -> None:
    before = data.read_bytes()
    (data.parent / "soft.jsonl").symlink_to(data)
    (data.parent / "hard.jsonl").hardlink_to(data)
    out, other = data.parent / name, shutil.copytree(model, data.parent / "other")
    for arguments in (
        ["predict", model, data, "--out", out],
        ["evaluate", model, data, "--report", out],
        ["report", model, "--data", data, "--out", out],
        ["compare", model, other, "--data", data, "--out", out],
        ["audit", data, "--model", model, "--out", out],
        ["audit", data, "--out", out],
        ["convert", data, out],
    ):
        cli(*arguments).refused(out, "is read by this command")
    assert data.read_bytes() == before


@pytest.mark.parametrize("named", [True, False])
def test_an_input_is_never_the_standard_output(model: Path, data: Path, named: bool) -> None:
    """`>> a.jsonl` on a command that reads a.jsonl would read what it writes, without an end."""
    before = data.read_bytes()
    for arguments in (["predict", model], ["convert", "--out-format", "csv", "--format", "jsonl"]):
        with open(data, "rb") as source, open(data, "ab") as out:
            command = [*arguments, data if named else "-", *["-"] * (arguments[0] == "convert")]
            done = run_python(command, stdin=source, stdout=out, stderr=subprocess.PIPE)
        assert done.returncode == 2, done.stderr
        assert b"standard output: is read by this command" in done.stderr
    assert data.read_bytes() == before


def test_a_model_is_never_overwritten_by_its_output(cli: Cli, own_model: Path, toy: Toy) -> None:
    for name in ("config.json", "manifest.json", "history.jsonl"):
        cli("predict", own_model, toy.new, "--out", own_model / name).refused(name, "is read by this command")
    another = shutil.copytree(own_model, own_model.parent / "another")
    for run in (own_model, another):
        out = run / "metrics.json"
        cli("compare", own_model, another, "--data", toy.test, "--out", out).refused(out, "is read by this command")
    for _ in range(2):  # a report beside the model is replaced by the next one
        cli("evaluate", own_model, toy.test, "--report", own_model / "report.html").worked()


def test_a_page_of_results_never_overwrites_one(cli: Cli, tmp_path: Path) -> None:
    result = tmp_path / "results" / "toy" / "ocd" / "seed1.json"
    result.parent.mkdir(parents=True)
    result.write_text("{}", encoding="utf-8")
    cli("report", tmp_path / "results", "--out", result).refused(result, "is read by this command")
    assert result.read_text(encoding="utf-8") == "{}"


def test_files_beside_the_output_are_not_overwritten(cli: Cli, data: Path) -> None:
    labels = data.parent / "label_v"
    labels.write_text("mine\n", encoding="utf-8")
    cli("convert", data, data.parent / "text_v").refused(labels, "already exists")
    outs = ["--out", data.parent / "text_v", "--out", data.parent / "b.jsonl", "--fraction", 0.5, "--fraction", 0.5]
    cli("split", data, *outs).refused(labels, "already exists")
    assert labels.read_text(encoding="utf-8") == "mine\n"


def test_standard_output_by_its_name(process: Cli, model: Path, toy: Toy, tmp_path: Path) -> None:
    before = os.readlink("/dev/stdout")
    expected = process("predict", model, toy.new).worked().out
    command = [sys.executable, "-m", "orderfree", "predict", model, toy.new, "--out", "/dev/stdout"]
    with open(tmp_path / "out", "wb") as out:
        subprocess.run(command, stdout=out, env=environment(), check=True, timeout=PATIENCE)
    assert (tmp_path / "out").read_text(encoding="utf-8") == expected
    assert os.readlink("/dev/stdout") == before


def test_pipes_are_read_once_and_written_to(process: Cli, model: Path, toy: Toy, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.jsonl")
    feeder = threading.Thread(target=lambda: (tmp_path / "in.jsonl").write_bytes(toy.test.read_bytes()), daemon=True)
    feeder.start()
    ended = process("evaluate", model, tmp_path / "in.jsonl", "--json").worked()
    assert json.loads(ended.out)["examples"] == 60
    os.mkfifo(tmp_path / "out.csv")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "out.csv").read_bytes()), daemon=True)
    reader.start()
    process("predict", model, toy.new, "--out", tmp_path / "out.csv").worked()
    reader.join(10)
    assert received[0].count(b"\n") == 4
    assert (tmp_path / "out.csv").is_fifo()


def run_python(arguments: list[Any], **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "orderfree", *map(str, arguments)]
    return subprocess.run(command, timeout=PATIENCE, **{"env": environment(), **options})


def test_a_standard_output_that_is_not_utf_8(model: Path, toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "größe 漢", "text": "x"}\n', encoding="utf-8")
    plain = {**environment(), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = run_python(["predict", model, tmp_path / "a.jsonl"], env=plain, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode("utf-8"))["id"] == "größe 漢"


def as_if_closed(number: int) -> None:
    """As Python leaves a stream that was closed before it started."""
    os.close(number)
    for name in (("stdin", "__stdin__"), ("stdout", "__stdout__"), ("stderr", "__stderr__"))[number]:
        setattr(sys, name, None)


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_standard_stream_that_is_closed(model: Path, toy: Toy, tmp_path: Path, closed: int) -> None:
    def close() -> None:
        os.close(closed)

    out = tmp_path / "out.jsonl"
    others = {name: subprocess.PIPE for number, name in ((1, "stdout"), (2, "stderr")) if number != closed}
    done = run_python(["predict", model, toy.new, "--out", out], preexec_fn=close, **others)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in (done.stderr or b"")
    assert len([json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]) == 3
    closing = functools.partial(as_if_closed, closed)
    if closed == 0:
        call_process("predict", model, "-", prepare=closing).refused("standard input: is closed")
    if closed == 1:
        call_process("predict", model, toy.new, prepare=closing).refused("standard output is closed")
        call_process("inspect", model, prepare=closing).worked()


def test_an_ended_command_leaves_nothing_half_written(model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.jsonl")
    told = tmp_path.parent / f"{tmp_path.name}.told"
    words = ["predict", model, tmp_path / "in.jsonl", "--out", tmp_path / "out"]
    running = start(words, environment(), err=told)
    with open(tmp_path / "in.jsonl", "w", encoding="utf-8") as pipe:
        pipe.write('{"text": "x"}\n')
        pipe.flush()
        until = time.monotonic() + PATIENCE
        while not list(tmp_path.glob(".*.part")) and time.monotonic() < until:
            time.sleep(0.05)
        assert list(tmp_path.glob(".*.part")), "it is writing"
        running.terminate()  # SIGTERM
        running.join(PATIENCE)
    assert running.exitcode == 128 + signal.SIGTERM
    assert "ended by SIGTERM" in told.read_text(encoding="utf-8")
    assert files_below(tmp_path) == ["in.jsonl"]


def test_the_old_model_stays_until_the_new_one_is_whole(
    cli: Cli, toy: Toy, own_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orderfree.training.loop import Trainer

    before = load_model(own_model).provenance
    history = (own_model / "history.jsonl").read_bytes()

    def failing(trainer: Trainer) -> bool:
        load_model(own_model)  # while the other one trains
        raise KeyboardInterrupt

    arguments = ["train", toy.train, "--out", own_model, *SETTINGS, "--set", "seed=5"]
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "fit", failing)
        cli(*arguments, "--overwrite").refused("interrupted", code=130)
    assert load_model(own_model).provenance == before
    assert (own_model / "history.jsonl").read_bytes() == history
    cli("predict", own_model, toy.new).worked()
    cli("train", toy.train, "--out", own_model, "--resume").worked()
    assert load_model(own_model).provenance["seed"] == 5
    assert (own_model / "history.jsonl").read_bytes() != history
    assert not (own_model / "training").exists()
    cli("train", toy.train, "--out", own_model, "--resume").refused("this run is finished")


def test_a_replacement_that_is_interrupted_can_be_resumed(
    cli: Cli, toy: Toy, own_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def failing(path: Path, target: Path) -> Path:
        if path.parent.name == "finished" and path.name == "model.safetensors":
            raise KeyboardInterrupt
        return replace(path, target)

    arguments = ["train", toy.train, "--out", own_model, *SETTINGS, "--set", "seed=5"]
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", failing)
        cli(*arguments, "--overwrite").refused("interrupted", code=130)
    cli("predict", own_model, toy.new).refused("not finished", "--resume")
    cli("train", toy.train, "--out", own_model, "--resume").worked()
    assert load_model(own_model).provenance["seed"] == 5
    assert (own_model / "history.jsonl").exists()


def test_split_leaves_damaged_rows_out_when_asked(cli: Cli, tmp_path: Path) -> None:
    table, parts = tmp_path / "a.csv", ("--out", tmp_path / "b.csv", "--out", tmp_path / "c.csv")
    table.write_text("text,labels\n" + "fish swims,sea\nred wheat,land\n" * 10 + "one,cell,more\n", "utf-8")
    asked = ("split", table, *parts, "--fraction", "0.5", "--fraction", "0.5")
    cli(*asked).refused(table, "line 22", "has 3 cells")
    assert "1 damaged example was left out" in cli(*asked, "--skip-bad").worked().err


def test_what_is_left_out_or_repeated_is_said(cli: Cli, toy: Toy, model: Path, tmp_path: Path) -> None:
    lines = toy.lines()
    messy = tmp_path / "messy.jsonl"
    messy.write_text("\n".join([*lines, lines[0], "oops"]), encoding="utf-8")
    parts = ["--out", tmp_path / "a.jsonl", "--out", tmp_path / "b.jsonl", "--fraction", 0.5, "--fraction", 0.5]
    ended: Ended = cli("split", messy, *parts, "--set", "data.skip_bad=true").worked()
    assert "1 damaged example was left out" in ended.err
    ended = cli("train", messy, "--out", tmp_path / "run", "--skip-bad", *SETTINGS).worked()
    assert "1 example repeats an earlier text of the training file" in ended.err
    assert "1 damaged example was left out" in ended.err
    ended = cli("evaluate", tmp_path / "run", toy.train).worked()
    assert "200 texts also occur in the training file" in ended.err
    shown = json.loads(cli("inspect", tmp_path / "run", "--json").worked().out)["provenance"]["texts"]
    assert shown == {"repeated": 1, "conflicting": 0, "different": 200}


def test_labels_of_which_nothing_is_known(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "null.jsonl"
    path.write_text('{"text": "x", "labels": null}\n' * 5, encoding="utf-8")
    cli("train", path, "--out", tmp_path / "run").refused(path, "5 of 5 examples have unknown labels", "null")
