"""What a Python user does in the first hour, and what is said where it cannot work."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from sklearn.model_selection import cross_validate

import orderfree
from orderfree.checkpoint import save_model
from orderfree.errors import ConfigError, DataError, OrderfreeError
from orderfree.estimator import OrderFreeClassifier
from orderfree.evaluation import evaluate
from orderfree.inference import Predictor
from orderfree.types import Example
from unit_models import made_model

TINY: dict[str, Any] = {
    "model": {"encoder": "sparse", "encoder_options": {"hidden": 8}, "decoder_hidden": 8, "label_embedding": 4},
    "training": {"epochs": 1, "tensorboard": False},
}
ROWS = [{"id": f"row {i}", "text": f"word{i % 3} text", "labels": [f"l{i % 3}", "all"]} for i in range(30)]
TEXTS = ["two red fish", "a blue pond", ""]


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(made_model(seed=5))


def test_the_public_names_are_listed_without_importing_torch() -> None:
    assert dir(orderfree) == sorted(orderfree.__all__)
    assert {"load", "train", "Predictor", "OrderFreeClassifier", "Prediction"} <= set(dir(orderfree))
    assert all(getattr(orderfree, name) is not None for name in dir(orderfree))
    looked = "import sys, orderfree; dir(orderfree); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", looked], check=False).returncode == 0


def test_texts_dicts_and_examples_are_the_same(predictor: Predictor) -> None:
    examples = [Example(str(place), text=text) for place, text in enumerate(TEXTS)]
    expected = predictor.predict(examples)
    dicts = [{"text": text} for text in TEXTS]
    columns = [np.array(TEXTS), pandas.Series(TEXTS, index=[7, 8, 9]), polars.Series(TEXTS), tuple(TEXTS)]
    for inputs in (TEXTS, dicts, *columns):
        found = predictor.predict(inputs)
        assert [one.label_sets for one in found] == [one.label_sets for one in expected]
        assert [one.example.id for one in found] == ["0", "1", "2"]
        assert np.array_equal(predictor.predict_proba(inputs), predictor.predict_proba(examples))
    assert [one.labels for one in predictor.predict(iter(TEXTS))] == [one.labels for one in expected]
    assert predictor.predict([]) == []
    assert predictor.predict([{"id": "mine", "text": "fish"}])[0].example.id == "mine"


def test_a_prediction_says_its_labels_probability_and_alternatives(predictor: Predictor) -> None:
    (one,) = predictor.predict(TEXTS[:1], ["beam", "br"])
    assert one.labels == one.label_sets["beam"].labels
    assert one.probability == pytest.approx(np.exp(one.label_sets["beam"].log_prob))
    assert [labels for labels, _ in one.alternatives] == [labels for labels, _ in one.label_sets["beam"].alternatives]
    assert all(0 <= share <= 1 for _, share in one.alternatives)
    (threshold,) = predictor.predict(TEXTS[:1], ["br"])
    assert threshold.alternatives == ()


def test_a_model_is_loaded_in_one_line(tmp_path: Path) -> None:
    model = made_model(seed=5)
    model.provenance = {"train_examples": 1, "valid_examples": 1, "data": {}, "versions": {}}
    model.metrics = {"validation": {}}
    save_model(model, tmp_path, "a card")
    expected = Predictor(model).predict(TEXTS)
    assert [one.labels for one in orderfree.load(tmp_path).predict(TEXTS)] == [one.labels for one in expected]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("one text", r"the input is 'one text', expected a list of them.*\[input\]"),
        ({"text": "one"}, "expected a list of them"),
        (["a text", float("nan")], "input 1 is nan, expected a text, a dict or an orderfree.Example"),
        (["a text", None], "input 1 is None"),
        ([{"title": "x"}], r"input 0 has no text under 'text' \(its keys are 'title'\).*data.text_field"),
        (pandas.DataFrame({"text": ["x"], "n": [1]}), r"data frame with the columns 'text', 'n'.*frame\['text'\]"),
        (polars.DataFrame({"body": ["x"]}), r"frame\['body'\]"),
    ],
)
def test_what_cannot_be_predicted_is_said(predictor: Predictor, inputs: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        predictor.predict(inputs)


def test_training_takes_dicts_and_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    with caplog.at_level(logging.INFO, logger="orderfree"):
        trained = orderfree.train(TINY, ROWS, ROWS, tmp_path / "run")
    assert trained.labels.names[0] == "all"
    lines = [record.getMessage() for record in caplog.records if record.name == "orderfree"]
    assert any("labels" in line for line in lines)
    assert any(line.startswith("update 1 of 1") for line in lines)
    assert capfd.readouterr() == ("", "")
    assert evaluate(Predictor(trained), [Example("1", text="word0", labels=("l0",))])["examples"] == 1


@pytest.mark.parametrize(
    ("config", "rows", "error", "message"),
    [
        (TINY, [], DataError, "no examples to learn from"),
        (TINY, ["a text"], DataError, "input 0 is 'a text', expected a dict such as"),
        (TINY, [{"text": "x"}], DataError, "input 0 has nothing under 'labels', expected a list of names"),
        (TINY, [{"text": "x", "labels": "a;b"}], DataError, "input 0 has 'a;b' under 'labels'"),
        (TINY, [{"text": "x", "labels": float("nan")}], DataError, "has nan under 'labels'"),
        (TINY, pandas.DataFrame(ROWS), DataError, "the input is a data frame"),
        ({"modell": {}}, ROWS, ConfigError, "unknown key 'modell'"),
        ("fast.yaml", ROWS, ConfigError, "the config is 'fast.yaml', expected what load_config returns"),
    ],
)
def test_what_cannot_be_trained_on_is_said(
    config: Any, rows: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        orderfree.train(config, rows, None, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (["a", "b", "c"], ["x", float("nan"), "y"], "y holds NaN at position 1"),
        (["a", "b", "c"], [["x"], float("nan"), ["y"]], "y holds NaN at position 1"),
        (["a", "b"], [["x"], ["y", float("nan")]], "y holds NaN at position 1"),
        (["a", "b"], pandas.Series([["x"], float("nan")]), "y holds NaN at position 1"),
        (pandas.DataFrame({"text": ["a", "b"]}), [["x"], ["y"]], r"column 'text' holds texts.*X\['text'\]"),
        (polars.DataFrame({"text": ["a", "b"]}), [["x"], ["y"]], r"X\['text'\]"),
        (np.array([["a"], ["b"]]), [["x"], ["y"]], r"give one column, X\[:, 0\]"),
        ([], [], "X is empty"),
        ("a text", [["x"]], "X is a single text"),
    ],
)
def test_what_cannot_be_fitted_is_said(inputs: Any, targets: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OrderFreeClassifier().fit(inputs, targets)


def test_a_dict_is_no_config_file() -> None:
    with pytest.raises(OrderfreeError, match="give config keys as settings"):
        OrderFreeClassifier(config={"model": {}}).fit(["a", "b"], [["x"], ["y"]])  # type: ignore[arg-type]


SMALL = {"model.encoder": "sparse", "model.encoder_options.hidden": 8, "training.epochs": 1, "decoding.beam_width": 2}


def test_cross_validation_with_a_number_of_folds() -> None:
    """scikit-learn refuses lists of lists before it asks the classifier; sets of labels it does not look into."""
    texts, sets = [row["text"] for row in ROWS], [set(row["labels"]) for row in ROWS]
    classifier = OrderFreeClassifier(settings=SMALL, random_state=1)
    found = cross_validate(classifier, texts, sets, cv=2, error_score="raise")
    assert len(found["test_score"]) == 2
    lists = [row["labels"][: 1 + place % 2] for place, row in enumerate(ROWS)]
    with pytest.raises(ValueError, match=r"legacy multi-label|inhomogeneous"):
        cross_validate(classifier, texts, lists, cv=2, error_score="raise")
    fitted = classifier.fit(texts, sets)
    assert fitted.predict([]) == []
