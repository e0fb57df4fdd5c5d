from __future__ import annotations

import json

import numpy as np
import pytest

from orderfree.data.labels import LabelVocabulary
from orderfree.errors import DataError

SETS = [("b", "a"), ("b",), ("c", "b"), ("a", "b"), (), ("d",)]


@pytest.fixture
def labels() -> LabelVocabulary:
    return LabelVocabulary.count(SETS, "train.jsonl")


def test_labels_run_from_frequent_to_rare_and_ties_by_name(labels: LabelVocabulary) -> None:
    assert labels.names == ("b", "a", "c", "d")
    assert labels.counts == (4, 2, 1, 1)
    assert len(labels) == 4
    assert labels.ids == {"b": 0, "a": 1, "c": 2, "d": 3}


def test_combinations_do_not_depend_on_the_order_labels_were_written_in(labels: LabelVocabulary) -> None:
    assert labels.combinations == {(0, 1): 2, (0,): 1, (0, 2): 1, (): 1, (3,): 1}
    assert labels.longest_set == 2


def test_unknown_labels_are_left_out(labels: LabelVocabulary) -> None:
    assert labels.known(["c", "new", "b"]) == [2, 0]
    assert labels.known(["new"]) == []


def test_one_hot(labels: LabelVocabulary) -> None:
    rows = labels.one_hot([np.array([2, 0]), np.array([], dtype=np.int32)])
    assert rows.dtype == bool
    assert rows.tolist() == [[True, False, True, False], [False] * 4]


def test_json_round_trip(labels: LabelVocabulary) -> None:
    content = json.loads(json.dumps(labels.to_json()))
    assert LabelVocabulary.from_json(content) == labels


def test_a_single_label_is_nothing_to_choose_from() -> None:
    with pytest.raises(DataError, match=r"train\.csv: every label is 'only'; expected at least two"):
        LabelVocabulary.count([("only",), ("only",), ()], "train.csv")


def test_no_label_at_all() -> None:
    with pytest.raises(DataError, match=r"train\.csv: no example has a label"):
        LabelVocabulary.count([(), ()], "train.csv")
