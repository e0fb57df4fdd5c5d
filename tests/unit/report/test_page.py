from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from report_support import ATTACK, Outline, check_page

from orderfree.report.page import (
    LABELS_FOLDED,
    SECTIONS,
    best_of_column,
    how_examples_were_chosen,
    learning_curves,
    render,
    shown_example,
    size_table,
    write_report,
)

EVALUATION: dict[str, Any] = {
    "model": "runs/toy",
    "data": "test.jsonl",
    "examples": 1200,
    "labels": 3,
    "decoders": {
        "greedy": {"macro_f1": 0.5, "micro_f1": 0.61, "average": 0.5551, "micro_recall": 0.4},
        "joint": {"macro_f1": 0.6, "micro_f1": 0.61, "average": 0.6051, "micro_recall": 0.5},
    },
    "default_decoder": "joint",
    "threshold": 0.4125,
    "per_label": [
        {"label": "rare", "support": 2, "predicted": 1, "precision": 1.0, "recall": 0.5, "f1": 2 / 3},
        {"label": "frequent", "support": 900, "predicted": 890, "precision": 0.9, "recall": 0.89, "f1": 0.895},
        {"label": "absent", "support": 0, "predicted": 0, "precision": 0.0, "recall": 0.0, "f1": 0.0},
    ],
    "unseen_labels": ["novel"],
    "truncated": 37,
    "combinations": {"reference": {"distinct": 392, "unseen": 43}, "joint": {"distinct": 302, "unseen": 30}},
    "position_accuracy": {"greedy": [0.9, 0.5], "joint": [0.95, 0.6, 0.25]},
    "calibration": {
        "cells": 3600,
        "expected_calibration_error": 0.0125,
        "brier_score": 0.0214,
        "likely_from": 0.05,
        "likely_cells": 1600,
        "likely_expected_calibration_error": 0.0563,
        "reliability": [
            {"lower": 0.0, "upper": 1 / 15, "mean_probability": 0.01, "share_true": 0.002, "count": 2100},
            {"lower": 14 / 15, "upper": 1.0, "mean_probability": 0.98, "share_true": 0.91, "count": 1500},
        ],
    },
    "answered": [
        {"share": 1.0, "abstain_below": 0.1, "subset_accuracy": 0.6, "example_f1": 0.7},
        {"share": 0.5, "abstain_below": 0.812599, "subset_accuracy": 0.875, "example_f1": 0.9},
    ],
    "examples_shown": [
        {"id": "one", "text": "some words", "target": ["a", "b"], "predicted": ["b", "c"], "log_prob": math.log(0.25)}
    ],
    "confused_pairs": [{"missed": "rare", "instead": "frequent", "count": 4}],
    "intervals": {"joint": {"macro_f1": [0.551, 0.649], "micro_f1": [0.6, 0.62]}},
    "at_k": {"br": {f"{name}@{k}": 0.5 + k / 100 for name in ("p", "r", "ndcg", "psp") for k in (1, 3, 5, 10)}},
    "co_occurrence": [{"labels": ["rare", "frequent"], "true": 2, "predicted": 1}],
    "set_sizes": [
        {"true": 1, "predicted": 1, "count": 700},
        {"true": 1, "predicted": 2, "count": 400},
        {"true": 3, "predicted": 2, "count": 90},
        {"true": 9, "predicted": 12, "count": 10},
    ],
    "precision_recall": [
        {"threshold": 0.0, "precision": 0.1, "recall": 1.0},
        {"threshold": 0.5, "precision": 0.8, "recall": 0.7},
    ],
}
HISTORY: list[dict[str, Any]] = [
    {"update": 1, "epoch": 0.5, "loss": 3.0, "loss_ocd": 2.0, "loss_br": 1.0},
    {"update": 2, "epoch": 1.0, "loss": 2.0, "loss_ocd": 1.5, "loss_br": 0.5},
    {"update": 2, "validation": {"greedy": {"micro_f1": 0.5}, "joint": {"micro_f1": 0.6}}},
]
CARD: dict[str, Any] = {
    "name": "toy",
    "created": "2025-01-02",
    "version": "1.2.3",
    "config": {"seed": 0, "training": {"select_metric": "micro_f1"}},
    "parameters": 12_345,
    "seed": 0,
    "versions": {"torch": "2.9"},
    "command": "orderfree train data.jsonl",
    "facts": {"Training examples": "2,000"},
    "promises": {"recall=0.9": "At least 90 % of the true labels"},
    "text": "# The card\n\nKnows `sport` (514).",
}


@pytest.fixture(scope="module")
def page() -> str:
    return render(EVALUATION, HISTORY, CARD)


