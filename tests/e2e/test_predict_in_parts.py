"""`orderfree predict --engine ray` as it is called; tests/unit/tools has what it does on a cluster."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from e2e_support import Cli, Toy

from orderfree.tools import bulk


@pytest.fixture
def table(cli: Cli, toy: Toy, tmp_path: Path) -> Path:
    cli("convert", toy.test, tmp_path / "big.parquet").worked()
    return tmp_path / "big.parquet"


def test_the_command_writes_what_predict_writes(
    cli: Cli, model: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts are done in this process, as each of Ray's workers does them."""
    pytest.importorskip("ray")

    def here(job: Any, directory: Path, parts: list[bulk.Part], workers: int, advance: Any) -> None:
        for part in parts:
            bulk.PartWorker(job, str(directory)).predict(part)

    monkeypatch.setattr(bulk, "_predict_missing", here)
    options = ("--engine", "ray", "--part-rows", 25, "--optimize-for", "micro_f1", "--out")
    told = cli("predict", model, table, *options, tmp_path / "out").worked()
    assert "60 rows in 3 parts" in told.err
    cli("predict", model, table, "--optimize-for", "micro_f1", "--out", tmp_path / "plain.parquet").worked()
    parts = [row for path in sorted((tmp_path / "out").glob("part-*")) for row in pq.read_table(path).to_pylist()]
    plain = pq.read_table(tmp_path / "plain.parquet").to_pylist()
    assert [(row["id"], row["labels"], row["decoder"]) for row in parts] == [
        (row["id"], row["labels"], row["decoder"]) for row in plain
    ]
    again = cli("predict", model, table, *options, tmp_path / "out").worked()
    assert "3 of them from before" in again.err
    other = cli("predict", model, table, *options, tmp_path / "out", "--set", "decoding.beam_width=2")
    other.refused(tmp_path / "out", "another job, which differs in config")


def test_what_cannot_be_is_refused(cli: Cli, model: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("predict", model, table, table).refused("2 inputs are given, expected one", "--engine ray")
    cli("predict", model, table, "--engine", "spark", "--out", "x").refused("--engine 'spark': expected ray")
    cli("predict", model, table, "--engine", "ray").refused("name it with --out")
    cli("predict", model, table, "--workers", "2").refused("--workers and --part-rows need --engine ray")
    cli("predict", model, table, "--engine", "ray", "--alternatives", "--out", "x").refused("parquet cannot hold")
    real = builtins.__import__

    def without_ray(name: str, *rest: Any) -> Any:
        if name == "ray":
            raise ModuleNotFoundError(name="ray")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    cli("predict", model, table, "--engine", "ray", "--out", "x").refused('pip install "orderfree[ray]"')
