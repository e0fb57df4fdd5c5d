"""Queue files, and cells in processes of their own: run, stopped and resumed as on a machine that is taken away."""

from __future__ import annotations

import gzip
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from orderfree.errors import OrderfreeError
from orderfree.experiments.cells import Cell, Plan, config_file, read_queue
from orderfree.experiments.result_files import load_results
from orderfree.experiments.workers import progress_of, run_queue
from orderfree.testing.toy import toy_corpus
from orderfree.training.run import Interrupted

ROOT = Path(__file__).parents[3]
OWED = ROOT / "scripts" / "paper_runs.yaml"
CONFIG = """
data: {vocabulary_size: 300}
model: {encoder: sparse, encoder_options: {hidden: 8}, br_hidden: 8, br_decoder: mlp}
objective: {sequence: null}
training: {epochs: EPOCHS, batch_size: 16, tensorboard: false, validate_every: 4, patience: null}
"""


def write_part(path: Path, examples) -> None:
    rows = [{"id": e.id, "text": e.text, "labels": list(e.labels)} for e in examples]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus named aapd, and three rows of it, one of them broken."""
    folder = tmp_path_factory.mktemp("queue")
    (folder / "data" / "aapd").mkdir(parents=True)
    toy = toy_corpus(1, 120, 30, 30)
    for name, examples in (("train", toy.train), ("val", toy.valid), ("test", toy.test)):
        write_part(folder / "data" / "aapd" / f"{name}.jsonl.gz", examples)
    (folder / "configs" / "aapd").mkdir(parents=True)
    texts = {"br": CONFIG.replace("EPOCHS", "2"), "br++": CONFIG.replace("EPOCHS", "10")}
    for row, text in {**texts, "broken": "model: {encoder: bilstn}\n"}.items():
        (folder / "configs" / "aapd" / f"{row}.yaml").write_text(text, encoding="utf-8")
    return folder


BR, LONG, BROKEN = (Cell("aapd", "paper", row, 1) for row in ("br", "br++", "broken"))


def plan_of(folder: Path, out: Path) -> Plan:
    return Plan(folder / "configs", out / "results", out / "work", folder / "data")


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, list[str], list[str]]:
    """A queue that ran to its end: its plan, what it said and what failed."""
    plan, said = plan_of(folder, tmp_path_factory.mktemp("whole")), []
    failed = run_queue([LONG, BR, BROKEN], plan, said.append, 2, options=["--allow-dirty"])
    return plan, said, failed


def test_every_cell_is_run_in_a_process_of_its_own(whole: tuple[Plan, list[str], list[str]]) -> None:
    plan, said, _ = whole
    br, long = load_results(plan.results)
    assert (br.method, long.method) == ("br", "br++")
    assert br.command == "OMP_NUM_THREADS=1 orderfree reproduce aapd --variant paper --rows br --seeds 1"
    assert br.ended_by == "cap"
    assert progress_of(BR, plan)["state"] == "done"
    assert said[0] == "0 of 3 cells are done, 3 wait for 2 process(es)"
    assert "aapd br seed 1: written to" in plan.run(BR).with_suffix(".log").read_text(encoding="utf-8")


def test_a_failing_cell_is_said_with_its_reason(whole: tuple[Plan, list[str], list[str]]) -> None:
    plan, said, failed = whole
    assert failed == ["aapd broken seed 1"]
    assert "bilstn" in plan.run(BROKEN).with_suffix(".log").read_text(encoding="utf-8")
    assert any(line.startswith("aapd broken seed 1: failed (") for line in said)


def test_a_queue_that_is_stopped_goes_on_to_the_same_numbers(
    folder: Path, whole: tuple[Plan, list[str], list[str]], tmp_path: Path
) -> None:
    plan = plan_of(folder, tmp_path)
    history = plan.run(LONG) / "history.jsonl"

    def stop() -> None:
        until(lambda: history.exists() and history.read_text(encoding="utf-8"))
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(Interrupted):
        run_queue([LONG], plan, lambda _: None, 2, options=["--allow-dirty"])
    stopped = progress_of(LONG, plan)
    assert stopped["state"] == "begun"
    assert stopped["update"] < stopped["of"]
    assert run_queue([LONG], plan, lambda _: None, 2, options=["--allow-dirty"]) == []
    (resumed,) = load_results(plan.results)
    straight = load_results(whole[0].results)[1]
    assert (resumed.test, resumed.curve) == (straight.test, straight.curve)


def until(happened) -> None:
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_queue_that_is_owed_is_in_the_order_it_was_promised_in() -> None:
    cells = read_queue(OWED)
    first = [cell.method for cell in cells if (cell.corpus, cell.seed) == ("reuters", 1)]
    assert first[:9] == [
        *("ocd-mtl", "seq2seq", "br", "order-free-rnn", "ocd"),
        *("ocd-correct-prefix", "seq2seq-ss", "order-free-rnn-ss", "br++"),
    ]
    stages = list(dict.fromkeys((cell.corpus, cell.seed) for cell in cells))
    assert stages[:5] == [("reuters", 1), ("aapd", 1), ("reuters", 2), ("reuters", 3), ("aapd-resplit", 1)]
    for cell in cells:
        assert config_file(Plan(), cell).is_file()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rows: [br]\n", "expected a list under `stages`"),
        ("stages:\n- {corpus: reuters, rows: [br]}\n", "stages.0.seeds"),
        ("stages:\n- {corpus: reuters, rows: [br], seed: [1], seeds: [1]}\n", "unknown key 'stages.0.seed'"),
        ("stages:\n- {corpus: reutters, rows: [br], seeds: [1]}\n", "Did you mean 'reuters'"),
    ],
)
def test_a_queue_with_a_mistake_is_answered_with_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "queue.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(OrderfreeError, match=sentence.replace(".", r"\.")):
        read_queue(path)
