"""OrderFreeClassifier: every kind of input and answer, scikit-learn's tools around it, directories, weights."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline

from orderfree import OrderFreeClassifier, OrderfreeError
from orderfree.cli.main import run
from orderfree.data.arrays import Labelling
from orderfree.testing.toy import toy_corpus

TINY = {
    "training.epochs": 1,
    "model.label_embedding": 4,
    "model.decoder_hidden": 8,
    "decoding.beam_width": 2,
    "model.encoder_options": {"c": 1.0, "folds": 2},
}
CORPUS = toy_corpus(seed=1, train=80, valid=20, test=20)
TEXTS = [str(example.text) for example in CORPUS.train]
LABELS = [list(example.labels or ()) for example in CORPUS.train]
NAMES = sorted({label for labels in LABELS for label in labels})
MATRIX = np.array([[int(name in labels) for name in NAMES] for labels in LABELS])
NEW = [str(example.text) for example in CORPUS.test]


def small(**changes: Any) -> OrderFreeClassifier:
    return OrderFreeClassifier(**{"settings": TINY, "random_state": 3, **changes})


@pytest.fixture(scope="module")
def fitted() -> OrderFreeClassifier:
    return small().fit(TEXTS, LABELS)


def as_sets(rows: Any) -> list[set[str]]:
    return [set(row) for row in rows]


@pytest.mark.parametrize(
    "column",
    [
        np.array(NEW, dtype=object),
        np.array(NEW),
        tuple(NEW),
        pandas.Series(NEW, index=range(5, 5 + len(NEW))),
        polars.Series(NEW),
    ],
    ids=["objects", "strings", "tuple", "pandas", "polars"],
)
def test_texts_come_in_any_column(fitted: OrderFreeClassifier, column: Any) -> None:
    assert fitted.predict(column) == fitted.predict(NEW)
    assert np.array_equal(fitted.predict_proba(column), fitted.predict_proba(NEW))


def test_training_on_columns_of_data_frames_is_training_on_lists(fitted: OrderFreeClassifier) -> None:
    for frame in (pandas.DataFrame({"x": TEXTS, "y": LABELS}), polars.DataFrame({"x": TEXTS, "y": LABELS})):
        again = small().fit(frame["x"], frame["y"])
        assert as_sets(again.predict(NEW)) == as_sets(fitted.predict(NEW))
        assert np.array_equal(again.predict_proba(NEW), fitted.predict_proba(NEW))


def test_every_kind_of_answer_names_the_same_sets(fitted: OrderFreeClassifier) -> None:
    lists = fitted.predict(NEW)
    assert isinstance(lists, list)
    assert any(lists)
    expected = np.array([[int(name in labels) for name in NAMES] for labels in lists])
    dense = small().fit(TEXTS, pandas.DataFrame(MATRIX, columns=NAMES))
    assert list(dense.classes_) == NAMES
    assert np.array_equal(dense.predict(NEW), expected)
    answer = dense.predict(NEW)
    assert isinstance(answer, np.ndarray)
    # column numbers instead of names: labels that are equally frequent may change places, the kind is what counts
    as_matrix = small().fit(TEXTS, sparse.csr_matrix(MATRIX))
    assert sparse.issparse(as_matrix.predict(NEW))
    assert as_matrix.predict(NEW).shape == (len(NEW), len(NAMES))
    assert list(as_matrix.classes_) == list(range(len(NAMES)))
    assert np.array_equal(as_matrix.predict(NEW).toarray(), small().fit(TEXTS, MATRIX).predict(NEW))


def test_probabilities_sets_and_score(fitted: OrderFreeClassifier) -> None:
    probs = fitted.predict_proba(NEW)
    assert probs.shape == (len(NEW), len(NAMES))
    assert list(fitted.classes_) == NAMES
    assert ((probs >= 0) & (probs <= 1)).all()
    sets = fitted.predict_sets(NEW)
    assert [list(found.labels) for found in sets] == fitted.predict(NEW)
    assert all(found.log_prob <= 0 for found in sets)
    assert fitted.score(NEW, fitted.predict(NEW)) == 1.0
    half = [labels if place % 2 else ["no such label"] for place, labels in enumerate(fitted.predict(NEW))]
    assert fitted.score(NEW, half) == 0.5
    weights = [1.0 if place % 2 else 0.0 for place in range(len(NEW))]
    assert fitted.score(NEW, half, sample_weight=weights) == 1.0


def test_score_reads_any_kind_of_answer(fitted: OrderFreeClassifier) -> None:
    lists = fitted.predict(NEW)
    matrix = np.array([[int(name in labels) for name in NAMES] for labels in lists])
    assert fitted.score(NEW, matrix) == fitted.score(NEW, sparse.csr_matrix(matrix)) == 1.0
    with pytest.raises(ValueError, match=f"expected {len(NAMES)}, one for each class"):
        fitted.score(NEW, matrix[:, 1:])


def test_a_class_without_examples_is_never_predicted() -> None:
    matrix = np.hstack([MATRIX[:, :1], np.zeros((len(MATRIX), 1), dtype=int), MATRIX[:, 1:]])
    classifier = small().fit(TEXTS, matrix)
    assert classifier.predict(NEW).shape == (len(NEW), matrix.shape[1])
    assert not classifier.predict(NEW)[:, 1].any()
    assert not classifier.predict_proba(NEW)[:, 1].any()
    assert classifier.predict_proba(NEW)[:, 2].all()


def test_one_label_an_example_is_a_column() -> None:
    column = np.array([labels[0] if labels else "none" for labels in LABELS])
    classifier = small().fit(TEXTS, column)
    answer = classifier.predict(NEW)
    assert answer.shape == (len(NEW),)
    assert set(answer) <= set(column)
    assert classifier.predict_proba(NEW).sum(axis=1) == pytest.approx(1)


def test_strings_that_look_like_joined_labels_are_warned_of() -> None:
    joined = [";".join(labels) for labels in LABELS]
    with pytest.warns(UserWarning, match=r"joined by ';'; pass lists: \[row.split\(';'\)"):
        Labelling.of(joined)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Labelling.of(["news, world" if place % 2 else "sports" for place in range(10)])


def test_pipeline_cross_validation_and_grid_search() -> None:
    pipeline = make_pipeline(TfidfVectorizer(), small(encoder="linear"))
    assert cross_val_score(pipeline, TEXTS, MATRIX, cv=2, scoring="f1_micro").shape == (2,)
    found = cross_val_predict(small(), TEXTS, np.array([frozenset(row) for row in LABELS]), cv=KFold(2))
    assert found.shape == (len(TEXTS),)
    grid = [
        {"decoder": ["br", "beam"], "encoder": ["linear", "sparse"], "settings": [{"training.epochs": 1}]},
        {"optimize_for": ["macro_f1"]},
    ]
    search = GridSearchCV(small(), grid, cv=2, scoring="f1_micro", error_score="raise").fit(TEXTS, MATRIX)
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == 5
    assert np.isfinite(scores).all()
    assert search.best_score_ == scores.max()
    assert search.predict(NEW).shape == (len(NEW), len(NAMES))


def test_parameters_are_kept_as_they_are() -> None:
    settings = {"training.epochs": 2}
    classifier = OrderFreeClassifier(preset="fast", decoder="beam", settings=settings, random_state=5)
    assert clone(classifier).get_params() == classifier.get_params()
    assert classifier.get_params()["settings"] is settings
    assert classifier.set_params(optimize_for="micro_f1", decoder=None).optimize_for == "micro_f1"
    with pytest.raises(NotFittedError):
        classifier.predict(NEW)


def test_decoders_differ_and_are_chosen_at_prediction(fitted: OrderFreeClassifier) -> None:
    tuned = clone(fitted).set_params(optimize_for="macro_f1").fit(TEXTS, LABELS)
    chosen = tuned.predictor_.trained.decisions.best["macro_f1"]
    own = [set(p.label_sets["best:macro_f1"].labels) for p in tuned.predictor_.predict(_examples(), ["best:macro_f1"])]
    assert as_sets(tuned.predict(NEW)) == own, chosen
    with pytest.raises(OrderfreeError, match="give one"):
        clone(fitted).set_params(optimize_for="macro_f1", decoder="br").fit(TEXTS, LABELS).predict(NEW)


def _examples() -> list[Any]:
    return list(CORPUS.test)


def test_held_out_examples_are_given_or_a_tenth() -> None:
    assert small().fit(TEXTS, LABELS).n_validation_ == len(TEXTS) // 10
    held_out = ([example.text for example in CORPUS.valid], [list(example.labels or ()) for example in CORPUS.valid])
    assert small().fit(TEXTS, LABELS, validation=held_out).n_validation_ == 20


def test_directories_are_those_of_the_command_line(fitted: OrderFreeClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    loaded = OrderFreeClassifier.load(tmp_path / "run")
    assert loaded.predict(NEW) == fitted.predict(NEW)
    assert np.array_equal(loaded.predict_proba(NEW), fitted.predict_proba(NEW))
    assert loaded.history_ == fitted.history_
    assert list(loaded.classes_) == list(fitted.classes_)
    new = tmp_path / "new.jsonl"
    new.write_text("".join(json.dumps({"text": text}) + "\n" for text in NEW), encoding="utf-8")
    with pytest.raises(SystemExit):
        run(["predict", str(tmp_path / "run"), str(new), "--out", str(tmp_path / "out.jsonl")])
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["labels"] for row in rows] == fitted.predict(NEW)
    with pytest.raises(OrderfreeError, match="already exists"):
        fitted.save(tmp_path / "run")
    # what was loaded can be fitted again, with the same settings and seed, to the same model
    again = clone(loaded).fit(TEXTS, LABELS)
    assert np.array_equal(again.predict_proba(NEW), fitted.predict_proba(NEW))


def test_a_directory_of_the_command_line_is_loaded(tmp_path: Path) -> None:
    data = tmp_path / "train.jsonl"
    rows = [{"text": text, "labels": labels} for text, labels in zip(TEXTS, LABELS, strict=True)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    keys = [word for key, value in TINY.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    with pytest.raises(SystemExit):
        run(["train", str(data), "--out", str(tmp_path / "run"), "--set", "seed=3", *keys])
    loaded = OrderFreeClassifier.load(tmp_path / "run")
    assert loaded.predict(NEW) == small().fit(TEXTS, LABELS).predict(NEW)


def test_a_matrix_of_features_keeps_its_columns_through_a_directory(tmp_path: Path) -> None:
    features = pandas.DataFrame(np.random.default_rng(1).normal(size=(60, 4)), columns=list("abcd"))
    targets = (features.to_numpy() > 0).astype(int)[:, :3]
    settings = {"training.epochs": 2, "model.encoder_options.hidden": 8, "model.decoder_hidden": 4}
    classifier = OrderFreeClassifier(settings=settings, random_state=1).fit(features, targets)
    assert classifier.predictor_.trained.config.model.encoder == "dense"
    classifier.save(tmp_path / "run")
    loaded = OrderFreeClassifier.load(tmp_path / "run")
    assert list(loaded.feature_names_in_) == list("abcd")
    assert loaded.n_features_in_ == 4
    assert np.array_equal(loaded.predict(features), classifier.predict(features))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(features[["b", "a", "c", "d"]])


def test_a_weight_of_zero_leaves_an_example_out() -> None:
    weights = np.ones(len(TEXTS))
    weights[::4] = 0
    kept = [place for place in range(len(TEXTS)) if place % 4]
    weighted = small().fit(TEXTS, LABELS, sample_weight=weights)
    removed = small().fit([TEXTS[place] for place in kept], [LABELS[place] for place in kept])
    same = np.isin(weighted.classes_, removed.classes_)  # a class that only counts 0 stays a class, of probability 0
    assert np.array_equal(weighted.predict_proba(NEW)[:, same], removed.predict_proba(NEW))
    assert not weighted.predict_proba(NEW)[:, ~same].any()


@pytest.mark.parametrize("encoder", ["linear", "dense"])
def test_of_examples_that_contradict_each_other_the_heavier_are_believed(encoder: str) -> None:
    features = np.tile(np.eye(2), (40, 1))
    says, contradicts = [("a",), ("b",)] * 20, [("b",), ("a",)] * 20
    settings = {"training.epochs": 8, "model.decoder_hidden": 4, "training.batch_size": 16, "model.dropout": 0.0}
    classifier = OrderFreeClassifier(encoder=encoder, settings=settings, random_state=1)
    for heavy in (0, 1):
        weights = np.repeat([1.0, 1.0], 40)
        weights[40 * heavy : 40 * heavy + 40] = 20.0
        probs = classifier.fit(features, [*says, *contradicts], sample_weight=weights).predict_proba(np.eye(2))
        assert probs[0, heavy] > probs[0, 1 - heavy]
        assert probs[1, 1 - heavy] > probs[1, heavy]


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (TEXTS[:3], LABELS[:2], "inconsistent"),
        (["a text", None], [["a"], ["b"]], "position 1"),
        (TEXTS[:2], [["a"], ["a"]], "two classes"),
        (TEXTS[:2], np.array([[0, 2], [1, 0]]), "other than 0 and 1"),
        (TEXTS[:3], [["1"], [1], ["2"]], "written the same"),
    ],
    ids=["lengths", "no text", "one class", "a two", "1 and '1'"],
)
def test_what_cannot_be_learned_from_is_refused(inputs: Any, targets: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small().fit(inputs, targets)


def test_text_is_not_mistaken_for_features(fitted: OrderFreeClassifier) -> None:
    with pytest.raises(ValueError, match="fitted on texts"):
        fitted.predict(np.eye(3))
    with pytest.raises(OrderfreeError, match=r"unknown key 'training\.epoch'"):
        small(settings={"training.epoch": 1}).fit(TEXTS, LABELS)


def test_torch_is_left_as_it_was() -> None:
    import torch

    state, threads = torch.get_rng_state(), torch.get_num_threads()
    small(settings={**TINY, "training.threads": threads + 1}).fit(TEXTS, LABELS)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
