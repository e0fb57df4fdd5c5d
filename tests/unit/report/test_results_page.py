from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from report_support import ATTACK, Outline, check_page

from orderfree.report.results import EXAMPLES_SHOWN, SECTIONS, render_results, write_results_report


def table(*cells: str, name: str = "OCD", paper: str = "0.872", notes: tuple[str, ...] = ()) -> dict[str, Any]:
    shown = [{"ours": cell, "spread": "0.014", "paper": paper, "best": place == 0} for place, cell in enumerate(cells)]
    empty = [{"ours": "", "spread": "", "paper": paper, "best": False} for _ in cells]
    return {
        "columns": [f"column {place}" for place in range(len(cells))],
        "rows": [{"name": name, "seeds": 2, "cells": shown}, {"name": "SVM", "seeds": 0, "cells": empty}],
        "notes": list(notes),
        "has_printed": bool(paper),
        "unmeasured": True,
    }


RUN: dict[str, Any] = {
    "name": "OCD",
    "method": "ocd",
    "seed": 1,
    "updates": 2190,
    "kept_update": 2000,
    "flattened": True,
    "cut_short": False,
    "parameters": 3_447_002,
    "train_examples": 6993,
    "truncated": 15,
    "seconds": {"train": 914.2, "test": 4.4},
    "commit": "abc123",
    "command": "orderfree reproduce reuters",
    "versions": {"torch": "2.9"},
    "config": {"seed": 1, "training": {"epochs": 3}},
}
CORPUS: dict[str, Any] = {
    "corpus": "reuters",
    "variant": "paper-small",
    "prefix": "part1",
    "methods": 1,
    "runs": [RUN],
    "best": {"name": "OCD", "average": "0.600"},
    "scores": table("0.611", "0.622", notes=("reuters is not comparable",)),
    "parts": {"More than one label": table("0.251")},
    "seen": table("0.333"),
    "seen_parts": {"Label sets that occur": table("0.334")},
    "combinations": table("147", paper="159"),
    "ranks": table("1.50"),
    "positions": table("0.901", paper=""),
    "frequency": table("0.411", paper=""),
    "drawings": {"positions": '<svg viewBox="0 0 1 1"><text>drawn</text></svg>', "curves": "<svg></svg>"},
    "labels": {
        "methods": ["OCD"],
        "f1": [{"label": f"label {n}", "support": 100 - n, "f1": [0.125 if n else None]} for n in range(45)],
        "by_method": [
            {
                "name": "OCD",
                "seed": 1,
                "rows": [
                    {"label": "grain", "support": 9, "predicted": 7, "precision": 0.5, "recall": 0.4, "f1": 0.444}
                ],
            }
        ],
    },
    "confused_pairs": [{"name": "OCD", "seed": 1, "pairs": [{"missed": "corn", "instead": "wheat", "count": 4}]}],
    "examples": [
        {
            "id": f"test/{n}",
            "target": ["corn", "grain"],
            "predicted": [{"names": ["BR", "OCD"], "labels": ["grain", "wheat"]}],
        }
        for n in range(EXAMPLES_SHOWN + 3)
    ],
}
OVERVIEW: dict[str, Any] = {
    "runs": 1,
    "drawn": True,
    "corpora": [CORPUS],
    "overall_ranks": [{"variant": "paper-small", "table": table("1.25"), "drawing": "<svg></svg>"}],
}
MAKING = {"folder": "results", "version": "1.2.3", "command": "orderfree report results"}


@pytest.fixture(scope="module")
def page() -> str:
    return render_results(OVERVIEW, MAKING)


def section(page: str, key: str) -> str:
    return re.split(r"<h[23] ", page.split(f'<h3 id="part1-{key}">')[1])[0]


def rows_of(page: str, key: str) -> list[list[str]]:
    rows = re.findall(r"<tr.*?>(.*?)</tr>", section(page, key), flags=re.DOTALL)
    cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]
    return [[re.sub(r"<.*?>", "", cell).strip() for cell in row] for row in cells]


def test_all_sections_stand_in_order_and_in_the_contents(page):
    assert re.findall(r'<h3 id="part1-(\w+)">', page) == list(SECTIONS)
    links = [attributes["href"] for tag, attributes in Outline(page).seen if tag == "a"]
    ids = [attributes["id"] for _, attributes in Outline(page).seen if "id" in attributes]
    assert links == ["#part1", *(f"#part1-{key}" for key in SECTIONS), "#overall"]
    assert set(links) == {f"#{name}" for name in ids}


