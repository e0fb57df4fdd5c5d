"""Parts of large corpora, on a cluster of two workers in this machine; refusals need none."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orderfree.checkpoint import save_model
from orderfree.config import DataConfig
from orderfree.data.readers import read_examples
from orderfree.errors import DataError, OrderfreeError
from orderfree.inference import Predictor
from orderfree.tools.bulk import COMPLETE, JOB, PartWorker, claim, parts_of, plan, run_on_ray
from unit_models import made_model

ROWS = 90


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model") / "run"
    save_model(made_model(1), directory, "# a card\n")
    return directory


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two files, one of them in row groups of seven rows, the other without ids."""
    folder = tmp_path_factory.mktemp("big")
    texts = [f"one red fish in {'a ' * (row % 5)}{row}" for row in range(2 * ROWS)]
    first = pa.table({"id": [f"x{row}" for row in range(ROWS)], "text": texts[:ROWS]})
    pq.write_table(first, folder / "a.parquet", row_group_size=7)
    pq.write_table(pa.table({"text": texts[ROWS:]}), folder / "b.parquet")
    return [str(folder / "a.parquet"), str(folder / "b.parquet")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        num_cpus=2, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
    )
    yield
    ray.shutdown()


def job_of(run: Path, inputs: list[str], **changes: Any) -> dict[str, Any]:
    given = {"decoder": "joint", "hierarchy": None, "probs": "all", "part_rows": 10, **changes}
    return plan(run, inputs, Predictor.load(run), **given)


def rows_of(directory: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(directory.glob("part-*")) for row in pq.read_table(path).to_pylist()]


def kill_a_worker_once_parts_are_there(directory: Path, ended: threading.Event, killed: list[int]) -> None:
    while not ended.is_set() and not killed:
        if any(directory.glob("part-*")):
            for worker in [one for one in psutil.Process().children(recursive=True) if makes_parts(one)][:1]:
                os.kill(worker.pid, signal.SIGKILL)
                killed.append(worker.pid)
        time.sleep(0.005)


def makes_parts(process: psutil.Process) -> bool:
    try:
        return "PartWorker" in " ".join(process.cmdline())
    except psutil.Error:  # it has ended meanwhile
        return False


def test_a_part_is_these_rows_of_the_file(inputs: list[str]) -> None:
    """Every range, across row groups and not, and the ids a file without any gets."""
    whole = [list(read_examples(path, DataConfig(), labelled=False)) for path in inputs]
    for first, stop in ((0, 1), (3, 7), (7, 14), (5, 30), (84, 90), (0, ROWS)):
        for path, examples in zip(inputs, whole, strict=True):
            part = list(read_examples(path, DataConfig(), labelled=False, part=range(first, stop)))
            assert part == examples[first:stop]


def test_every_row_is_in_one_part(run: Path, inputs: list[str]) -> None:
    parts = list(parts_of(job_of(run, inputs, part_rows=20)))
    assert [part.number for part in parts] == list(range(10))
    found = [(part.path, row) for part in parts for row in range(part.first, part.stop)]
    assert found == [(path, row) for path in inputs for row in range(ROWS)]


@pytest.mark.usefixtures("cluster")
def test_each_row_once_though_a_worker_is_killed_and_the_same_as_predict(
    run: Path, inputs: list[str], tmp_path: Path
) -> None:
    job, ended, killed = job_of(run, inputs, part_rows=4), threading.Event(), []
    watch = threading.Thread(target=kill_a_worker_once_parts_are_there, args=(tmp_path / "out", ended, killed))
    watch.start()
    try:
        told = run_on_ray(job, tmp_path / "out", workers=2)
    finally:
        ended.set()
        watch.join()
    assert killed
    assert told == {"parts": 46, "rows": 2 * ROWS, "left_out": 0, "kept": 0}
    assert json.loads((tmp_path / "out" / COMPLETE).read_text()) == {"parts": 46, "rows": 2 * ROWS, "left_out": 0}
    rows = rows_of(tmp_path / "out")
    examples = [(path, one) for path in inputs for one in read_examples(path, DataConfig(), labelled=False)]
    assert [(row["source"], row["id"]) for row in rows] == [(path, example.id) for path, example in examples]
    predictor = Predictor.load(run)
    for row, plain in zip(rows, predictor.predict([example for _, example in examples], ["joint"]), strict=True):
        assert row["labels"] == list(plain.label_sets["joint"].labels)
        assert row["log_prob"] == pytest.approx(plain.label_sets["joint"].log_prob, abs=1e-5)
        assert plain.probs is not None
        assert [prob for _, prob in row["probs"]] == pytest.approx(plain.probs.tolist(), abs=2e-6)
    go_on_with_what_is_missing(job, tmp_path / "out")


