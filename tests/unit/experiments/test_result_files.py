from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from orderfree.experiments.result_files import load_results, write_result


def test_what_is_written_is_read(tmp_path: Path, make_result):
    result = make_result(
        "br++",
        ("br",),
        parts={"test_multi": {"br": {"micro_f1": 0.25}}},
        by_frequency={"br": [{"times": "0", "examples": 0, "example_f1": None}]},
        curve=[{"update": 5, "validation": {"br": {"micro_f1": 0.5}}}],
        note="a later version's key",
    )
    path = write_result(tmp_path, result)
    assert path == tmp_path / "reuters" / "br++" / "seed1.json"
    assert json.loads(path.read_text())["format"] == 1
    assert json.loads(path.read_text())["note"] == "a later version's key"
    assert load_results(tmp_path) == [result]
    assert result.part("test") == result.test
    assert result.part("test_multi")["br"]["micro_f1"] == 0.25
    assert result.part("test_seen") == {}


def test_bad_files_are_told_and_do_not_hide_the_good_ones(tmp_path: Path, make_result):
    good = make_result()
    written = write_result(tmp_path, good)
    content = json.loads(written.read_text())
    bad = {
        "seed2.json": "{ broken",
        "seed3.json": json.dumps({**content, "format": 2}),
        "seed4.json": json.dumps({name: value for name, value in content.items() if name != "commit"}),
        "seed5.json": json.dumps({**content, "test": {"beam": {"micro_f1": float("nan")}}}),
        "seed6.json": json.dumps(["not", "a", "result"]),
        "seed7.json": written.read_text(),
        "seed8.json": b"\xff\xfe",
    }
    for name, text in bad.items():
        written.with_name(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    said: list[str] = []
    assert load_results(tmp_path, said.append) == [good]
    assert len(said) == len(bad)
    assert all(name in sentence for name, sentence in zip(bad, said, strict=True))
    assert "found format 2" in said[1]
    assert "commit" in said[2]
    assert "same corpus, method, variant and seed" in said[5]


def test_results_come_in_order(tmp_path: Path, make_result):
    for method, seed in (("ocd", 10), ("ocd", 2), ("br", 3)):
        write_result(tmp_path, make_result(method, seed=seed))
    assert [(r.method, r.seed) for r in load_results(tmp_path)] == [("br", 3), ("ocd", 2), ("ocd", 10)]


def test_no_folder_no_results(tmp_path: Path):
    assert load_results(tmp_path / "none") == []


@pytest.mark.parametrize("change", [{"corpus": "../elsewhere"}, {"method": "a/b"}, {"seed": -1}])
def test_a_name_that_leaves_the_folder_is_refused(make_result, change):
    with pytest.raises(ValidationError):
        make_result(**change)