def headings(page: str) -> list[str]:
    """The folded sections."""
    return re.findall(r'</summary>\n<div id="(\w+)">', page)


def part_of(page: str, section: str) -> str:
    return page.split(f'<div id="{section}">')[1].split('<details class="section"')[0]


def words_of(part: str) -> str:
    return " ".join(re.sub(r"<.*?>", "", part).split())


def rows_of(page: str, section: str) -> list[list[str]]:
    """The body rows of a section's tables, as text."""
    rows = re.findall(r"<tr>(.*?)</tr>", part_of(page, section), flags=re.DOTALL)
    cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]
    return [[re.sub(r"<.*?>", "", cell).strip() for cell in row] for row in cells]


def test_all_sections_stand_in_order(page):
    assert headings(page) == list(SECTIONS)
    Outline(page)


def test_only_promises_and_labels_are_unfolded(page):
    assert page.count('<details class="section"') == len(SECTIONS)
    assert page.count('<details class="section" open>') == 2


def test_the_best_of_each_column_is_marked_in_words_too(page):
    header, greedy, joint, *_ = rows_of(page, "decoders")
    assert header == ["Decoder", "Average", "Macro F1", "Micro F1"]
    assert greedy == ["greedy", "0.555", "0.500", "0.610"]
    assert joint == ["joint default", "0.605★ best", "0.600★ best 0.551 – 0.649", "0.610 0.600 – 0.620"]


def test_best_of_column_knows_what_best_means():
    row = {"true_labels_per_example": 2.0}
    decoders = {name: {**row, "predicted_labels_per_example": value} for name, value in [("a", 2.2), ("b", 1.9)]}
    assert best_of_column(decoders, "predicted_labels_per_example") == {"b"}
    assert best_of_column(decoders, "true_labels_per_example") == set()
    assert best_of_column({"a": {"micro_f1": 0.7}}, "micro_f1") == set()
    assert best_of_column({"a": {"m": 0.70001}, "b": {"m": 0.70002}, "c": {"m": 0.6}}, "m") == {"a", "b"}
    assert best_of_column({"a": {"m": math.nan}, "b": {}, "c": {"m": 0.6}, "d": {"m": 0.5}}, "m") == {"c"}


def test_labels_are_sorted_by_support_and_absent_ones_counted(page):
    assert [row[:3] for row in rows_of(page, "labels")[1:]] == [["frequent", "900", "0.895"], ["rare", "2", "0.667"]]
    assert "nor were predicted have an F1 of 0 in the macro scores: 1." in page


def test_of_many_labels_the_worst_and_the_most_frequent_are_listed():
    """Label 7 has the most mistakes: 500 of its 1,000 examples are missed, and half of 1,000 predictions are wrong."""
    many = [
        {"label": f"label {n}", "support": n, "predicted": n, "precision": 0.9, "recall": 0.9, "f1": 0.9}
        for n in range(1, 5001)
    ]
    many[6] |= {"support": 1000, "predicted": 1000, "precision": 0.5, "recall": 0.5, "f1": 0.5}
    many[4999] |= {"precision": 1.0, "recall": 1.0, "f1": 1.0}
    page = render({**EVALUATION, "per_label": many}, [], {})
    names = [row[0] for row in rows_of(page, "labels") if row[0] != "Label"]
    assert names[:2] == ["label 7", "label 4999"]
    assert names[20:22] == ["label 5000", "label 4999"]
    assert len(names) == 40 + LABELS_FOLDED
    assert "The next 500 labels by frequency" in page
    assert "4,480 rarer labels are not listed on this page" in page


def test_first_labels(page):
    assert rows_of(page, "at_k")[1] == ["Binary relevance", "precision", "0.510", "0.530", "0.550", "0.600"]
    assert "at_k" not in headings(render({**EVALUATION, "at_k": {}}, [], {}))


def test_the_other_tables(page):
    assert rows_of(page, "confused_pairs")[1] == ["rare", "frequent", "4"]
    assert rows_of(page, "combinations")[1:] == [["reference", "392", "43"], ["joint", "302", "30"]]
    assert rows_of(page, "positions")[1:] == [["greedy", "0.900", "0.500", "–"], ["joint", "0.950", "0.600", "0.250"]]


def test_whether_probabilities_are_right_is_said_drawn_and_counted(page):
    part = part_of(page, "calibration")
    said = words_of(part)
    assert "off by 1.2 percentage points (expected calibration error 0.013), and by 5.6" in said
    assert "at least 5 % (0.056; 1,600 of 3,600" in said
    assert "is 0.021 (Brier score)" in said
    assert part.count("<circle") == 2
    assert rows_of(page, "calibration")[1:] == [
        ["0.00 – 0.07", "0.010", "0.002", "2,100"],
        ["0.93 – 1.00", "0.980", "0.910", "1,500"],
    ]


