"""Going on with new examples: what it reaches, what it keeps, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from orderfree import OrderFreeClassifier
from orderfree.data.labels import LabelVocabulary

SMALL = {"model.encoder_options": {"hidden": 24}, "model.label_embedding": 8, "model.decoder_hidden": 16}
SETTINGS = {**SMALL, "objective.sequence": None, "training.learning_rate": 0.02, "training.batch_size": 32}


def made(examples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (N, 5) and targets (N, 3) that a linear map decides."""
    features = np.random.default_rng(seed).normal(size=(examples, 5)).astype(np.float32)
    targets = features[:, :3] + 0.5 * features[:, 1:4] > 0
    return features, targets.astype(int)


def f1(classifier: OrderFreeClassifier, features: Any, targets: np.ndarray) -> float:
    said = np.asarray(classifier.predict(features))
    return 2 * (said & targets).sum() / (said.sum() + targets.sum())


def in_chunks(classifier: OrderFreeClassifier, X: Any, y: np.ndarray, passes: int) -> OrderFreeClassifier:
    rng = np.random.default_rng(1)
    for _ in range(passes):
        for rows in np.array_split(rng.permutation(len(y)), 3):
            classifier.partial_fit(X[rows], y[rows])
    return classifier


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_chunks_reach_what_fit_reaches(kind: str) -> None:
    (X, y), (X_new, y_new) = made(360, 1), made(200, 2)
    form = np.asarray if kind == "dense" else sparse.csr_array
    whole = OrderFreeClassifier(encoder=kind, settings={**SETTINGS, "training.epochs": 4}, random_state=1).fit(
        form(X), y
    )
    classifier = in_chunks(OrderFreeClassifier(encoder=kind, settings=SETTINGS, random_state=1), form(X), y, 4)
    assert f1(classifier, form(X_new), y_new) > f1(whole, form(X_new), y_new) - 0.05
    assert f1(classifier, form(X_new), y_new) > 0.85
    once = OrderFreeClassifier(encoder=kind, settings=SETTINGS, random_state=1).partial_fit(form(X[:30]), y[:30])
    assert f1(once, form(X_new), y_new) < f1(classifier, form(X_new), y_new), "each call has taught something"


def test_what_was_seen_adds_up_and_new_labels_get_rows() -> None:
    X, y = made(120, 1)
    names = np.array(["a", "b", "c"], dtype=object)
    lists = [names[row.astype(bool)].tolist() for row in y]
    first = [place for place, row in enumerate(lists) if "c" not in row]
    second = [place for place, row in enumerate(lists) if "c" in row]
    classifier = OrderFreeClassifier(settings=SETTINGS, random_state=1)
    classifier.partial_fit(X[first], [lists[place] for place in first], classes=["a", "b", "c"])
    assert classifier.classes_.tolist() == ["a", "b", "c"]
    assert not classifier.predict_proba(X)[:, 2].any(), "nobody has shown it that label"
    assert len(classifier.predictor_.labels) == 2
    classifier.partial_fit(X[second], [lists[place] for place in second])
    seen = classifier.predictor_.labels
    assert len(seen) == 3
    assert sum(seen.combinations.values()) == 120 - round(0.1 * len(first)) - round(0.1 * len(second))
    assert classifier.predict_proba(X)[:, 2].all()
    with pytest.raises(ValueError, match="'d', which is not among the classes"):
        classifier.partial_fit(X[:4], [["a"], ["d"], ["a", "b"], []])


def test_a_call_after_fit_goes_on_from_its_weights() -> None:
    X, y = made(120, 1)
    settings = {**SETTINGS, "training.epochs": 2}
    fitted = OrderFreeClassifier(settings=settings, random_state=1).fit(X, y)
    before = {name: weights.clone() for name, weights in fitted.predictor_.network.state_dict().items()}
    fitted.predictor_.trained.config.training.learning_rate = 1e-9  # it hardly moves: the weights must be the same
    fitted.partial_fit(X[:40], y[:40])
    after = fitted.predictor_.network.state_dict()
    assert all(np.allclose(before[name], after[name], atol=1e-6) for name in before)


def test_the_same_calls_are_the_same_model() -> None:
    X, y = made(90, 1)
    one, other = (in_chunks(OrderFreeClassifier(settings=SETTINGS, random_state=3), X, y, 1) for _ in range(2))
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_a_chunk_of_one_label_is_fine_after_the_first() -> None:
    X, y = made(90, 1)
    column = y[:, 0]
    classifier = OrderFreeClassifier(settings=SETTINGS, random_state=1).partial_fit(X, column, classes=[0, 1])
    only = column == 1
    classifier.partial_fit(X[only], column[only])
    assert set(np.unique(classifier.predict(X))) <= {0, 1}


def test_terms_the_first_chunk_does_not_have_are_not_lost() -> None:
    """Only the last column tells the label, and no example of the first call has it."""
    X, y = made(200, 1)
    wide = np.c_[X, np.where(y[:, 0] == 1, 1.0, 0.0)]
    early = np.flatnonzero(y[:, 0] == 0)[:60]
    first = wide[early].copy()
    classifier = OrderFreeClassifier(encoder="sparse", settings=SETTINGS, random_state=1)
    classifier.partial_fit(sparse.csr_array(first), y[early])
    assert classifier.predictor_.trained.featurizer.input_size == 6
    in_chunks(classifier, sparse.csr_array(wide), y, 3)
    assert f1(classifier, sparse.csr_array(wide), y) > 0.85


def test_refusals() -> None:
    X, y = made(40, 1)
    texts = [f"text number {number}" for number in range(40)]
    with pytest.raises(ValueError, match="cannot read texts"):
        OrderFreeClassifier(encoder="sparse").partial_fit(texts, y)
    with pytest.raises(ValueError, match="'linear' are solved"):
        OrderFreeClassifier().partial_fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        OrderFreeClassifier().partial_fit(X, y[:, 0])
    with pytest.raises(ValueError, match="at least two classes"):
        OrderFreeClassifier().partial_fit(X, np.zeros(40, dtype=int), classes=[0, 1])
    assert not hasattr(OrderFreeClassifier(encoder="linear"), "partial_fit")
    classifier = OrderFreeClassifier(settings=SETTINGS).partial_fit(X, y)
    with pytest.raises(ValueError, match="2 columns, expected 3"):
        classifier.partial_fit(X, y[:, :2])


def test_counts_of_both_models_are_added() -> None:
    earlier = LabelVocabulary(("a", "b"), (3, 1), {(0,): 2, (0, 1): 1})
    later = LabelVocabulary(("a", "b", "c"), (0, 2, 1), {(1,): 1, (1, 2): 1, (0, 1): 0})
    both = later.with_seen(earlier)
    assert both.counts == (3, 3, 1)
    assert both.combinations == {(0,): 2, (0, 1): 1, (1,): 1, (1, 2): 1}
