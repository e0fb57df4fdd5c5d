"""Labels of every type that scikit-learn's users hold them in, and what is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from orderfree import OrderFreeClassifier
from orderfree.data.arrays import Labelling
from orderfree.errors import OrderfreeError

TEXTS = ["red apple", "green pear", "red pear", "green apple"] * 5
SETTINGS = {
    "training.epochs": 1,
    "model.encoder": "sparse",
    "model.encoder_options.hidden": 4,
    "model.decoder_hidden": 4,
    "model.label_embedding": 3,
    "model.br_hidden": 4,
}


def fitted(y: Any) -> OrderFreeClassifier:
    return OrderFreeClassifier(settings=SETTINGS, decoder="br", random_state=1).fit(TEXTS, y)


ROWS = [["red", "apple"], ["green"], ["red", "pear"], ["green", "apple"]] * 5


def test_lists_of_numpy_arrays(tmp_path: Path) -> None:
    """What pandas.read_parquet gives of a column of lists."""
    pd.DataFrame({"text": TEXTS, "labels": ROWS}).to_parquet(tmp_path / "a.parquet")
    column = pd.read_parquet(tmp_path / "a.parquet")["labels"]
    assert isinstance(column[0], np.ndarray)
    expected = Labelling.of(ROWS)
    for y in (column, list(column), column.to_numpy()):
        assert Labelling.of(y).read(y) == expected.read(ROWS)
        assert Labelling.of(y).names == expected.names
    assert fitted(list(column)).predict(TEXTS) == fitted(ROWS).predict(TEXTS)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float32, np.str_, int])
def test_numpy_labels_are_saved_and_come_back(tmp_path: Path, kind: Any) -> None:
    y = [[kind(1), kind(2)], [kind(3)], [kind(1)], [kind(3), kind(2)]] * 5
    classifier = fitted(y)
    classifier.save(tmp_path / "model")
    json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    loaded = OrderFreeClassifier.load(tmp_path / "model")
    assert loaded.classes_.tolist() == classifier.classes_.tolist()
    assert {type(label) for label in loaded.classes_.tolist()} == {type(kind(1).item() if kind is not int else 1)}
    assert loaded.predict(TEXTS) == classifier.predict(TEXTS)


def test_labels_of_several_types_stay_what_they_are(tmp_path: Path) -> None:
    y = [[1, "red"], ["apple"], [2.5, "red"], ["apple", 1]] * 5
    classifier = fitted(y)
    assert sorted(classifier.classes_.tolist(), key=str) == [1, 2.5, "apple", "red"]
    classifier.save(tmp_path / "model")
    assert OrderFreeClassifier.load(tmp_path / "model").classes_.tolist() == classifier.classes_.tolist()
    column = np.array([1, "red", 2, "apple"] * 5, dtype=object)
    assert set(map(type, fitted(column).predict(TEXTS).tolist())) <= {int, str}


@pytest.mark.parametrize(
    ("y", "told"),
    [
        ([[("a", "b")], [("c",)], [("a", "b"), ("c",)], []] * 5, "a tuple; name each label by a string or a number"),
        ([[None], ["a", "b"], ["a"], []] * 5, "a NoneType"),
        ([[b"a"], ["a", "b"], ["c"], []] * 5, "a bytes"),
        ([[1], ["1", "b"], ["c"], []] * 5, "written the same"),
        (np.array([1, "1", 2, "a"] * 5, dtype=object), "written the same"),
    ],
)
def test_what_is_no_label_is_said(y: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        fitted(y)


@pytest.mark.parametrize(
    "face",
    [
        {"kind": "surprise", "classes": ["apple"]},
        {"kind": "lists", "classes": "apple"},
        {"kind": "lists", "classes": ["apple"]},
        {"kind": "lists", "classes": ["apple", "green", "pear", "red"], "features": "many"},
        [],
    ],
)
def test_a_file_that_says_nothing_of_its_labels(tmp_path: Path, face: Any) -> None:
    classifier = fitted(ROWS)
    classifier.predictor_.trained.provenance["estimator"] = face
    classifier.save(tmp_path / "model")
    with pytest.raises(OrderfreeError, match="is no model of a classifier"):
        OrderFreeClassifier.load(tmp_path / "model")