@pytest.mark.parametrize("missing", [{}, {"calibration": None}, {"calibration": {"cells": 0, "reliability": []}}])
def test_without_probabilities_nothing_is_said_about_them(missing):
    without = {name: value for name, value in EVALUATION.items() if name != "calibration"}
    page = render({**without, **missing}, HISTORY, CARD)
    assert "Are the probabilities calibrated?" not in page
    assert headings(page) == [key for key in SECTIONS if key != "calibration"]


def test_probabilities_that_are_all_unlikely():
    one = {"lower": 0.0, "upper": 1 / 15, "mean_probability": 0.01, "share_true": 0.01, "count": 1}
    unlikely = {"likely_cells": 0, "likely_expected_calibration_error": None, "expected_calibration_error": 0.00004}
    page = render({"calibration": {**EVALUATION["calibration"], **unlikely, "reliability": [one]}}, [], {})
    assert "less than 0.1 percentage points" in page
    assert "at least 5 %" not in page
    Outline(page)


def test_notices(page):
    help = words_of(page.split('<h2 id="advice">')[1].split("</section>")[0])
    assert "37 texts are longer than the model reads" in help
    assert (
        "Training examples of new labels: 1 label of this data does not occur in training and is always missed: novel"
        in help
    )


def test_examples_show_right_wrong_and_missed(page):
    example = shown_example(EVALUATION["examples_shown"][0])
    assert example["chips"] == [("right", "b"), ("wrong", "c"), ("missed", "a")]
    assert example["probability"] == pytest.approx(0.25)
    for symbol, kind in (("✓", "right"), ("✗", "wrong"), ("+", "missed")):
        assert f'<span aria-hidden="true">{symbol}</span><span class="unseen">{kind}:</span>' in page


def test_examples_say_how_they_were_chosen(page):
    assert "the wrong prediction with the highest probability. They are not a representative sample." in page
    right = shown_example({"target": ["a"], "predicted": ["a"]})
    both = how_examples_were_chosen([shown_example(EVALUATION["examples_shown"][0]), right, right])
    assert "probability and, below them, the first 2 right predictions." in both


def test_long_texts_are_cut_between_words():
    text = shown_example({"text": "word " * 500})["text"]
    assert len(text) < 500
    assert text.endswith("word …")


def test_curves_are_one_line_per_loss_term_and_decoder():
    loss, validation = learning_curves(HISTORY, ["greedy", "joint"], "micro_f1")
    assert loss.legend == [("total", 0), ("ocd", 1), ("br", 2)]
    assert validation.legend == [("greedy", 0), ("joint", 1)]
    assert validation.title == "Validation: Micro F1"


def test_a_decoder_keeps_its_style_where_others_are_missing():
    (validation,) = learning_curves(HISTORY[2:], ["br", "beam", "joint"], "micro_f1")
    assert validation.legend == [("joint", 2), ("greedy", 3)]


def test_how_it_was_made(page):
    for said in ("12,345", "torch 2.9", "orderfree train data.jsonl", "select_metric: micro_f1", "<dt>Seed</dt><dd>0"):
        assert said in page


def test_the_model_card(page):
    assert "<h3>The card</h3>\n<p>Knows <code>sport</code> (514).</p>" in page
    assert "<dt>Training examples</dt><dd>2,000</dd>" in page


def test_validation_scores_say_what_they_are():
    page = render({"part": "validation", "decoders": EVALUATION["decoders"], "notes": ["Make `x <y>`."]}, HISTORY, CARD)
    assert "Scores on the validation part" in page
    assert '<p class="notice">Make <code>x &lt;y&gt;</code>.</p>' in page
    assert headings(page) == ["promises", "decoders", "curves", "card", "making"]


def poisoned(content: Any) -> Any:
    text = json.dumps(content)
    for word in ("joint", "rare", "frequent", "novel", "a", "one", "some words", "test.jsonl", "toy", "torch", "1.2.3"):
        text = text.replace(f'"{word}"', json.dumps(word + ATTACK))
    return json.loads(text)


def test_everything_foreign_is_escaped():
    page = render(
        poisoned(EVALUATION),
        poisoned(HISTORY),
        {**poisoned(CARD), "command": ATTACK, "config": {"x": ATTACK}, "text": ATTACK, "facts": {ATTACK: ATTACK}},
    )
    assert headings(page) == list(SECTIONS)
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 20
    assert page.count("<script") == 1, "our own"
    Outline(page)


def test_the_page_needs_nothing_but_itself_and_can_be_read_aloud(page):
    check_page(page)


