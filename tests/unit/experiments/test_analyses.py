from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest

from orderfree.experiments.analyses import FREQUENCY_BINS, average_ranks, bin_names, example_f1_by_frequency


def test_frequency_bins_leave_no_gap():
    assert bin_names() == ["0", "1", "2-5", "6-20", "21-100", ">100"]
    for (_, last), (first, _) in pairwise(FREQUENCY_BINS):
        assert first == (last or 0) + 1


def test_example_f1_by_frequency_by_hand():
    counts = {frozenset("a"): 1, frozenset("ab"): 5, frozenset("c"): 101}
    targets = [("a",), ("b", "a"), ("a", "b"), ("c",), ("d",), ()]
    predicted = [("a", "b"), ("a", "b"), ("c",), ("c",), (), ()]
    found = {entry["times"]: entry for entry in example_f1_by_frequency(targets, predicted, counts)}
    assert found["0"] == {"times": "0", "examples": 2, "example_f1": 0.5}  # {d} missed; nothing for nothing is right
    assert found["1"]["example_f1"] == pytest.approx(2 / 3)
    assert found["2-5"] == {"times": "2-5", "examples": 2, "example_f1": 0.5}
    assert found["6-20"] == {"times": "6-20", "examples": 0, "example_f1": None}
    assert found[">100"] == {"times": ">100", "examples": 1, "example_f1": 1.0}


@pytest.mark.parametrize(("times", "name"), [(2, "2-5"), (5, "2-5"), (6, "6-20"), (20, "6-20"), (21, "21-100")])
def test_edges_of_the_bins(times, name):
    entries = example_f1_by_frequency([("a",)], [("a",)], {frozenset("a"): times})
    assert [entry["times"] for entry in entries if entry["examples"]] == [name]


def test_ranks_with_ties_by_hand():
    table = {"A": {"x": 0.9, "y": 0.1}, "B": {"x": 0.5, "y": 0.3}, "C": {"x": 0.5, "y": 0.2}}
    assert average_ranks([table], ["x", "y"]) == {
        "A": {"x": 1.0, "y": 3.0, "average": 2.0},
        "B": {"x": 2.5, "y": 1.0, "average": 1.75},
        "C": {"x": 2.5, "y": 2.0, "average": 2.25},
    }


def test_ranks_are_averaged_over_tables_and_incomplete_rows_left_out():
    first = {"A": {"x": Decimal("0.9")}, "B": {"x": Decimal("0.5")}, "C": {"x": Decimal("0.7")}}
    second = {"A": {"x": 0.1}, "B": {"x": 0.2}, "C": {"x": None}}
    assert average_ranks([first, second], ["x"]) == {
        "A": {"x": 1.5, "average": 1.5},
        "B": {"x": 1.5, "average": 1.5},
    }


def test_no_tables_no_ranks():
    assert average_ranks([], ["x"]) == average_ranks([{}], ["x"]) == {}
