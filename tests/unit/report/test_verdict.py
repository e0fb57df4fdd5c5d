"""The first screen: whether a model can be used, in whole numbers a person can repeat."""

from __future__ import annotations

import re
from typing import Any

import pytest

from orderfree.decisions import records as decisions
from orderfree.report.page import render
from orderfree.report.verdict import BEST, FEWEST, advice, goals, judged, mistakes, of_hundred, statements

SCORES = {"micro_precision": 0.874, "micro_recall": 0.8149, "subset_accuracy": 0.5}


def row(label: str, f1: float, support: int = 20) -> dict[str, Any]:
    return {"label": label, "support": support, "predicted": support, "precision": f1, "recall": f1, "f1": f1}


ROWS = [row("fine", 0.8), row("so-so", 0.79), row("bad", 0.49), row("worse", 0.1, 40), row("rare", 0.0, FEWEST - 1)]


@pytest.mark.parametrize(
    ("share", "said"), [(0.0, "0"), (0.001, "1"), (0.874, "87"), (0.999, "99"), (1.0, "100"), (0.5, "50")]
)
def test_none_and_all_are_said_only_where_they_are_true(share: float, said: str) -> None:
    assert of_hundred(share) == said


def test_statements_have_their_uncertainty() -> None:
    right, found, exact = statements(SCORES, {"micro_precision": [0.853, 0.891], "micro_recall": [0.8149, 0.8149]})
    assert (right["number"], right["range"]) == ("87", "85 to 89")
    assert (found["number"], found["range"]) == ("81", "81")
    assert (exact["number"], exact["range"]) == ("50", "")
    assert statements({}, {}) == []


def test_labels_are_judged_by_f1_and_not_at_all_where_they_are_rare() -> None:
    groups = judged(ROWS)
    names = {kind: [one["label"] for one in rows] for kind, rows in groups.items()}
    assert names == {"work": ["fine"], "between": ["so-so"], "fail": ["worse", "bad"], "rare": ["rare"]}
    assert judged([]) == {}


def test_advice_is_to_collect_where_there_is_little_and_to_check_where_there_is_much() -> None:
    help = advice(judged(ROWS), {"so-so": 49, "bad": 50, "worse": 10, "rare": 1})
    assert [one["label"] for one in help["collect"]] == ["worse", "so-so"]  # 72 mistakes, 8.4
    assert [one["label"] for one in help["check"]] == ["bad"]
    assert mistakes(ROWS[3]) == pytest.approx(72)
    assert advice(judged(ROWS), {}) == {"collect": [], "check": []}


def test_a_decision_with_the_same_numbers_is_not_listed() -> None:
    assert BEST == decisions.BEST
    decoders = {"joint": SCORES, "best:micro_f1": SCORES, "best:macro_f1": {**SCORES, "micro_recall": 0.9}}
    rows = goals(decoders, "joint")
    assert [one["option"] for one in rows] == ["--decode joint", "--optimize-for macro_f1"]
    assert [one["values"] for one in rows] == [["87", "81", "50"], ["87", "90", "50"]]
    assert [one["recommended"] for one in goals(decoders, "best:macro_f1")] == [True, False]


def test_the_first_screen_says_it_in_sentences() -> None:
    evaluation = {
        "decoders": {"joint": SCORES, "br": SCORES},
        "default_decoder": "joint",
        "intervals": {"joint": {"micro_precision": [0.85, 0.89]}},
        "per_label": ROWS,
    }
    page = render(evaluation, [], {"training_counts": {"worse": 10, "bad": 60}})
    first = " ".join(re.sub(r"<.*?>", "", page.split("<main>")[1].split('<details class="section"')[0]).split())
    assert "87 of 100 predicted labels are right (85 to 89)" in first
    assert "81 of 100 true labels are found" in first
    assert "1 of 4 labels with enough test examples work" in first
    assert "Recommended decision: joint" in first
    assert re.search(r"More training examples .* first\): worse \(10\)\.", first)
    assert re.search(r"A check of the labelling .*: bad \(60\)\.", first)


def test_where_nothing_is_wrong_nothing_is_advised() -> None:
    page = render({"decoders": {"joint": SCORES}, "per_label": [row("fine", 0.9)]}, [], {})
    assert "Nothing stands out" in page
    assert "Recommended decision" not in page  # the only one that was asked for