@pytest.mark.parametrize("empty", [{}, {"decoders": {}, "per_label": [], "threshold": None, "position_accuracy": {}}])
def test_nothing_known_is_still_a_page(empty):
    page = render(empty, [], {})
    assert headings(page) == []
    Outline(page)


@pytest.mark.parametrize("key", EVALUATION)
def test_each_input_may_be_missing_or_empty(key):
    without = {name: value for name, value in EVALUATION.items() if name != key}
    Outline(render(without, HISTORY, CARD))
    Outline(render({**without, key: None}, HISTORY, CARD))


@pytest.mark.parametrize("key", CARD)
def test_each_part_of_the_card_may_be_missing_or_empty(key):
    without = {name: value for name, value in CARD.items() if name != key}
    Outline(render(EVALUATION, HISTORY, without))
    Outline(render(EVALUATION, HISTORY, {**without, key: None}))


def test_numbers_that_are_none_leave_the_page_whole():
    broken = copy.deepcopy(EVALUATION)
    broken["decoders"]["joint"]["micro_f1"] = math.nan
    broken["examples_shown"] = [{"id": "x", "text": None, "target": [], "predicted": [], "log_prob": -math.inf}]
    page = render(broken, [{"update": 1, "loss": math.nan}], CARD)
    assert "This example has no labels, and none were predicted." in page
    assert "curves" not in headings(page)


def test_write_report_replaces_the_file_and_leaves_nothing_else(tmp_path: Path):
    path = tmp_path / "out" / "report.html"
    write_report(path, EVALUATION, HISTORY, CARD)
    write_report(path, EVALUATION, HISTORY, CARD)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(path.parent.iterdir()) == [path]


def test_numbers_of_labels(page):
    header, one, two, three, *_, many = rows_of(page, "sizes")
    assert header == ["True", "1", "2", "3", "4", "5", "6", "7", "8+"]
    assert one[:4] == ["1", "700", "400", "·"]
    assert set(two[1:]) == {"·"}
    assert three[:3] == ["3", "·", "90"]
    assert (many[0], many[-1]) == ("8+", "10")
    assert "right for 59.2 %" in page
    assert size_table([]) == {}


def test_labels_together(page):
    assert rows_of(page, "together") == [["Labels", "True", "Predicted"], ["rare + frequent", "2", "1"]]


def test_an_example_is_told_step_by_step() -> None:
    steps = [
        {
            "taken": ATTACK, "prob": 0.7, "may_stop": False, "must_stop": False,
            "candidates": [{"label": ATTACK, "prob": 0.7, "br": 0.25}, {"label": None, "prob": 0.3, "br": None}],
        },
        {
            "taken": None, "prob": 0.9, "may_stop": True, "must_stop": True,
            "candidates": [{"label": None, "prob": 0.9, "br": None}],
        },
    ]  # fmt: skip
    example = {"id": "1", "text": "a", "target": [], "predicted": [ATTACK], "log_prob": -1.0}
    told = {**EVALUATION, "examples_shown": [{**example, "generation": {"told_by": "beam", "steps": steps, "br": []}}]}
    page = render(told, [], {})
    check_page(page)
    shown = page[page.index('<ol class="steps">') :]
    assert ATTACK not in shown
    assert shown.count('class="taken"') == 2
    assert "BR 0.250" in shown
    assert shown.index("may not stop yet") < shown.index("2. stop") < shown.index("no more labels are allowed")


def test_a_model_without_a_label_decoder_tells_its_likeliest_labels() -> None:
    br = [
        {"label": "a", "br": 0.9, "threshold": 0.4, "taken": True},
        {"label": "b", "br": 0.1, "threshold": 0.4, "taken": False},
    ]
    example = {"id": "1", "text": "a", "target": [], "predicted": ["a"], "log_prob": -1.0}
    told = {**EVALUATION, "examples_shown": [{**example, "generation": {"told_by": None, "steps": [], "br": br}}]}
    shown = render(told, [], {}).split('<ol class="steps">')[1]
    assert shown.count('class="taken"') == 1
    assert "from 0.400" in shown


def test_the_point_where_a_wanted_quality_is_reached(page):
    words = words_of(part_of(page, "answered"))
    assert "is 0.600 among all examples and 0.875 among the most certain 50 %" in words
    assert rows_of(page, "answered") == [
        ["Exactly right", "Answered", "Option of predict"],
        ["80 %", "50 %", "--abstain-below 0.81259"],
        ["70 %", "50 %", "--abstain-below 0.81259"],
    ]
    assert part_of(page, "answered").count("<circle") == 2


def test_promises_are_in_words(page):
    assert "recall=0.9: At least 90 % of the true labels" in words_of(part_of(page, "promises"))
