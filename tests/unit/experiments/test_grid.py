"""The runner: cells are run once, cut cells are resumed or marked, a failing cell does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from claims.measures import drawn, outcomes, value
from orderfree.errors import OrderfreeError
from orderfree.experiments import grid
from orderfree.experiments.cells import Cell, Plan
from orderfree.experiments.grid import run_cells
from orderfree.experiments.result_files import load_results
from orderfree.testing.toy import toy_corpus

TINY = """
data: {vocabulary_size: 300}
model: {encoder_options: {hidden: 8, slots: 1}, label_embedding: 4, decoder_hidden: 8, br_hidden: 8}
objective: {sequence: SEQUENCE, max_steps: 6}
training: {epochs: 2, batch_size: 64, tensorboard: false, validate_all: true, threads: 1}
decoding: {beam_width: 2}
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    corpus = toy_corpus(1, 250, 40, 40)
    multi = [example for example in corpus.test if len(example.labels or ()) > 1]
    parts = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test, "test_multi": multi}
    monkeypatch.setattr(
        grid, "load_parts", lambda name, root, seed: {part: (lambda e=e: iter(e)) for part, e in parts.items()}
    )
    monkeypatch.setattr(grid, "data_root", lambda option: tmp_path)
    configs = tmp_path / "configs" / "toy" / "paper-small"
    configs.mkdir(parents=True)
    (configs / "ocd-mtl.yaml").write_text(TINY.replace("SEQUENCE", "ocd"), encoding="utf-8")
    (configs / "br.yaml").write_text(TINY.replace("SEQUENCE", "null"), encoding="utf-8")
    (configs / "broken.yaml").write_text("model: {encoder: bilstn}\n", encoding="utf-8")
    return Plan(tmp_path / "configs", tmp_path / "results", tmp_path / "work", commit="0" * 40)


BR, MTL, BROKEN = (Cell("toy", "paper-small", method, 1) for method in ("br", "ocd-mtl", "broken"))


@contextmanager
def at_once(seconds: float | None, act: Callable[[], None]) -> Iterator[None]:
    """A timer that goes off before the first update, however fast the machine is, in a block that takes its seconds."""
    if seconds is not None:
        act()
    try:
        yield
    finally:
        time.sleep(seconds or 0)


def test_every_cell_is_run_once_and_written_down(plan: Plan) -> None:
    lines: list[str] = []
    assert run_cells([BR, MTL], plan, lines.append) == []
    br, mtl = load_results(plan.results)
    assert (br.method, mtl.method) == ("br", "ocd-mtl")
    assert set(br.test) == {"br"}
    assert set(mtl.test) == {"beam", "br", "rescore", "joint"}
    assert set(mtl.parts["test_multi"]) == set(mtl.test)
    assert [point.update for point in mtl.curve] == [4, 8]
    assert set(mtl.curve[0].validation) >= set(mtl.test)
    assert mtl.updates == 8
    assert not mtl.cut_short
    assert mtl.precision == mtl.config["training"]["precision"] == "float32"
    assert sum(row.examples for row in mtl.by_frequency["joint"]) == 40
    assert mtl.seconds.train > 0

    lines.clear()
    run_cells([BR, MTL], plan, lines.append)
    assert all(line.endswith("done before") for line in lines)


def test_a_cell_out_of_time_is_finished_and_marked(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "after", at_once)
    run_cells([BR], replace(plan, cell_seconds=0.1), lambda _: None)
    (result,) = load_results(plan.results)
    assert result.cut_short
    assert result.ended_by == "budget"
    assert result.updates < 8
    assert "--cell-budget 0.1s" in result.command


def test_a_cut_cell_goes_on_where_it_was(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(grid, "after", at_once)
        run_cells([BR], plan, lines.append, budget_seconds=0.1)
    assert load_results(plan.results) == []
    assert "goes on next time" in lines[-1]
    run_cells([BR], replace(plan, commit="1" * 40), lines.append)
    (resumed,) = load_results(plan.results)
    other = replace(plan, results=plan.results / "again", work=plan.work / "again")
    run_cells([BR], other, lines.append)
    (whole,) = load_results(other.results)
    assert resumed.test == whole.test
    assert resumed.ended_by == whole.ended_by == "cap"
    assert (resumed.commit, resumed.commits) == ("1" * 40, ["0" * 40, "1" * 40])  # trained with the code of both


def test_no_time_left_leaves_cells_for_later(plan: Plan) -> None:
    lines: list[str] = []
    assert run_cells([BR, MTL], plan, lines.append, budget_seconds=0.0) == []
    assert all("budget is used up" in line for line in lines)


def test_a_failing_cell_is_said_and_the_others_go_on(plan: Plan) -> None:
    lines: list[str] = []
    failed = run_cells([BROKEN, BR], plan, lines.append)
    assert failed == ["toy broken seed 1"]
    assert any("bilstn" in line for line in lines)
    assert plan.result_path(BR).exists()


def test_an_unknown_row_is_answered_with_the_list_before_anything_runs(plan: Plan) -> None:
    with pytest.raises(OrderfreeError, match=r"unknown row 'ocd-mlt'.*br, broken, ocd-mtl.*Did you mean 'ocd-mtl'"):
        run_cells([BR, replace(MTL, method="ocd-mlt")], plan, lambda _: None)
    assert not plan.results.exists()


def test_a_result_holds_what_the_verdicts_are_made_from(plan: Plan) -> None:
    run_cells([MTL], plan, lambda _: None)
    (result,) = load_results(plan.results)
    counts = outcomes(result, "joint")
    assert counts is not None
    assert counts.shape == (40, 3)
    hits, wrong = counts[:, 0].sum(), counts[:, 1:].sum()
    assert 2 * hits / (2 * hits + wrong) == pytest.approx(result.test["joint"]["micro_f1"])
    parts = {part: outcomes(result, "joint", part) for part in ("test_seen", "test_unseen") if part in result.parts}
    assert sum(len(part) for part in parts.values() if part is not None) == 40
    for part in parts:
        draws = drawn(result, "joint", f"{part}/example_f1")
        assert draws is not None
        assert abs(draws.mean() - (value(result, "joint", f"{part}/example_f1") or 0)) < 0.02
    several = outcomes(result, "joint", "test_multi")
    assert several is not None
    hits, wrong = several[:, 0].sum(), several[:, 1:].sum()
    assert 2 * hits / (2 * hits + wrong) == pytest.approx(result.parts["test_multi"]["joint"]["micro_f1"])
    assert set(result.pair_orders) == set(result.position_accuracy) == {"beam", "rescore", "joint"}


def test_both_definitions_of_the_search_are_tested(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cells([MTL], plan, lambda _: None)
    (result,) = load_results(plan.results)
    assert set(result.renormalised) == {"beam", "rescore", "joint"}  # binary relevance does not search
    assert set(result.validation_by_search) == {"as_in_the_paper", "renormalised"}
    from orderfree.evaluation import evaluate
    from orderfree.inference import Predictor

    predictor = Predictor.load(plan.run(MTL))
    test = toy_corpus(1, 250, 40, 40).test
    for renormalise, scores in ((False, result.test), (True, result.renormalised)):
        predictor.limits = replace(predictor.limits, renormalise=renormalise)
        assert evaluate(predictor, test, ["beam"])["decoders"]["beam"] == pytest.approx(scores["beam"])
