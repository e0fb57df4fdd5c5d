"""Training that cannot start or cannot go on: what is said, and that what was there before is still there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from e2e_support import TINY_SPARSE, Cli, Toy, files_below, sets

SETTINGS = sets(TINY_SPARSE)


def contents(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in files_below(directory) if (directory / name).is_file()}


@pytest.fixture
def unfinished(cli: Cli, toy: Toy, tmp_path: Path) -> Path:
    """A run that diverged after some good updates, with every update saved."""
    out = tmp_path / "unfinished"
    settings = sets([*TINY_SPARSE, "training.save_minutes=0", "training.learning_rate=1e37"])
    cli("train", toy.train, "--out", out, *settings).refused("the loss became", code=1)
    return out


def test_a_run_is_never_replaced_unasked(cli: Cli, toy: Toy, own_model: Path) -> None:
    before = contents(own_model)
    message = cli("train", toy.train, "--out", own_model, *SETTINGS).refused(own_model, "already holds a run")
    assert "--overwrite" in message
    message = cli("train", toy.train, "--out", own_model, "--resume").refused(own_model, "this run is finished")
    assert "--overwrite" in message
    cli("train", toy.train, "--out", own_model, "--resume", "--overwrite").refused("--resume", "--overwrite", "one of")
    assert contents(own_model) == before


def test_overwriting_with_bad_data_keeps_the_old_run(cli: Cli, toy: Toy, own_model: Path, tmp_path: Path) -> None:
    before = contents(own_model)
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join([*toy.lines(), "oops"]), encoding="utf-8")
    cli("train", bad, "--out", own_model, "--overwrite", *SETTINGS).refused(bad, "line 201", "is not JSON")
    assert contents(own_model) == before
    cli("train", toy.train, "--out", own_model, "--overwrite", *SETTINGS, "--set", "seed=5").worked()
    assert sorted(contents(own_model)) == sorted(before)
    assert contents(own_model)["model.safetensors"] != before["model.safetensors"]


def test_an_interrupted_start_leaves_nothing(
    cli: Cli, toy: Toy, own_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    before = contents(own_model)
    monkeypatch.setattr("orderfree.training.run.prepare", interrupted)
    for out, more in ((tmp_path / "new" / "run", []), (own_model, ["--overwrite"])):
        cli("train", toy.train, "--out", out, *SETTINGS, *more).refused("interrupted", code=130)
    assert not (tmp_path / "new").exists()
    assert contents(own_model) == before


def test_an_interrupted_demo_ends(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("orderfree.training.run.prepare", interrupted)
    ended = cli("demo", "--out", tmp_path)
    ended.refused("interrupted", code=130)
    assert "orderfree train" in ended.out
    assert "orderfree evaluate" not in ended.out


def test_other_peoples_files_are_left_alone(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine\n", encoding="utf-8")
    for more in ([], ["--overwrite"]):
        cli("train", toy.train, "--out", tmp_path, *SETTINGS, *more).refused(tmp_path, "README.md", "empty directory")
    assert files_below(tmp_path) == ["README.md"]
    notes = tmp_path / "run" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine\n", encoding="utf-8")
    for more in ([], ["--overwrite"]):
        cli("train", toy.train, "--out", notes.parent, *SETTINGS, *more).worked()
    assert notes.read_text(encoding="utf-8") == "mine\n"


def test_out_is_a_file(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine\n", encoding="utf-8")
    for more in ([], ["--overwrite"], ["--resume"]):
        cli("train", toy.train, "--out", file, *SETTINGS, *more).refused(file, "is a file, expected a directory")
    cli("train", toy.train, "--out", file / "below", *SETTINGS).refused(file / "below", "cannot be written")
    cli("train", toy.train, "--out", tmp_path / ("long" * 100), *SETTINGS).refused("File name too long")
    cli("toy", "--out", file).refused(file, "cannot be written")
    assert files_below(tmp_path) == ["file"]


def test_nothing_to_resume(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    for out in (tmp_path / "nowhere", tmp_path):
        ended = cli("train", toy.train, "--out", out, "--resume")
        ended.refused(out, "no unfinished run to resume", "leave out --resume")
    assert files_below(tmp_path) == []


def test_a_loss_that_is_not_finite(cli: Cli, toy: Toy, unfinished: Path) -> None:
    states = [path.name for path in (unfinished / "training").glob("state-*")]
    assert len(states) == 1
    before = contents(unfinished)
    ended = cli("train", toy.train, "--out", unfinished, "--resume")
    ended.refused("the loss became", "last good state is kept", "training.learning_rate", "--overwrite", code=1)
    assert {k: v for k, v in contents(unfinished).items() if "data/" not in k} == {
        k: v for k, v in before.items() if "data/" not in k
    }
    cli("train", toy.train, "--out", unfinished, "--overwrite", *SETTINGS).worked()
    cli("predict", unfinished, toy.new).worked()


def test_an_unfinished_run(cli: Cli, toy: Toy, unfinished: Path, tmp_path: Path) -> None:
    for arguments in (["inspect", unfinished], ["evaluate", unfinished, toy.test], ["predict", unfinished, toy.new]):
        cli(*arguments).refused(unfinished, "not finished", "--resume")
    ended = cli("train", toy.train, "--out", unfinished, *SETTINGS)
    ended.refused(unfinished, "already holds a run", "--resume", "--overwrite")
    other = tmp_path / "other.jsonl"
    other.write_text("\n".join(toy.lines()[:-1]) + "\n", encoding="utf-8")
    resume = ["--out", unfinished, "--resume"]
    cli("train", other, *resume).refused(unfinished, "train data is not what this run was started with", "same file")
    cli("train", toy.train, "--valid", toy.valid, *resume).refused(unfinished, "valid data is not what this run was")
    cli("train", tmp_path / "gone.jsonl", *resume).refused(tmp_path / "gone.jsonl", "there is no such file")


def test_damaged_states(cli: Cli, toy: Toy, unfinished: Path) -> None:
    record, resume = unfinished / "training" / "run.json", ["--out", unfinished, "--resume"]
    (state,) = (unfinished / "training").glob("state-*")
    for name in ("weights.safetensors", "optimizer.safetensors", "random.safetensors", "progress.json"):
        whole = (state / name).read_bytes()
        (state / name).write_bytes(whole[: len(whole) // 2])
        cli("train", toy.train, *resume).refused(state, "is damaged", "--overwrite")
        (state / name).unlink()
        cli("train", toy.train, *resume).refused(state, "is damaged", "--overwrite")
        (state / name).write_bytes(whole)
    for content in ("{", "{}", "[]", '{"config": {}, "threads": 1}'):
        record.write_text(content, encoding="utf-8")
        cli("train", toy.train, *resume).refused(record, "is damaged", "--overwrite")


def test_resuming_needs_no_settings(cli: Cli, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the file does not tell its format; the run remembers what it was told."""
    data = tmp_path / "data"
    data.write_bytes(toy.train.read_bytes())
    settings = [*SETTINGS, "--format", "jsonl"]
    cli("train", data, "--out", tmp_path / "straight", *settings).worked()
    with monkeypatch.context() as patched:
        patched.setattr("orderfree.training.run.finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        cli("train", data, "--out", tmp_path / "resumed", *settings).refused("interrupted", code=130)
    cli("train", data, "--out", tmp_path / "resumed", "--resume").worked()
    straight, resumed = contents(tmp_path / "straight"), contents(tmp_path / "resumed")
    assert straight.pop("history.jsonl") is not None
    assert resumed.pop("history.jsonl") is not None
    assert straight == resumed


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (["trainign.epochs=3"], ["'trainign'", "Did you mean 'training'"]),
        (["training.epoch=3"], ["'training.epoch'", "Did you mean 'epochs'"]),
        (["training.epochs=0"], ["training.epochs", "greater than 0", "got 0"]),
        (["training.epochs=many"], ["training.epochs", "valid integer", "'many'"]),
        (["training.learning_rate=.nan"], ["training.learning_rate"]),
        (["model.dropout=1"], ["model.dropout", "less than 1"]),
        (["model.encoder=spars"], ["unknown encoder 'spars'", "Did you mean 'sparse'"]),
        (["model.encoder=[1]"], ["unknown encoder '[1]'", "1 problem"]),
        (["model.encoder_options.fold=3"], ["model.encoder_options.fold", "Did you mean 'folds'"]),
        (["objective.sequence=ocdd"], ["unknown objective 'ocdd'", "Did you mean 'ocd'"]),
        (["objective.sequence=null", "objective.br_weight=0"], ["nothing would be trained"]),
        (["decoding.decoder=jointt"], ["decoding.decoder", "'jointt'", "joint"]),
        (["objective.br_weight=0", "decoding.decoder=joint"], ["'joint' is not a decoder of this model"]),
        (["seed=-1"], ["seed", "greater than or equal to 0"]),
        (["seed=99999999999999999999"], ["seed", "less than"]),
        (["training.threads=100000000000"], ["training.threads", "1024"]),
        (["data.format=jsnol"], ["unknown format 'jsnol'", "Did you mean 'jsonl'"]),
        (["data.valid_fraction=1"], ["data.valid_fraction", "less than 1"]),
        (["training"], ["--set 'training'", "expected key=value"]),
        (["=3"], ["--set '=3'", "expected key=value"]),
        (["training.epochs=[1"], ["'training.epochs=[1'", "not YAML"]),
        (["seed.of=1", "seed=2", "seed.of=3"], ["'seed.of=3'", "is a value, not a section"]),
        (
            ["trainign.epochs=3", "model.dropout=2", "model.encoder=spars", "seed=x"],
            ["4 problem(s)", "'trainign'", "model.dropout", "'spars'", "seed"],
        ),
    ],
    ids=lambda value: " ".join(value) if len(value) < 3 else None,
)
def test_bad_settings(cli: Cli, toy: Toy, tmp_path: Path, settings: list[str], parts: list[str]) -> None:
    for more in ([], ["--resume"]):
        if more and "format" in settings[0]:
            continue
        cli("train", toy.train, "--out", tmp_path / "run", *sets(settings), *more).refused(*parts)
    assert files_below(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"training: [1", ["is not YAML"]),
        (b"- 1\n- 2\n", ["expected keys and values", "list"]),
        (b"\xff\xfe", ["cannot be read (not UTF-8)"]),
        (b"training:\n  epochs: x\n  epoch: 2\nmodle: 1\n", ["3 problem(s)", "'modle'", "'epochs'", "training.epochs"]),
        (b"1: 2\n", ["1 problem(s)", "1"]),
        (b"training: 5\n", ["training"]),
        (None, ["cannot be read (No such file"]),
    ],
)
def test_bad_config_files(cli: Cli, toy: Toy, tmp_path: Path, content: bytes | None, parts: list[str]) -> None:
    path = tmp_path / "bad.yaml"
    if content is not None:
        path.write_bytes(content)
    cli("train", toy.train, "--out", tmp_path / "run", "--config", path).refused(path, *parts)
    cli("config", "--config", path).refused(path, *parts)
    assert not (tmp_path / "run").exists()


def test_sizes_no_memory_can_hold(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    huge = sets([*TINY_SPARSE, "model.decoder_hidden=1000000000000"])
    cli("train", toy.train, "--out", tmp_path / "run", *huge).refused("not enough memory", "lower", code=1)
    assert files_below(tmp_path) == []


def test_the_record_of_a_run_holds_no_more_than_was_asked_for(unfinished: Path, toy: Toy) -> None:
    record: dict[str, Any] = json.loads((unfinished / "training" / "run.json").read_text(encoding="utf-8"))
    assert set(record) == {"config", "files", "data", "threads", "replaces"}
    assert record["files"] == {"train": str(toy.train), "valid": None}
