"""Named thresholds, conversion, shell completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from e2e_support import TINY, TINY_SPARSE, Cli, Toy, environment, files_below, sets

from orderfree.checkpoint import NamedThresholds, store_thresholds
from orderfree.cli.common import print_ranking
from orderfree.config import DataConfig
from orderfree.data.readers import read_examples
from orderfree.inference import Predictor
from orderfree.types import Example


def test_named_thresholds_are_found_stored_and_used(cli: Cli, own_model: Path, toy: Toy) -> None:
    before = cli("predict", own_model, toy.test).worked().out
    found = json.loads(cli("thresholds", own_model, toy.valid, "--json").worked().out)
    assert list(found) == ["micro_f1", "macro_f1"]
    assert isinstance(found["micro_f1"]["threshold"], float)
    assert len(found["macro_f1"]["threshold"]) > 2
    shown = cli("thresholds", own_model, toy.valid, "--for", "micro_f1", "--name", "sure").worked().out
    assert "sure" in shown
    stored = json.loads(cli("inspect", own_model, "--json").worked().out)["named_thresholds"]
    assert list(stored) == ["micro_f1", "macro_f1", "sure"]
    # judged on the data it was found on, it is exactly what was said
    scores = json.loads(cli("evaluate", own_model, toy.valid, "--thresholds", "sure", "--json").worked().out)
    assert scores["decoders"]["thresholds:sure"]["micro_precision"] == stored["sure"]["scores"]["micro_precision"]
    most = Predictor.load(own_model).limits.max_labels
    records = cli("predict", own_model, toy.test, "--thresholds", "sure", "--probs", "all").worked().records()
    for record in records:
        ranked = sorted(record["probs"].items(), key=lambda item: -item[1])
        wanted = [label for label, prob in ranked if prob >= stored["sure"]["threshold"]]
        assert record["decoder"] == "br"
        assert record["labels"] == wanted[: len(record["labels"])]
        assert len(record["labels"]) in (len(wanted), most)
    assert cli("predict", own_model, toy.test).worked().out == before, "what was there before is as it was"


def test_a_file_the_model_has_learned_from_is_said(cli: Cli, model: Path, toy: Toy, tmp_path: Path) -> None:
    """The training part always; the validation part where classifiers were solved once more with it."""
    refitted = tmp_path / "refitted"
    settings = sets([*TINY, "model.encoder_options.refit=true", "training.epochs=1"])
    cli("train", toy.train, "--valid", toy.valid, "--out", refitted, "--preset", "fast", *settings).worked()
    assert "solved once more" in (refitted / "README.md").read_text(encoding="utf-8")
    for run, file, learned in (
        (model, toy.train, True), (model, toy.valid, False), (refitted, toy.valid, True), (refitted, toy.test, False)
    ):  # fmt: skip
        said = cli("evaluate", run, file, "--decode", "br").worked().err
        assert (f"{run} was trained on {file}" in said) == learned
    assert "was trained on" in cli("thresholds", refitted, toy.valid).worked().err


def test_min_labels_goes_before_that_of_named_thresholds(cli: Cli, own_model: Path, toy: Toy) -> None:
    store_thresholds(own_model, {"sure": NamedThresholds("br", 0.9999, 0, "precision=1", {}, 1)})
    named = ("predict", own_model, toy.test, "--thresholds", "sure")
    assert min(len(record["labels"]) for record in cli(*named).worked().records()) == 0
    asked = cli(*named, "--set", "decoding.min_labels=2").worked().records()
    assert min(len(record["labels"]) for record in asked) == 2
    (prediction,) = (
        Predictor.load(own_model).adjusted(min_labels=3).predict([Example("1", text="nothing")], ["thresholds:sure"])
    )
    assert len(prediction.label_sets["thresholds:sure"].labels) == 3


def test_every_row_of_the_ranking_shows_its_own_scores(capsys: pytest.CaptureFixture[str]) -> None:
    scores = {"mean_average_precision": 0.25, "auc": 0.5, "d_prime": None, "labels": 1234}
    print_ranking({"br": scores, "sequence": {**scores, "mean_average_precision": 0.75, "labels": 7}})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["binary", "relevance", "0.2500", "0.5000", "-", "1,234"]
    assert rows[2] == ["label", "decoder,", "marginals", "0.7500", "0.5000", "-", "7"]


def test_thresholds_that_cannot_be(cli: Cli, own_model: Path, toy: Toy) -> None:
    manifest = (own_model / "manifest.json").read_bytes()
    run = (own_model, toy.valid)
    cli("thresholds", *run, "--for", "precision=2").refused("precision=2", "a share between 0 and 1")
    cli("thresholds", *run, "--for", "f1").refused("'f1'", "expected micro_f1")
    cli("thresholds", *run, "--decode", "beam").refused("'beam' gives no probabilities")
    cli("thresholds", *run, "--name", "x").refused("--name")
    cli("predict", own_model, toy.test, "--thresholds", "sure").refused("no thresholds named 'sure'", "it has none")
    both = ("--thresholds", "sure", "--decode", "br")
    cli("predict", own_model, toy.test, *both).refused("--thresholds determines the decoder")
    assert (own_model / "manifest.json").read_bytes() == manifest


@pytest.mark.parametrize("name", ["b.jsonl.gz", "b.csv", "b.tsv", "b.parquet", "b.ft", "text_b"])
def test_texts_go_to_every_format_and_back(cli: Cli, toy: Toy, tmp_path: Path, name: str) -> None:
    cli("convert", toy.test, tmp_path / name).worked()
    cli("convert", tmp_path / name, tmp_path / "back.jsonl").worked()
    before, after = (
        [(e.text, e.labels) for e in read_examples(path, DataConfig(), labelled=True)]
        for path in (toy.test, tmp_path / "back.jsonl")
    )
    assert before == after


def test_features_go_there_and_back(cli: Cli, tmp_path: Path) -> None:
    lines = "a,b 1:0.5 3:1.0\nb 2:2.0\na \n"
    (tmp_path / "a.libsvm").write_text(lines, encoding="utf-8")
    cli("convert", tmp_path / "a.libsvm", tmp_path / "a.npz").worked()
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["X"].tolist() == [[0.5, 0, 1.0], [0, 2.0, 0], [0, 0, 0]]
        assert arrays["Y"].tolist() == [[1, 1], [0, 1], [1, 0]]
    cli("convert", tmp_path / "a.npz", tmp_path / "b.libsvm").worked()
    assert (tmp_path / "b.libsvm").read_text(encoding="utf-8") == lines


def test_conversions_that_cannot_be(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    cli("convert", toy.test, tmp_path / "a.npz").refused("npz files hold dense features")
    cli("convert", toy.test, tmp_path / "a.foo").refused("does not tell its format")
    cli("convert", toy.test, toy.train).refused("already exists")
    cli("convert", toy.test, "-").refused("--out-format")
    cli("convert", tmp_path / "no.csv", tmp_path / "a.jsonl").refused("no such file")
    assert files_below(tmp_path) == []
    out = cli("convert", toy.new, "-", "--out-format", "csv", "--unlabelled").worked().out
    assert out.splitlines()[0] == '"id","text"'


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_tab_key(shell: str) -> None:
    started = {**environment(), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = [str(Path(sys.executable).parent / "orderfree"), "--show-completion", shell]
    if not os.path.exists(script[0]):
        pytest.skip("orderfree is not installed as a command here")
    done = subprocess.run(script, env=started, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "_ORDERFREE_COMPLETE" in done.stdout
    words = {"_ORDERFREE_COMPLETE": "complete_bash", "COMP_WORDS": "orderfree thr", "COMP_CWORD": "1"}
    done = subprocess.run(script[:1], env={**started, **words}, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["thresholds"]


def test_a_warm_start_from_the_command_line(cli: Cli, model: Path, toy: Toy, tmp_path: Path) -> None:
    data = tmp_path / "more.jsonl"
    rows = [{**json.loads(line), "labels": ["brand new", *json.loads(line)["labels"]]} for line in toy.lines()[:60]]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    out = tmp_path / "run"
    warm = ("--warm-start", model, "--valid", data)
    cli("train", data, "--out", out, *warm, "--preset", "fast").refused("--warm-start", "--set only")
    cli("train", data, "--out", out, *warm, "--set", "model.encoder=linear").refused("what the earlier model has")
    cli("train", data, "--out", out, *warm, "--set", "training.epochs=1").worked()
    before, after = (json.loads(cli("inspect", run, "--json").worked().out)["labels"] for run in (model, out))
    assert list(after) == [*before, "brand new"]
    assert after["brand new"] == 60


def test_labels_are_said_and_judged_with_their_parents(cli: Cli, model: Path, toy: Toy, tmp_path: Path) -> None:
    labels = list(json.loads(cli("inspect", model, "--json").worked().out)["labels"])
    root, *children = labels
    parents = tmp_path / "parents.json"
    parents.write_text(json.dumps(dict.fromkeys(children, root)), encoding="utf-8")
    plain = cli("predict", model, toy.test).worked().records()
    closed = cli("predict", model, toy.test, "--hierarchy", parents).worked().records()
    for before, after in zip(plain, closed, strict=True):
        added = [] if not before["labels"] or root in before["labels"] else [root]
        assert after["labels"] == [*before["labels"], *added]
        assert set(after["probs"]) == set(after["labels"])
    found = json.loads(cli("evaluate", model, toy.test, "--hierarchy", parents, "--json").worked().out)
    row = next(row for row in found["per_label"] if row["label"] == root)
    true = [e.labels for e in read_examples(toy.test, DataConfig(), labelled=True)]
    assert row["support"] == sum(bool(labels) for labels in true)
    parents.write_text(json.dumps({"no such": root}), encoding="utf-8")
    cli("predict", model, toy.test, "--hierarchy", parents).refused(parents, "'no such' is no label of this model")
    cli("predict", model, toy.test, "--hierarchy", tmp_path / "no.csv").refused("no.csv", "cannot be read")


def test_likely_label_errors_are_listed(cli: Cli, model: Path, toy: Toy, tmp_path: Path) -> None:
    out = tmp_path / "suspects.csv"
    found = json.loads(cli("audit", toy.train, "--folds", "3", "--top", "5", "--out", out, "--json").worked().out)
    assert (found["examples"], found["folds"], found["own_examples"]) == (200, 3, False)
    assert 0 < len(found["suspects"]) <= 5
    scores = [suspect["score"] for suspect in found["suspects"]]
    assert scores == sorted(scores)
    rows = [json.loads(line) for line in toy.lines()]
    for suspect in found["suspects"]:
        row = rows[suspect["position"] - 1]
        assert (suspect["id"], suspect["labels"]) == (row["id"], row["labels"])
        assert set(suspect["wrong"]) <= set(row["labels"])
        assert not set(suspect["missing"]) & set(row["labels"])
        assert suspect["wrong"] or suspect["missing"]
    assert len(out.read_text(encoding="utf-8").splitlines()) == 1 + len(found["suspects"])
    asked = cli("audit", toy.train, "--model", model).worked()
    assert "was trained on this very file" in asked.err
    assert "of 200 examples" in asked.out
    assert "trained on this very file" not in cli("audit", toy.test, "--model", model).worked().err


def test_audits_that_cannot_be(cli: Cli, model: Path, toy: Toy, tmp_path: Path) -> None:
    cli("audit", toy.train, "--out", tmp_path / "a.txt").refused("a.txt", "expected a name that ends in .jsonl or .csv")
    cli("audit", toy.train, "--model", model, "--preset", "fast").refused("leave them out")
    cli("audit", toy.train, "--model", model, "--folds", "3").refused("leave them out")
    cli("audit", tmp_path / "no.jsonl").refused("no.jsonl", "no such file")
    cli("audit", "-").refused("standard input")
    cli("audit", "-", "--model", model).refused("standard input")
    assert files_below(tmp_path) == []


def test_an_audit_without_its_library(cli: Cli, toy: Toy, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cleanlab.filter", None)
    cli("audit", toy.test, "--model", model).refused('pip install "orderfree[audit]"')


def test_a_search_for_settings_ends_in_a_model(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    out, space = tmp_path / "tuned", tmp_path / "space.yaml"
    space.write_text("training.learning_rate: {low: 0.001, high: 0.02, log: true}\n", encoding="utf-8")
    tune = ("tune", toy.train, "--valid", toy.valid, "--out", out, "--space", space, *sets(TINY_SPARSE))
    cli(*tune, "--optimize-for", "f1").refused("'f1'", "micro_f1")
    cli(*tune, "--budget", "soon").refused("--budget 'soon'")
    cli(*tune, "--budget", "0s").refused(out, "no trial has finished")
    found = json.loads(cli(*tune, "--trials", "2", "--json").worked().out)
    assert [trial["state"] for trial in found["trials"]] == ["complete", "complete"]
    assert found["score"] == max(trial["score"] for trial in found["trials"])
    assert len(cli("predict", out, toy.new).worked().records()) > 0
    shown = cli(*tune, "--trials", "2").worked()
    assert f"{out} is the model of trial {found['best'] + 1}" in shown.out
    assert "Search for Micro F1" in (out / "report.html").read_text(encoding="utf-8")
    space.write_text("training.lerning_rate: {low: 0.001, high: 0.02}\n", encoding="utf-8")
    cli(*tune).refused(space, "training.lerning_rate", "Did you mean 'learning_rate'?")
