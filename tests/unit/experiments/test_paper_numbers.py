from __future__ import annotations

from decimal import Decimal

import pytest

from orderfree.experiments.paper import (
    COMBINATIONS,
    DECODERS,
    METHODS,
    METRICS,
    PERFORMANCE,
    RANKED,
    REFERENCE,
    counterpart,
)

# rows whose printed average is more than 0.0015 away from the mean of their five columns
WRONG_AVERAGES = {
    ("reuters", "test"): (("order-free-rnn", "beam"),),  # prints 0.806, the columns say 0.808
    ("rcv1", "test"): (("ocd-mtl", "br"),),  # prints 0.813, the columns say 0.809
}


def test_printed_averages_are_those_of_their_columns_but_for_the_known_rows():
    wrong: dict = {}
    for table, rows in PERFORMANCE.items():
        for row, scores in rows.items():
            *five, average = (scores[metric] for metric in METRICS)
            if average is not None and abs(sum(five) / 5 - average) > Decimal("0.0015"):
                wrong[table] = (*wrong.get(table, ()), row)
    assert wrong == WRONG_AVERAGES


@pytest.mark.parametrize("table", PERFORMANCE, ids=" ".join)
def test_rows_are_known_and_complete(table):
    for (method, decoder), scores in PERFORMANCE[table].items():
        assert method in METHODS
        assert decoder in DECODERS
        assert list(scores) == list(METRICS)
        assert all(value is None or 0 < value < 1 for value in scores.values())


def test_numbers_print_as_the_paper_prints_them():
    reuters = PERFORMANCE["reuters", "test"]
    assert str(reuters["encdec", "beam"]["hamming_accuracy"]) == "0.996"
    assert str(PERFORMANCE["rcv1", "test"]["ocd-mtl", "joint"]["hamming_accuracy"]) == "0.9920"
    assert str(reuters["ocd-mtl", "joint"]["macro_f1"]) == "0.490"
    assert reuters["svm", "br"]["subset_accuracy"] is None


def test_best_of_reuters_as_quoted_in_the_text():
    columns = {metric: max(s[metric] or 0 for s in PERFORMANCE["reuters", "test"].values()) for metric in METRICS}
    assert [float(value) for value in columns.values()] == [0.490, 0.877, 0.905, 0.844, 0.9967, 0.822]


def test_combinations_by_hand():
    assert COMBINATIONS["aapd"][REFERENCE] == {"distinct": 392, "unseen": 43}
    assert COMBINATIONS["audioset"]["order-free-rnn-ss", "beam"] == {"distinct": 1789, "unseen": 237}


def test_ranked_methods_are_in_all_four_performance_tables():
    for corpus in ("aapd", "reuters", "audioset", "rcv1"):
        assert set(RANKED) <= set(PERFORMANCE[corpus, "test"])


def test_counterparts():
    assert counterpart("reuters") == ("reuters", "")
    assert counterpart("aapd")[0] == "aapd"
    assert counterpart("aapd")[1].startswith("near-comparable")
    assert counterpart("toy") == ("toy", "")