def go_on_with_what_is_missing(job: dict[str, Any], out: Path) -> None:
    """A directory as a killed job leaves it: a part is not there, and another is half written under another name."""
    before = rows_of(out)
    (out / "part-0000002.parquet").unlink()
    (out / ".part-0000002.parquet.x.part").write_bytes(b"half")
    kept = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    advanced: list[int] = []
    assert run_on_ray(job, out, 1, advanced.append)["kept"] == 45
    assert advanced == [2 * ROWS - 4, 4]
    assert rows_of(out) == before
    assert {name: (out / name).stat().st_mtime_ns for name in kept} == kept
    assert not list(out.glob(".part-*"))


def test_a_damaged_row_is_told_by_its_place(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"text": ["one", None, "red fish"]}), path)
    job = job_of(run, [str(path)])
    batch = {name: np.array([value]) for name, value in next(parts_of(job))._asdict().items()}
    assert "bad.parquet: row 2: " in PartWorker(job, str(tmp_path))(batch)["refusal"][0]
    assert not list(tmp_path.glob("part-*"))


def test_a_missing_id_is_the_place_in_the_file_whatever_was_left_out(tmp_path: Path) -> None:
    path, options = tmp_path / "bad.parquet", DataConfig(skip_bad=True)
    pq.write_table(pa.table({options.features_field: [[1.0], [float("nan")], [2.0], [3.0]]}), path)
    parts = [list(read_examples(path, options, labelled=False, part=part)) for part in (range(1, 3), range(3, 4))]
    assert [[example.id for example in part] for part in parts] == [["2"], ["3"]]


def test_another_job_is_refused(run: Path, inputs: list[str], tmp_path: Path) -> None:
    claim(job_of(run, inputs), tmp_path)
    claim(job_of(run, inputs), tmp_path)
    for changes, key in (({"decoder": "br"}, "decoder"), ({"part_rows": 7}, "part_rows"), ({"probs": "none"}, "probs")):
        with pytest.raises(OrderfreeError, match=f"another job, which differs in {key}; choose another --out"):
            claim(job_of(run, inputs, **changes), tmp_path)
    with pytest.raises(OrderfreeError, match="differs in inputs"):
        claim(job_of(run, inputs[:1]), tmp_path)
    (tmp_path / JOB).write_text("[]")
    with pytest.raises(OrderfreeError, match="another job"):
        claim(job_of(run, inputs), tmp_path)
    (tmp_path / JOB).unlink()
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(OrderfreeError, match=r"is not empty and holds no job\.json"):
        claim(job_of(run, inputs), tmp_path)


def test_another_model_and_changed_inputs_are_another_job(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": ["red fish", "blue fish"]}), path)
    out = tmp_path / "out"
    out.mkdir()
    claim(job_of(run, [str(path)]), out)
    pq.write_table(pa.table({"text": ["red fish", "blue fist"]}), path)
    with pytest.raises(OrderfreeError, match="differs in inputs"):
        claim(job_of(run, [str(path)]), out)
    save_model(made_model(2), tmp_path / "other", "# a card\n")
    with pytest.raises(OrderfreeError, match="differs in run, model"):
        claim(job_of(tmp_path / "other", [str(path)]), out)


def test_inputs_that_are_none_are_refused(run: Path, inputs: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and no more")
    for path in ("x.parquet", "missing.parquet"):
        with pytest.raises(DataError, match=f"{path}: is not a readable Parquet file"):
            job_of(run, [str(tmp_path / path)])
    with pytest.raises(OrderfreeError, match="given twice"):
        job_of(run, inputs[:1] * 2)
    with pytest.raises(OrderfreeError, match="given twice"):
        job_of(run, [inputs[0], inputs[0].replace("/", "/./", 1)])
