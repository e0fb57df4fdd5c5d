"""`orderfree table`: every kind from result files, and what it says when it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orderfree.cli.experiments import KINDS, make_table
from orderfree.cli.main import run
from orderfree.errors import OrderfreeError
from orderfree.experiments.result_files import write_result


@pytest.fixture
def folder(make_result, tmp_path: Path) -> Path:
    measured = {
        "position_accuracy": {"beam": [0.9, 0.25]},
        "by_frequency": {"beam": [{"times": "0", "examples": 4, "example_f1": 0.75}]},
        "combinations": {"reference": {"distinct": 9, "unseen": 3}, "beam": {"distinct": 7, "unseen": 2}},
        "ranking": {"sequence": {"mean_average_precision": 0.3, "auc": 1.0, "d_prime": None, "labels": 4}},
        "parts": {"test_seen": {"beam": {"micro_f1": 0.6}}, "test_unseen": {"beam": {"micro_f1": 0.4}}},
    }
    write_result(tmp_path, make_result(value=0.5, **measured))
    write_result(tmp_path, make_result(value=0.3, variant="paper", **measured))
    return tmp_path


EXPECTED = {
    "scores": ("micro_f1", 0.5),
    "combinations": ("distinct", 7),
    "ranking": ("mean_average_precision", 0.3),
    "seen": ("unseen/micro_f1", 0.4),
    "ranks": ("micro_f1", 1.0),
    "positions": ("1", 0.25),
    "frequency": ("0", 0.75),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind: str, folder: Path) -> None:
    table = make_table(folder, "reuters", "test", kind, pytest.fail, "paper-small")
    column, value = EXPECTED[kind]
    (row,) = (row for row in table.rows if row.method == "ocd")
    assert row.cells[column].mean == value


def test_sizes_are_not_mixed(folder: Path) -> None:
    for kind in ("positions", "frequency", "ranks"):
        with pytest.raises(OrderfreeError, match="paper, paper-small: choose one"):
            make_table(folder, "reuters", "test", kind, pytest.fail)


def test_an_unknown_kind_is_answered_with_the_list(folder: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["table", "reuters", "--results", str(folder), "--kind", "rank"])
    assert ended.value.code == 2
    assert (
        "expected scores, combinations, ranking, seen, ranks, positions, frequency. Did you mean"
        in capsys.readouterr().err
    )


def test_json(folder: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        run(["table", "reuters", "--results", str(folder), "--variant", "paper", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["cells"]["micro_f1"]["mean"] for row in rows if row["variant"]] == [0.3]
