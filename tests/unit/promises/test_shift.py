"""Shifted data are reported, and data that have not changed hardly ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from orderfree.checkpoint import load_model, save_model
from orderfree.data.hierarchy import Hierarchy
from orderfree.errors import ModelDirectoryError
from orderfree.evaluation.watching import Watch, references_of, shift_of
from orderfree.inference import Predictor
from orderfree.promises.shift import LEVEL, Looks, Reference, compare
from orderfree.report.examples import evaluate_with_examples
from orderfree.serve.app import create_app
from orderfree.serve.schema import ServiceLimits
from orderfree.types import Example
from unit_models import made_model


def looks(count: int, rng: np.random.Generator, moved: float = 0.0) -> Looks:
    sizes = rng.poisson(1.5 + 3 * moved, count).astype(float)
    numbers = {"unknown_words": rng.beta(2, 8, count) + moved, "set_size": sizes}
    return Looks(numbers, rng.binomial(count, [0.5, 0.1, 0.01]), count)


def test_what_has_not_changed_is_hardly_ever_reported() -> None:
    rng = np.random.default_rng(1)
    reference = Reference.of(looks(1500, rng))
    found = [compare(reference, looks(400, rng)) for _ in range(300)]
    assert sum(shift is not None and shift.shifted for shift in found) <= 3 + 300 * LEVEL


@pytest.mark.parametrize("new", [50, 400])
def test_rare_labels_raise_no_false_alarms(new: int) -> None:
    """One case among 50 new examples is no wonder where each of 300 labels has one in 2,500."""
    rng = np.random.default_rng(1)

    def rare(count: int) -> Looks:
        return Looks({}, rng.binomial(count, np.full(300, 0.0004)), count)

    reports = 0
    for _ in range(200):
        found = compare(Reference.of(rare(5000)), rare(new))
        assert found is not None
        reports += found.shifted
    assert reports <= 6  # 2 are expected


def test_a_frequent_label_that_becomes_rarer_is_enough() -> None:
    reference = Reference.of(Looks({}, np.array([900, 500]), 1000))
    found = compare(reference, Looks({}, np.array([400, 250]), 500))
    assert found is not None
    assert found.shifted


@pytest.mark.parametrize("moved", [0.1, 0.3])
def test_what_has_changed_is_reported(moved: float) -> None:
    rng = np.random.default_rng(1)
    reference = Reference.of(looks(1500, rng))
    found = compare(reference, looks(400, rng, moved))
    assert found is not None
    assert found.shifted
    assert "the share of words unknown to the model" in found.sentence
    assert compare(reference, looks(19, rng, moved)) is None


def test_one_label_that_becomes_frequent_is_enough() -> None:
    rng = np.random.default_rng(1)
    reference = Reference.of(looks(1500, rng))
    other = looks(400, rng)
    found = compare(reference, replace(other, labels=other.labels + np.array([0, 0, 40])))
    assert found is not None
    assert found.shifted
    assert min(found.p_values, key=lambda name: found.p_values[name]) == "label_frequencies"


def texts(words: str, count: int, seed: int) -> list[Example]:
    rng = np.random.default_rng(seed)
    return [Example(str(n), text=" ".join(rng.choice(words.split(), size=6))) for n in range(count)]


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    made = Predictor(made_model(seed=5, encoder="linear"))
    usual = texts("red fish blue pond", 300, 1)
    made.trained.decisions = replace(made.trained.decisions, references=references_of(made, usual))
    return made


def test_predictions_of_other_texts_have_shifted(predictor: Predictor) -> None:
    alike = list(predictor.predict(texts("red fish blue pond", 200, 2)))
    other = list(predictor.predict(texts("red quarterly earnings statement", 200, 2)))
    same, changed = shift_of(predictor, alike), shift_of(predictor, other)
    assert same is not None
    assert changed is not None
    assert not same.shifted
    assert changed.shifted
    assert shift_of(Predictor(made_model(seed=5)), alike) is None


def test_any_decoder_is_compared_by_what_the_models_own_predicts(predictor: Predictor) -> None:
    new = [replace(example, labels=("a",)) for example in texts("red fish blue pond", 60, 2)]
    for decoders in (["beam"], [predictor.default_decoder]):
        assert evaluate_with_examples(predictor, new, decoders)["shift"]["examples"] == 60
    # with other settings of decoding nothing can be compared
    assert evaluate_with_examples(predictor.adjusted(max_labels=1), new, ["beam"])["shift"] is None


def test_parents_that_a_hierarchy_adds_are_no_shift(predictor: Predictor) -> None:
    new = [replace(example, labels=("a",)) for example in texts("red fish blue pond", 200, 2)]
    parents = Hierarchy({"b": ("a",), "c": ("a",), "d": ("a",)})
    assert not evaluate_with_examples(predictor, new, [predictor.default_decoder], parents)["shift"]["shifted"]


def test_texts_decided_at_promised_thresholds_are_watched() -> None:
    made = Predictor(made_model(seed=5, encoder="linear"))
    usual = [replace(example, labels=("a",)) for example in texts("red fish blue pond", 100, 1)]
    made.promise(usual, "recall=0.5")
    decoder = "thresholds:recall=0.5"
    references = references_of(made, usual, [decoder])
    made.trained.decisions = replace(made.trained.decisions, references=references)
    watch = Watch(made, block=40)
    watch.saw(made.predict(texts("red fish blue pond", 39, 2), [decoder]))
    assert watch.newest is None
    watch.saw(made.predict(texts("red fish blue pond", 1, 3), [decoder]))
    assert watch.newest is not None
    assert not watch.newest.shifted
    watch.saw(made.predict(texts("quarterly earnings statement", 40, 4), [decoder]))
    assert watch.newest.shifted


def test_the_reference_is_stored_with_the_model(predictor: Predictor, tmp_path: Path) -> None:
    save_model(predictor.trained, tmp_path / "model", "# card\n")
    assert load_model(tmp_path / "model").decisions.references == predictor.trained.decisions.references
    manifest = (tmp_path / "model" / "manifest.json").read_text(encoding="utf-8")
    (tmp_path / "model" / "manifest.json").write_text(manifest.replace('"set_size"', '"nonsense"'), encoding="utf-8")
    with pytest.raises(ModelDirectoryError, match="a reference that is none"):
        load_model(tmp_path / "model")


def test_the_service_has_a_metric_of_it(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orderfree.serve.app.Watch", lambda model: Watch(model, block=40))
    app = create_app(predictor, "fish", ServiceLimits(), None, False)
    with TestClient(app, base_url="http://localhost") as client:

        def p_value() -> float:
            (line,) = [row for row in client.get("/metrics").text.splitlines() if row.startswith("orderfree_shift_p")]
            return float(line.split()[1])

        assert np.isnan(p_value())
        client.post("/v1/predict", json={"texts": [e.text for e in texts("quarterly earnings", 40, 3)]})
        assert p_value() < LEVEL
        client.post("/v1/predict", json={"texts": [e.text for e in texts("red fish blue pond", 40, 4)]})
        assert p_value() > LEVEL
