"""`orderfree report`: a run, a run with data, a results folder, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e_support import Cli, Toy, environment, files_below

from orderfree.experiments.result_files import Result, write_result
from orderfree.report.verdict import of_hundred

ATTACK = "<script>alert(1)</script>"


MEASURED: dict[str, Any] = {
    "command": "orderfree reproduce reuters --rows ocd",
    "position_accuracy": {"beam": [0.9, 0.375]},
    "examples": [{"id": "1", "target": [ATTACK], "predicted": {"beam": [ATTACK, "grain"]}}],
    "per_label": [{"label": ATTACK, "support": 1, "predicted": 1, "precision": 1.0, "recall": 1.0, "f1": 1.0}],
    "confused_pairs": [{"missed": ATTACK, "instead": "grain", "count": 1}],
}


@pytest.fixture
def results(make_result: Callable[..., Result], tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    for changes in ({}, {"seed": 2, "value": 0.7}, {"variant": "paper"}):
        write_result(folder, make_result(**MEASURED, **changes))
    return folder


def self_contained(page: str) -> None:
    assert page.startswith("<!doctype html>")
    assert page.count("<script") == 1, "that of the tables"
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    assert not re.search(r"@import|https?://", page)


def titles(page: str) -> list[str]:
    return re.findall(r"<h2[^>]*>(.*)</h2>", page)


def test_a_run_shows_what_it_knows_and_how_to_know_more(cli: Cli, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "pages" / "run.html"
    ended = cli("report", model, "--out", out).worked()
    assert ended.out == f"Report written to {out}\n"
    page = out.read_text(encoding="utf-8")
    self_contained(page)
    first, decision, *folded = titles(page)
    assert first == "Can I use it?"
    assert folded == ["Decoders", "Learning curves", "Model card", "How it was made"]
    default = json.loads((model / "metrics.json").read_text(encoding="utf-8"))["default"]
    assert decision == f"Recommended decision: {default['search']}"
    share = of_hundred(default["scores"]["micro_precision"])
    assert f"<li><strong>{share}</strong> of 100 predicted labels are right</li>" in page
    assert "Scores on the validation part" in page
    assert f"<code>orderfree report {model} --data test.jsonl</code>" in page
    assert "<h3>A label-set predictor made with orderfree</h3>" in page
    digest = json.loads((model / "config.json").read_text(encoding="utf-8"))["provenance"]["data"]["train"]
    assert f"<dt>SHA-256 of the train file</dt><dd>{digest}</dd>" in page
    assert files_below(out.parent) == ["run.html"]


def test_a_run_with_data_is_evaluated_as_by_evaluate(cli: Cli, toy: Toy, model: Path, tmp_path: Path) -> None:
    cli("report", model, "--data", toy.test, "--out", tmp_path / "report.html").worked()
    cli("evaluate", model, toy.test, "--report", tmp_path / "evaluate.html").worked()
    page, other = ((tmp_path / name).read_text(encoding="utf-8") for name in ("report.html", "evaluate.html"))
    self_contained(page)
    assert [title for title in titles(page) if title != "Model card"] == [
        title for title in titles(other) if title != "Model card"
    ]
    assert "Labels" in titles(page)
    judged = [re.split(r'<div id="(?:card|making)">', each)[0].split("<main>")[1].strip() for each in (page, other)]
    assert judged[0] == judged[1]
    assert f"orderfree report {model} --data {toy.test} --out {tmp_path / 'report.html'}" in page


def test_a_run_with_one_decoder(cli: Cli, toy: Toy, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.html"
    options = ["--decode", "beam", "--set", "decoding.beam_width=2"]
    cli("report", model, "--data", toy.test, *options, "--out", out).worked()
    page = out.read_text(encoding="utf-8")
    assert "decoder beam" in page
    assert '<th scope="row">joint' not in page.split('id="card"')[0]
    assert "--decode beam --out" in page
    assert "--set decoding.beam_width=2" in page


def test_a_results_folder(cli: Cli, results: Path, tmp_path: Path) -> None:
    (results / "reuters" / "ocd" / "seed3.json").write_text('{"format": 2}', encoding="utf-8")
    out = tmp_path / "results.html"
    ended = cli("report", results, "--out", out).worked()
    assert "seed3.json: skipped, expected a result of format 1, found format 2" in ended.err
    page = out.read_text(encoding="utf-8")
    self_contained(page)
    assert titles(page) == ["reuters, paper", "reuters, paper-small"]
    assert '0.600<span class="spread"> ± 0.141</span>' in page
    assert "0.872" in page  # the paper's
    assert "0.375" in page  # accuracy at the second position
    assert page.count("&lt;script&gt;") > 5
    assert "orderfree reproduce reuters --rows ocd" in page
    assert ("matplotlib is not installed" in page) == (importlib.util.find_spec("matplotlib") is None)
    assert "Validation curves" not in page  # the results hold none


def test_part_of_a_results_folder(cli: Cli, results: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.html"
    cli("report", results / "reuters" / "ocd" / "paper", "--out", out).worked()
    assert titles(out.read_text(encoding="utf-8")) == ["reuters, paper"]


def test_a_page_of_results_does_not_wait_for_torch(results: Path, tmp_path: Path) -> None:
    call = ["report", str(results), "--out", str(tmp_path / "page.html")]
    code = f"import sys; from orderfree.cli.main import app; app({call!r}, standalone_mode=False); "
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(), capture_output=True)
    assert (tmp_path / "page.html").exists()


def test_help(cli: Cli) -> None:
    assert "report" in cli("--help").worked().out
    assert "--data" in cli("report", "--help").worked().out


def test_what_is_neither_is_refused(cli: Cli, model: Path, toy: Toy, results: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("x", encoding="utf-8")
    (tmp_path / "unfinished" / "training").mkdir(parents=True)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "seed1.json").write_text("{", encoding="utf-8")

    def refused(path: Path, *parts: str) -> None:
        cli("report", path, "--out", out).refused(path, *parts)

    refused(tmp_path / "none", "no such run or folder of results")
    refused(toy.test, "is a file")
    refused(tmp_path / "empty", "is empty")
    refused(tmp_path / "other", "neither a run", "nor a folder of results")
    refused(tmp_path / "unfinished", "training is not finished")
    refused(tmp_path / "bad", "none of its result files can be used")
    cli("report", results, "--data", toy.test, "--out", out).refused("leave out --data")
    cli("report", model, "--decode", "br", "--out", out).refused("--data")
    cli("report", model, "--data", tmp_path / "none.jsonl", "--out", out).refused("none.jsonl")
    assert not out.exists()


def test_a_page_that_cannot_be_written(cli: Cli, results: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    cli("report", results, "--out", tmp_path / "folder").refused(tmp_path / "folder", "cannot be written")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    cli("report", results, "--out", tmp_path / "file" / "page.html").refused("cannot be written")
    assert files_below(tmp_path / "folder") == []


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder nobody may look into, in a place that is open to everybody: pytest's own is not."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "locked"
        folder.mkdir(mode=0)
        yield folder


def test_a_folder_that_cannot_be_read(cli: Cli, locked: Path, unprivileged: None) -> None:
    cli("report", locked).refused(locked, "cannot be read (Permission denied)")


def test_runs_side_by_side(cli: Cli, model: Path, own_model: Path, toy: Toy, tmp_path: Path) -> None:
    out = tmp_path / "compared.html"
    ended = cli("compare", model, own_model, "--data", toy.test, "--out", out, "--json").worked()
    found = json.loads(ended.out)
    assert len(set(found["runs"])) == 2
    alone = json.loads(cli("evaluate", model, toy.test, "--json").worked().out)
    judged = found["metrics"]["micro_f1"][found["runs"][0]]["score"]
    assert judged == pytest.approx(alone["decoders"][alone["default_decoder"]]["micro_f1"])
    assert found["right"]["alone"] == dict.fromkeys(found["runs"], 0), "a copy answers as the original does"
    self_contained(out.read_text(encoding="utf-8"))
    shown = cli("compare", model, own_model, "--data", toy.test).worked().out
    assert f"{judged:.4f} (+0.0000, p 1.000)" in shown


def test_runs_are_trained_again_with_other_seeds(cli: Cli, model: Path, own_model: Path, toy: Toy) -> None:
    asked = ("compare", model, own_model, "--data", toy.test, "--seeds", "1,2")
    ended = cli(*asked, "--train", toy.train, "--valid", toy.valid, "--json").worked()
    found = json.loads(ended.out)
    assert found["seeds"] == [1, 2]
    first, second = found["metrics"]["micro_f1"].values()
    assert first["by_seed"] == second["by_seed"], "the same settings, files and seeds"
    assert first["by_seed"][0] != first["by_seed"][1]
    assert "seed 2" in ended.err
    cli(*asked).refused("--train FILE once for all runs, or 2 times")
    cli("compare", model, own_model, "--data", toy.test, "--train", toy.train).refused("--seeds as well")
    cli(*asked[:-1], "1", "--train", toy.train).refused("at least two")


def test_what_cannot_be_compared(cli: Cli, model: Path, toy: Toy) -> None:
    cli("compare", model, "--data", toy.test).refused("at least two runs")
    cli("compare", model, model, "--data", toy.test).refused("named twice")


def test_figures_are_written_beside_the_page(cli: Cli, model: Path, toy: Toy, tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    done = cli("report", model, "--data", toy.test, "--out", tmp_path / "r.html", "--figures", figures).worked()
    assert str(figures) in done.out
    assert {"validation.svg", "thresholds.png"} <= {file.name for file in figures.iterdir()}
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"--figures {figures}" in page
    assert "Step by step" in page
