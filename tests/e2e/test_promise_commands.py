"""Promises from the command line: made, stored, shown, used and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from e2e_support import Cli, Toy

from orderfree.checkpoint import load_model
from orderfree.config import DataConfig
from orderfree.data.writers import write_examples
from orderfree.testing.toy import toy_corpus


@pytest.fixture(scope="session")
def calibration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calibration") / "calibration.jsonl"
    write_examples(toy_corpus(seed=9, train=1, valid=1, test=400).test, path, "jsonl", DataConfig())
    return path


def test_a_recall_is_promised_stored_shown_and_kept(cli: Cli, own_model: Path, calibration: Path) -> None:
    shown = cli("thresholds", own_model, calibration, "--for", "recall=0.15").worked().out
    assert "Promise: At least 15 % of the true labels of a new example are predicted" in shown
    assert "exchangeable with the 400 calibration examples" in shown
    promise = load_model(own_model).decisions.named["recall=0.15"].promise
    assert promise is not None
    assert promise.sentence in (own_model / "PROMISES.md").read_text(encoding="utf-8")
    assert promise.sentence in cli("inspect", own_model).worked().out
    judged = json.loads(cli("evaluate", own_model, calibration, "--thresholds", "recall=0.15", "--json").worked().out)
    assert judged["decoders"]["thresholds:recall=0.15"]["example_recall"] == pytest.approx(promise.achieved, abs=1e-3)
    # a second promise leaves the first one on the card, once
    cli("thresholds", own_model, calibration, "--for", "recall=0.1", "--confidence", "0.9").worked()
    card = (own_model / "PROMISES.md").read_text(encoding="utf-8")
    assert card.count(promise.sentence) == card.count("# Promises") == 1
    assert "with confidence 90 %" in card
    assert "- `recall=0.1`: At least 10 %" in card


def test_a_promise_as_json(cli: Cli, own_model: Path, calibration: Path) -> None:
    found = json.loads(cli("thresholds", own_model, calibration, "--for", "precision=0.05", "--json").worked().out)
    made = found["precision=0.05"]
    assert made["promise"]["confidence"] == 0.95
    assert made["promise"]["achieved"] >= 0.05
    assert made["min_labels"] == 0
    assert "with confidence 95 %" in made["sentence"]
    parents = calibration.with_name("parents.json")
    parents.write_text("{}", encoding="utf-8")
    asked = ("predict", own_model, calibration, "--thresholds", "precision=0.05")
    assert "promise of a precision" in cli(*asked, "--hierarchy", parents).refused()
    assert "was promised with max_labels=" in cli(*asked, "--set", "decoding.max_labels=1").refused()


def test_promised_thresholds_are_compared_with_their_calibration(cli: Cli, own_model: Path, calibration: Path) -> None:
    cli("thresholds", own_model, calibration, "--for", "recall=0.1", "--name", "wide").worked()
    judged = cli("evaluate", own_model, calibration, "--thresholds", "wide", "--json").worked()
    shift = json.loads(judged.out)["shift"]
    assert (shift["examples"], shift["shifted"], shift["p_value"]) == (400, False, 1.0)
    assert load_model(own_model).decisions.references.keys() >= {"thresholds:wide"}


def test_promises_that_cannot_be(cli: Cli, own_model: Path, toy: Toy, calibration: Path, tmp_path: Path) -> None:
    manifest = (own_model / "manifest.json").read_bytes()

    def refused(path: Path, *arguments: str) -> str:
        return cli("thresholds", own_model, path, "--for", *arguments).refused()

    assert "is the train file of this model" in refused(toy.train, "recall=0.5")
    assert "is the valid file of this model" in refused(toy.valid, "recall=0.5")
    copied = tmp_path / "copied.jsonl"
    copied.write_text("\n".join(toy.lines()[:100]) + "\n", encoding="utf-8")
    assert "learned from about 100% of the calibration texts" in refused(copied, "recall=0.5")
    validated = toy.valid.read_text(encoding="utf-8").splitlines(keepends=True)[1:]
    copied.write_text("".join(validated), encoding="utf-8")  # decisions were chosen on them, and classifiers refitted
    assert "learned from about 100% of the calibration texts" in refused(copied, "recall=0.5")
    few = tmp_path / "few.jsonl"
    few.write_text("".join(calibration.read_text(encoding="utf-8").splitlines(keepends=True)[:5]), encoding="utf-8")
    wide = ("--set", "decoding.max_labels=36")
    assert "5 calibration examples; about 9 like them would suffice" in refused(few, "recall=0.9", *wide)
    assert "about 59 like them" in refused(few, "recall=0.95", "--confidence", "0.95", *wide)
    assert "the best they reach is" in refused(calibration, "recall=0.99")
    assert "the best they reach is" in refused(calibration, "precision=0.999")
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "nothing the model knows", "labels": ["unheard of"]}\n' * 20, encoding="utf-8")
    assert "no calibration example has a label that the model knows" in refused(other, "recall=0.5")
    assert "a share between 0 and 1" in refused(calibration, "recall=90")
    assert "--confidence 2" in refused(calibration, "recall=0.5", "--confidence", "2")
    assert "--confidence applies to a promise" in refused(calibration, "micro_f1", "--confidence", "0.9")
    assert (own_model / "manifest.json").read_bytes() == manifest
