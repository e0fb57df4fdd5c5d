"""Data nobody can train on or predict for: one sentence that names the place, exit code 2, nothing written."""

from __future__ import annotations

import gzip
import json
import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from e2e_support import TINY, TINY_SPARSE, Cli, Toy, files_below, sets

Write = Callable[[str, "str | bytes"], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes an input file, apart from the place the outputs go to."""

    def make(name: str, content: str | bytes) -> Path:
        path = tmp_path / "input" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "output" / "run"


def rows(count: int, **changes: object) -> str:
    """JSON lines with two labels in turn; `changes` go into the last one."""
    content = [{"text": f"text {i}", "labels": ["one", "two"][i % 2 :]} for i in range(count)]
    content[-1] |= changes
    return "".join(json.dumps(row) + "\n" for row in content)


def without(field: str) -> str:
    lines = rows(20).splitlines()
    row = json.loads(lines[6])
    del row[field]
    return "\n".join([*lines[:6], json.dumps(row), *lines[7:]])


CASES: dict[str, tuple[str, str | bytes, list[str]]] = {
    "not JSON": ("a.jsonl", rows(1233) + "{oops\n" + rows(20), ["line 1,234", "is not JSON", "expected"]),
    "not an object": ("a.jsonl", rows(5) + "[1, 2]\n", ["line 6", "is a list", "expected a JSON object"]),
    "no text": ("a.jsonl", without("text"), ["line 7", "'text' is missing", "data.text_field"]),
    "no labels": ("a.jsonl", without("labels"), ["line 7", "'labels' is missing", "data.labels_field"]),
    "a number as text": ("a.jsonl", rows(5, text=5), ["line 5", "'text' is a number", "expected a string"]),
    "a string as labels": ("a.jsonl", rows(5, labels="one"), ["line 5", "'labels' is a string", "expected a list"]),
    "a number as label": ("a.jsonl", rows(5, labels=["one", 2]), ["line 5", "'labels'", "2", "expected"]),
    "a list as id": ("a.jsonl", rows(5, id=[1]), ["line 5", "the id is [1]", "expected"]),
    "not UTF-8": ("a.jsonl", rows(3).encode() + b'{"text": "\xff"}\n', ["line 4", "is not UTF-8", "0xff", "convert"]),
    "empty": ("a.jsonl", "", ["holds no examples"]),
    "blank lines only": ("a.jsonl", "\n\n\n", ["holds no examples"]),
    "no label at all": ("a.jsonl", '{"text": "a", "labels": []}\n' * 9, ["no example has a label", "expected"]),
    "a single label": ("a.jsonl", '{"text": "a", "labels": ["x"]}\n' * 9, ["every label is 'x'", "at least two"]),
    "a single example": ("a.jsonl", rows(1), ["single example", "expected at least two"]),
    "an empty label": ("a.jsonl", rows(5, labels=["one", " "]), ["line 5", "label '' is empty"]),
    "a control character": ("a.jsonl", rows(5, labels=["o\nne"]), ["line 5", "'o\\nne'", "control character"]),
    "half a character": ("a.jsonl", rows(5, text="\ud800"), ["line 5", "'text'", "half a character"]),
    "an unknown name": ("a.foo", rows(5), ["does not tell its format", "--format", "jsonl"]),
    "a cut gzip file": ("a.jsonl.gz", gzip.compress(rows(500).encode())[:-50], ["gzip file is damaged or cut off"]),
    "no gzip file": ("a.jsonl.gz", rows(5), ["gzip file is damaged"]),
    "CSV without the column": ("a.csv", "txet,labels\na,b\n", ["line 1", "'text' is missing", "Did you mean 'txet'"]),
    "CSV with a short row": ("a.csv", "text,labels\na,b\nc\n", ["line 3", "has 1 cells, expected 2"]),
    "CSV with an open quote": ("a.csv", 'text,labels\n"a,b\nc,d\n', ["line 2", "not well formed"]),
    "not Parquet": ("a.parquet", rows(5), ["is not a readable Parquet file"]),
    "libsvm without numbers": ("a.libsvm", "1 2:x\n", ["line 1", "'2:x' is no feature", "expected number:value"]),
    "libsvm with infinity": ("a.libsvm", "1 2:1\n2 2:inf\n", ["line 2", "NaN or infinity"]),
    "not npz": ("a.npz", rows(5), ["is not a readable .npz archive"]),
    "SGM without labels": ("text_a", "one\n", ["label_a", "there is no such file"]),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_files(cli: Cli, write: Write, toy: Toy, out: Path, case: str) -> None:
    name, content, parts = CASES[case]
    path = write(name, content)
    place = path if name != "text_a" else path.with_name("label_a")
    settings = sets([*TINY, "model.encoder=dense"] if name.endswith(".npz") else TINY_SPARSE)
    cli("train", path, "--out", out, *settings).refused(place, *parts)
    assert not out.parent.exists()
    if not any("example" in part or "label is" in part for part in parts) and name not in ("a.npz", "a.libsvm"):
        cli("train", toy.train, "--valid", path, "--out", out, *settings).refused(place, *parts)
        assert not out.parent.exists()


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "split"])
def test_files_that_are_none(cli: Cli, model: Path, tmp_path: Path, toy: Toy, command: str) -> None:
    def give(path: object, *parts: object) -> None:
        goal, halves = tmp_path / "goal", ["--fraction", 0.5, "--fraction", 0.5]
        arguments = {
            "train": ["train", path, "--out", goal, *sets(TINY_SPARSE)],
            "evaluate": ["evaluate", model, path, "--report", goal / "report.html"],
            "predict": ["predict", model, path, "--out", goal / "x.jsonl"],
            "split": ["split", path, "--out", goal / "a.csv", "--out", goal / "b.csv", *halves],
        }
        cli(*arguments[command]).refused(path, *parts)
        assert not goal.exists()

    give(tmp_path / "nowhere.jsonl", "there is no such file")
    give(tmp_path / "nowhere", "there is no such file")
    if command != "train":  # which takes a folder of texts
        give(tmp_path, "is a directory, expected a file")
    give(tmp_path / ("long" * 100 + ".jsonl"), "cannot be read")
    give(toy.train / "below.jsonl", "")


@pytest.fixture
def shared_place() -> Iterator[Path]:
    """A directory that other users reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def test_unreadable_files(
    cli: Cli, model: Path, shared_place: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    data, goal = shared_place / "data.jsonl", shared_place / "goal"
    data.write_text(rows(20), encoding="utf-8")
    data.chmod(0)
    copied = shared_place / "model"
    copied.mkdir()
    for file in model.iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    (copied / "labels.json").chmod(0)
    open_data = shared_place / "open.jsonl"
    open_data.write_text(rows(20), encoding="utf-8")
    read_only = shared_place / "read-only"
    read_only.mkdir(mode=0o555)
    cli("inspect", model)  # everything is imported before the rights are given up
    request.getfixturevalue("unprivileged")
    cli("train", data, "--out", goal).refused(data, "cannot be read (Permission denied)", "permissions")
    cli("train", open_data, "--valid", data, "--out", goal).refused(data, "cannot be read (Permission denied)")
    cli("inspect", copied).refused(copied / "labels.json", "Permission denied")
    ended = cli("train", open_data, "--out", read_only / "run", *sets(TINY_SPARSE))
    ended.refused(read_only / "run", "cannot be written (Permission denied)", "choose another place")
    ended = cli("train", open_data, "--out", read_only, *sets(TINY_SPARSE))
    ended.refused(read_only, "cannot be written (Permission denied)")
    outs = ["--out", read_only / "a.csv", "--out", read_only / "b.csv"]
    ended = cli("split", open_data, *outs, "--fraction", 0.5, "--fraction", 0.5)
    ended.refused(read_only / "a.csv", "cannot be written (Permission denied)")
    assert files_below(read_only) == []
    assert not goal.exists()


def test_unreadable_input_and_output_of_predictions(
    cli: Cli, model: Path, shared_place: Path, request: pytest.FixtureRequest
) -> None:
    own = shared_place / "model"
    own.mkdir()
    for file in model.iterdir():
        (own / file.name).write_bytes(file.read_bytes())
    secret, data, read_only = shared_place / "secret.jsonl", shared_place / "data.jsonl", shared_place / "read-only"
    for path in (secret, data):
        path.write_text(rows(20), encoding="utf-8")
    secret.chmod(0)
    read_only.mkdir(mode=0o555)
    cli("evaluate", own, data, "--report", shared_place / "first.html").worked()
    request.getfixturevalue("unprivileged")
    cli("predict", own, secret).refused(secret, "cannot be read (Permission denied)")
    cli("predict", own, data, "--out", read_only / "x.csv").refused(read_only / "x.csv", "Permission denied")
    cli("evaluate", own, data, "--report", read_only / "x.html").refused(read_only / "x.html", "Permission denied")


def test_what_is_no_error_is_counted_and_said_once(cli: Cli, write: Write, out: Path, model: Path) -> None:
    odd = [
        {"text": "twice", "labels": ["one", "two", "one"]},
        {"text": "again", "labels": ["two", "two"]},
        {"text": "", "labels": ["one"]},
        {"text": "word " * 1_000_000, "labels": ["two"]},
        {"text": "none", "labels": []},
    ]
    path = write("odd.jsonl", rows(40) + "".join(json.dumps(row) + "\n" for row in odd))
    ended = cli("train", path, "--out", out, *sets(TINY_SPARSE)).worked()
    assert ended.err.count("2 examples name a label more than once") == 1
    assert ended.err.count("1 text is empty and kept") == 1
    assert ended.err.count("1 text was truncated to 500 words") == 1
    provenance = json.loads(cli("inspect", out, "--json").worked().out)["provenance"]
    assert [provenance[key] for key in ("repeated_labels", "empty_texts", "truncated")] == [2, 1, 1]
    ended = cli("evaluate", out, path).worked()
    assert ended.err.count("2 examples name a label more than once") == 1
    assert ended.err.count("1 text was truncated to 500 words") == 1


def test_evaluation_needs_labels(cli: Cli, model: Path, toy: Toy, tmp_path: Path) -> None:
    report = tmp_path / "sub" / "report.html"
    message = cli("evaluate", model, toy.new, "--report", report).refused(toy.new, "line 1", "'labels' is missing")
    assert "data.labels_field" in message
    assert not report.parent.exists()


def test_predictions_that_fail_midway_leave_no_file(cli: Cli, model: Path, write: Write, tmp_path: Path) -> None:
    path = write("bad.jsonl", rows(3000) + "oops\n")
    for name in ("x.jsonl", "x.csv", "x.parquet", "x.jsonl.gz"):
        goal = tmp_path / "new" / "deep" / name
        cli("predict", model, path, "--out", goal).refused(path, "line 3,001", "is not JSON")
        assert not (tmp_path / "new").exists()
    earlier = tmp_path / "earlier.jsonl"
    earlier.write_text("precious\n", encoding="utf-8")
    cli("predict", model, path, "--out", earlier).refused(earlier, "already exists", "--overwrite")
    cli("predict", model, path, "--out", earlier, "--overwrite").refused("line 3,001")
    assert earlier.read_text(encoding="utf-8") == "precious\n"
    assert files_below(tmp_path) == ["earlier.jsonl", "input", "input/bad.jsonl"]


def test_predictions_on_a_full_disk_leave_no_file(cli: Cli, model: Path, toy: Toy, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        ended = cli("predict", model, toy.train, "--out", tmp_path / "x.jsonl", "--probs", "all")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    ended.refused(tmp_path / "x.jsonl", "no space left", "free some space", code=1)
    assert files_below(tmp_path) == []


def test_bad_options_of_predict_and_evaluate(cli: Cli, model: Path, toy: Toy, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "x.jsonl"]
    predict = ["predict", model, toy.new, *out]
    cli(*predict, "--decode", "jont").refused("unknown decoder 'jont'", "Did you mean 'joint'")
    cli("evaluate", model, toy.test, "--decode", "jont").refused("unknown decoder 'jont'", "Did you mean 'joint'")
    cli(*predict, "--format", "jsnl").refused("unknown format 'jsnl'", "Did you mean 'jsonl'")
    cli("evaluate", model, toy.test, "--format", "jsnl").refused("unknown format 'jsnl'")
    cli(*predict, "--probs", "some").refused("--probs 'some'", "expected all, predicted or none")
    cli(*predict, "--out-format", "xml").refused("'xml'", "csv, jsonl, parquet")
    cli("predict", model, toy.new, "--out-format", "parquet").refused("standard output", "name a file")
    cli(*predict, "--set", "model.dropout=0.1").refused("'model.dropout=0.1'", "only decoding.*")
    cli(*predict, "--set", "data.max_words=5").refused("'data.max_words=5'", "trained model")
    cli(*predict, "--set", "decoding.beam_widht=5").refused("'decoding.beam_widht'", "Did you mean 'beam_width'")
    cli(*predict, "--set", "decoding.beam_width=0").refused("decoding.beam_width", "greater than 0", "got 0")
    cli(*predict, "--set", "decoding.beam_width").refused("'decoding.beam_width'", "expected key=value")
    limits = sets(["decoding.min_labels=3", "decoding.max_labels=2"])
    cli(*predict, *limits).refused("decoding.max_labels (2) is below decoding.min_labels (3)")
    assert files_below(tmp_path) == []
    cli("predict", model, toy.new, "--out", tmp_path).refused(tmp_path, "cannot be written (Is a directory)")
    cli("predict", model, toy.new, "--out", toy.new / "x").refused(toy.new / "x", "cannot be written")
    cli("evaluate", model, toy.test, "--report", tmp_path).refused(tmp_path, "cannot be written (Is a directory)")
    assert files_below(tmp_path) == []


def test_data_of_another_kind_than_the_model(cli: Cli, model: Path, write: Write, tmp_path: Path, toy: Toy) -> None:
    libsvm = write("a.libsvm", "1 1:1 2:1\n2 1:0.5\n" * 10)
    cli("predict", model, libsvm).refused("example '0'", "no text")
    dense = tmp_path / "a.npz"
    np.savez(dense, X=np.ones((4, 2)), Y=np.eye(4, 2))
    cli("predict", model, dense).refused("example '0'", "no text")
    out = tmp_path / "output" / "run"
    cli("train", dense, "--out", out, *sets(TINY_SPARSE)).refused("dense features", "model.encoder=dense")
    settings = sets([*TINY, "model.encoder=dense"])
    cli("train", toy.train, "--out", out, *settings).refused("example 'train-0'", "no dense features", "model.encoder=")
    settings = sets([*TINY, "model.encoder=bilstm"])
    cli("train", libsvm, "--out", out, *settings).refused("features but no text", "sparse (libsvm)")
    assert not out.parent.exists()


def test_bad_splits(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    def split(outs: list[str], *fractions: object, more: tuple[object, ...] = ()) -> list[object]:
        named = [word for name in outs for word in ("--out", tmp_path / name)]
        return ["split", toy.train, *named, *(word for share in fractions for word in ("--fraction", share)), *more]

    cli(*split(["a.csv", "b.csv"], 0.5, 0.6)).refused("[0.5, 0.6]", "expected positive shares that sum to 1")
    cli(*split(["a.csv", "b.csv"], "nan", 0.5)).refused("expected positive shares")
    cli(*split(["a.csv", "b.csv"], 1.0)).refused("2 --out and 1 --fraction", "same number")
    cli(*split(["a.csv", "a.csv"], 0.5, 0.5)).refused(tmp_path / "a.csv", "named twice")
    cli(*split(["a.csv", "b.foo"], 0.5, 0.5)).refused(tmp_path / "b.foo", "does not tell its format")
    cli(*split(["a.csv", "b.csv"], 0.9999, 0.0001)).refused(tmp_path / "b.csv", "larger --fraction")
    cli(*split(["a.csv", "b.libsvm"], 0.5, 0.5)).refused("libsvm files hold sparse features", "another format")
    assert files_below(tmp_path) == []


def test_bad_explanations(cli: Cli) -> None:
    def explain(labels: str, targets: str, predictions: str, *more: object) -> list[object]:
        return ["explain-ocd", "--labels", labels, "--targets", targets, "--predictions", predictions, *more]

    cli(*explain("A", "A", "A")).refused("--labels", "at least two different names")
    cli(*explain("alpha,beta", "alhpa", "beta")).refused("--targets", "'alhpa'", "Did you mean 'alpha'")
    cli(*explain("A,B", "A", "B,B")).refused("--predictions", "twice")
    cli(*explain("A,B", "A", "<eos>,B")).refused("--predictions", "nothing can follow <eos>")
    cli(*explain("A,B", "A", "B", "--temperature", -1)).refused("--temperature -1.0", "expected 0 or more")
    cli(*explain("A,B", "A", "B", "--reward", "f2")).refused("'f2'", "expected hamming or example_f1")


def test_training_needs_files_it_can_read_again(cli: Cli, toy: Toy, out: Path) -> None:
    cli("train", "-", "--out", out).refused("standard input", "give a file")
    cli("train", toy.train, "--valid", "-", "--out", out).refused("-: there is no such file")
    cli("train", "/dev/null", "--out", out).refused("/dev/null", "is not a plain file")
    assert not out.parent.exists()