def test_ours_stands_above_the_printed_number(page):
    head, ours, printed = rows_of(page, "scores")
    assert head == ["Model", "column 0 paper", "column 1 paper", "Seeds"]
    assert ours == ["OCD", "0.611 ± 0.014★ bestpaper 0.872", "0.622 ± 0.014paper 0.872", "2"]
    assert printed == ["SVM", "paper 0.872", "paper 0.872", ""]
    assert "reuters is not comparable" in section(page, "scores")
    assert "Rows with the paper's numbers only have no run in this folder." in section(page, "scores")


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("parts", "0.251"),
        ("seen", "0.333"),
        ("seen", "0.334"),
        ("combinations", "147"),
        ("ranks", "1.50"),
        ("positions", "0.901"),
        ("frequency", "0.411"),
        ("runs", "3,447,002"),
        ("runs", "914"),
        ("runs", "abc123"),
        ("runs", "orderfree reproduce reuters"),
        ("runs", "torch 2.9"),
        ("runs", "epochs: 3"),
        ("confused_pairs", "wheat"),
    ],
)
def test_every_table_is_in_its_section(page, key, number):
    assert number in section(page, key)


def test_drawings_stand_unescaped_in_their_sections(page):
    assert '<svg viewBox="0 0 1 1"><text>drawn</text></svg>' in section(page, "positions")
    assert "<svg" in section(page, "curves")


def test_numbers_of_a_figure_fold_away_only_where_there_is_the_figure(page):
    assert "<details>\n<summary>As numbers" in section(page, "positions")
    assert "<details open>\n<summary>As numbers" in section(page, "frequency")


def test_labels_by_method(page):
    rows = rows_of(page, "labels")
    assert rows[:3] == [["Label", "Support", "OCD"], ["label 0", "100", "–"], ["label 1", "99", "0.125"]]
    assert "Rarer labels (5)" in page
    assert ["grain", "9", "0.444", "0.500", "0.400", "7"] in rows


def test_examples_are_judged_in_the_order_of_generation(page):
    first = section(page, "examples").split("<article")[1]
    assert "BR · OCD" in first
    assert re.findall(r'<li class="chip (\w+)">.*</span> (.*)</li>', first) == [
        ("right", "grain"),
        ("wrong", "wheat"),
        ("missed", "corn"),
    ]
    assert "More examples (3)" in page


def test_without_matplotlib_the_page_says_so(page):
    assert "matplotlib" not in page
    without = {**OVERVIEW, "drawn": False, "corpora": [{**CORPUS, "drawings": {}}], "overall_ranks": []}
    said = render_results(without, MAKING)
    assert "matplotlib is not installed" in said
    assert "pip install 'orderfree[figures]'" in said
    assert 'id="part1-curves"' not in said
    assert "<svg" not in said


@pytest.mark.parametrize("key", ["scores", "parts", "seen", "combinations", "positions", "ranks", "labels", "examples"])
def test_what_is_missing_is_left_out(key):
    kind = type(CORPUS[key])
    page = render_results({**OVERVIEW, "corpora": [{**CORPUS, key: kind(), "drawings": {}}]}, MAKING)
    assert f'id="part1-{key}"' not in page
    assert f'href="#part1-{key}"' not in page
    Outline(page)


def poisoned(content: Any) -> Any:
    """Every text hostile, except drawings and anchors, which are ours."""
    if isinstance(content, dict):
        kept = ("drawings", "drawing", "prefix")
        return {key: value if key in kept else poisoned(value) for key, value in content.items()}
    if isinstance(content, list):
        return [poisoned(value) for value in content]
    return content + ATTACK if isinstance(content, str) else content


def test_everything_foreign_is_escaped():
    hostile = copy.deepcopy(OVERVIEW)
    hostile["corpora"][0]["parts"] = {ATTACK: table("0.5")}
    hostile["corpora"][0]["runs"][0]["versions"] = {ATTACK: ATTACK}
    hostile["corpora"][0]["runs"][0]["config"] = {ATTACK: ATTACK}
    page = render_results(poisoned(hostile), poisoned(MAKING))
    assert page.count("&lt;script&gt;") > 100
    assert page.count("<script") == 1, "our own"
    assert re.findall(r'<h3 id="part1-(\w+)">', page) == list(SECTIONS)
    Outline(page)


def test_the_page_needs_nothing_but_itself_and_can_be_read_aloud(page):
    check_page(page, inner_urls=True)


def test_the_overview_is_plain_json(tmp_path: Path):
    path = tmp_path / "out" / "page.html"
    write_results_report(path, json.loads(json.dumps(OVERVIEW)), MAKING)
    assert path.read_text(encoding="utf-8") == render_results(OVERVIEW, MAKING)
    assert list(path.parent.iterdir()) == [path]
