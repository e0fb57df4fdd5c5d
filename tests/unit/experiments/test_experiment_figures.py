from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")

from orderfree.errors import OrderfreeError
from orderfree.experiments.paper_figures import COMPARED, LOOKS, curves, frequency, positions, ranks, write_figures
from orderfree.report import figure_style as canvas

MTL = ("beam", "br", "rescore", "joint")


@pytest.fixture
def results(make_result):
    made = []
    for place, (method, decoders) in enumerate((("br", ("br",)), ("seq2seq", ("beam",)), ("ocd-mtl", MTL))):
        for seed in (1, 2):
            value = 0.4 + place / 10 + seed / 100
            made.append(
                make_result(
                    method,
                    decoders,
                    value,
                    seed=seed,
                    position_accuracy={d: [value, value / 2, 0.1][: 1 + seed] for d in decoders if d != "br"},
                    by_frequency={
                        d: [
                            {"times": "0", "examples": seed, "example_f1": value},
                            {"times": "1", "examples": 0, "example_f1": None},
                        ]
                        for d in decoders
                    },
                    curve=[
                        {
                            "update": u,
                            "validation": {
                                d: {"micro_f1": value + u / 900, "subset_accuracy": value} for d in decoders
                            },
                        }
                        for u in range(10, 40 + 10 * seed, 10)
                    ],
                )
            )
    return made


def drawn(figure, place: int = 0) -> dict[str, list[tuple[float, float]]]:
    return {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in figure.axes[place].lines}


def test_every_figure_is_written_in_both_formats(tmp_path: Path, results):
    paths = write_figures(results, tmp_path)
    names = [
        f"reuters-{name}.{kind}" for name in ("positions", "frequency", "curves", "ranks") for kind in ("svg", "png")
    ]
    assert [path.name for path in paths] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    for path in paths:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
            assert path.stat().st_size > 5000
        else:
            text = "".join(ElementTree.parse(path).getroot().itertext())
            assert "OCD + MTL" in text
            assert "reuters" in text


def test_the_same_results_give_the_same_bytes(tmp_path: Path, results):
    first = write_figures(results, tmp_path / "first")
    second = write_figures(results, tmp_path / "second")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert b"<dc:date>" not in first[0].read_bytes()


def test_positions_average_the_seeds_that_got_so_far(results):
    lines = drawn(positions(results, "reuters"))
    assert list(lines) == ["Seq2seq", "OCD + MTL"]  # binary relevance has no order
    assert lines["Seq2seq"] == [(1, pytest.approx(0.515)), (2, pytest.approx(0.2575)), (3, 0.1)]


def test_frequency_pools_the_examples_of_all_seeds_and_leaves_empty_bins_out(results):
    figure = frequency(results, "reuters")
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["0\n(n = 2)"]
    assert drawn(figure)["BR"] == [(0, pytest.approx((0.41 + 2 * 0.42) / 3))]


def test_curves_end_where_the_first_seed_ends(results):
    lines = drawn(curves(results, "reuters"))
    assert list(lines) == [
        "BR",
        *(f"OCD + MTL, {d}" for d in ("RNN dec.", "BR dec.", "Logistic rescore", "Logistic joint dec.")),
    ]
    assert [update for update, _ in lines["BR"]] == [10, 20, 30, 40]
    assert lines["BR"][0][1] == pytest.approx(0.415 + 10 / 900)


def test_rank_bars(results):
    axes = ranks(results, ["reuters"]).axes[0]
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}
    assert heights == {"BR": [3.0] * 6, "Seq2seq": [2.0] * 6, "OCD + MTL": [1.0] * 6}


def test_what_has_no_data_is_told_and_left_out(tmp_path: Path, make_result):
    said: list[str] = []
    assert write_figures([make_result()], tmp_path, said.append) == []
    assert [sentence.split(":")[0] for sentence in said] == [
        f"reuters-{name}" for name in ("positions", "frequency", "curves", "ranks")
    ]


def test_variants_are_not_mixed(tmp_path: Path, results, make_result):
    mixed = [*results, make_result("br", ("br",), variant="paper")]
    with pytest.raises(OrderfreeError, match="choose one variant"):
        write_figures(mixed, tmp_path)
    assert write_figures(mixed, tmp_path, variant="paper-small")


def test_no_two_methods_of_one_figure_look_alike():
    looks = [(LOOKS[row].colour, LOOKS[row].dash) for row in COMPARED]
    assert len(set(looks)) == len(looks)


def test_without_matplotlib_the_user_is_told_what_to_install(monkeypatch, results):
    monkeypatch.setattr(canvas.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OrderfreeError, match=r"orderfree\[figures\]"):
        positions(results, "reuters")


def test_matplotlib_and_torch_are_not_imported_before_they_are_needed():
    imported = "[m for m in ('matplotlib', 'torch') if m in sys.modules]"
    code = f"import orderfree.experiments.paper_figures, sys; print({imported})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
