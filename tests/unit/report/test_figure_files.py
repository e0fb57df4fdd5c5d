"""The figures of a page as files."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")

from orderfree.report.figure_files import write_chart_files
from orderfree.report.page import run_charts

BIN = {"lower": 0.0, "upper": 0.5, "mean_probability": 0.2, "share_true": 0.1, "count": 7}
EVALUATION = {
    "decoders": {"joint": {"micro_f1": 0.5}, "br": {"micro_f1": 0.4}},
    "position_accuracy": {"joint": [0.9, 0.5]},
    "calibration": {"reliability": [BIN]},
    "precision_recall": [{"threshold": t, "precision": t, "recall": 1 - t} for t in (0.1, 0.9)],
}
HISTORY = [{"update": n, "loss": 1.0 / n, "validation": {"joint": {"micro_f1": n / 10}}} for n in (1, 2, 3)]
NAMES = ["positions", "reliability", "thresholds", "training-loss", "validation"]


def test_every_chart_of_the_page_is_an_svg_and_a_png(tmp_path: Path) -> None:
    charts = run_charts(EVALUATION, HISTORY, {})
    written = write_chart_files(charts, tmp_path / "figures")
    assert sorted(path.name for path in written) == sorted(
        f"{name}.{kind}" for name in NAMES for kind in ("svg", "png")
    )
    assert sorted(file.name for file in (tmp_path / "figures").iterdir()) == sorted(path.name for path in written)
    for path in written:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
            continue
        text = " ".join(ElementTree.parse(path).getroot().itertext())
        chart = charts[path.stem]
        assert chart.title in text
        assert all(name in text for name, _ in chart.legend)
        assert chart.horizontal in text


def test_the_same_numbers_are_the_same_bytes(tmp_path: Path) -> None:
    charts = run_charts(EVALUATION, HISTORY, {})
    for folder in ("a", "b"):
        write_chart_files(charts, tmp_path / folder)
    for name in NAMES:
        assert (tmp_path / "a" / f"{name}.svg").read_bytes() == (tmp_path / "b" / f"{name}.svg").read_bytes()


def test_what_has_no_data_is_left_out() -> None:
    assert list(run_charts({}, HISTORY, {})) == ["training-loss", "validation"]
    assert run_charts({}, [], {}) == {}
