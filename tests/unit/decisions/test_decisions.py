"""What validation chooses, that prediction does the same, and probabilities of labels and of sets."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from orderfree.checkpoint import load_model, save_model
from orderfree.data.corpus import Corpus, encode_corpora
from orderfree.decisions.records import BEST, TUNED, Decision, Decisions
from orderfree.decoding.search import MARGIN
from orderfree.errors import ModelDirectoryError, OrderfreeError
from orderfree.evaluation import decide, evaluate
from orderfree.inference import Predictor
from orderfree.metrics.ranking import ranking_scores
from orderfree.metrics.scores import scores, to_matrix
from orderfree.metrics.thresholds import candidate_thresholds, macro_threshold
from orderfree.system.files import fingerprint, write_json
from orderfree.training.validation import validate
from orderfree.types import Example
from unit_models import made_model

WORDS = ("red", "fish", "blue", "pond", "big", "swim")


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(made_model(seed=5))


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    rng = np.random.default_rng(3)
    names = ("a", "b", "c", "d")
    return [
        Example(
            str(n),
            text=" ".join(rng.choice(WORDS, size=rng.integers(1, 9))),
            labels=tuple(names[i] for i in range(4) if rng.random() < 0.4),
        )
        for n in range(60)
    ]


@pytest.fixture
def corpus(predictor: Predictor, examples: list[Example], tmp_path: Path) -> Corpus:
    trained = predictor.trained
    encode_corpora(((0, e) for e in examples), [tmp_path / "c.arrow"], trained.featurizer, trained.labels)
    return Corpus(tmp_path / "c.arrow", trained.featurizer, trained.labels)


def test_prediction_does_what_validation_chose(predictor: Predictor, examples: list[Example], corpus: Corpus) -> None:
    """On the data the choice was made on, the chosen decoder reaches at least what every plain one does."""
    found = decide(predictor, corpus, predictor.decoders)
    trained = made_model(seed=5)
    trained.decisions = found.decisions
    decoders = [*predictor.decoders, *(BEST + metric for metric in TUNED)]
    judged = evaluate(Predictor(trained), examples, decoders)["decoders"]
    for metric in TUNED:
        best = judged[BEST + metric][metric]
        assert best >= max(judged[name][metric] for name in ("greedy", "beam", "rescore", "joint")) - 1e-9
        assert best == pytest.approx(found.decided[metric][metric])
        if metric != "macro_f1":  # thresholds of single labels are judged on rows that did not choose them
            assert best >= max(row[metric] for row in found.scores.values()) - 1e-9
    assert all(best.search == "joint" for best in found.decisions.best.values() if best.br_power is not None)


def test_a_chosen_power_is_used(predictor: Predictor, examples: list[Example]) -> None:
    trained = made_model(seed=5)
    trained.decisions = Decisions(best={"micro_f1": Decision("joint", br_power=0.0)})
    sets = [p.label_sets for p in Predictor(trained).predict(examples, ["beam", "joint", "best:micro_f1"])]
    assert [s["best:micro_f1"].labels for s in sets] == [s["beam"].labels for s in sets]
    assert [s["joint"].labels for s in sets] != [s["beam"].labels for s in sets]


def test_a_fixed_threshold_is_not_tuned(corpus: Corpus) -> None:
    trained = made_model(seed=5)
    trained.config.decoding.br_threshold = 0.3
    found = decide(Predictor(trained), corpus, ["br"])
    assert found.decisions.thresholds == {"br": dict.fromkeys(TUNED, 0.3)}
    assert validate(Predictor(trained), corpus, ["br"]).threshold == 0.3


def test_both_decoders_rank_labels(predictor: Predictor, examples: list[Example]) -> None:
    ranking = evaluate(predictor, examples, ["joint"])["ranking"]
    # in the same batches: between others equal probabilities may differ in the last digit, and ranks with them
    probs = np.stack([prediction.probs for prediction in predictor.predict(examples) if prediction.probs is not None])
    assert predictor.predict_proba(examples, "br") == pytest.approx(probs, abs=1e-6)
    truth = to_matrix([example.labels or () for example in examples], predictor.labels.names)
    assert ranking["br"] == pytest.approx(ranking_scores(probs, truth))
    assert 0 < ranking["sequence"]["mean_average_precision"] < 1


def test_label_thresholds_are_used_and_survive_saving(examples: list[Example], tmp_path: Path) -> None:
    trained = made_model(seed=5)
    each = [0.0, 1.0, 0.0, 1.0]
    trained.decisions = Decisions({"br": {"macro_f1": each}}, {"macro_f1": Decision("br", each)})
    save_model(trained, tmp_path / "model", "# card")
    loaded = Predictor(load_model(tmp_path / "model"))
    expected = {loaded.labels.names[0], loaded.labels.names[2]}
    for prediction in loaded.predict(examples, ["best:macro_f1"]):
        assert set(prediction.label_sets["best:macro_f1"].labels) == expected


def test_thresholds_for_other_labels_are_refused(tmp_path: Path) -> None:
    trained = made_model(seed=5)
    trained.decisions = Decisions({"br": {"macro_f1": [0.5, 0.5]}})
    save_model(trained, tmp_path / "model", "# card")
    with pytest.raises(ModelDirectoryError, match="2 thresholds for 4 labels"):
        load_model(tmp_path / "model")


def macro_thresholds(predictor: Predictor, examples: list[Example], folder: Path) -> float | list[float]:
    """What validation on these examples chooses for the macro-F1 of `br`."""
    trained = predictor.trained
    encode_corpora(((0, e) for e in examples), [folder / "c.arrow"], trained.featurizer, trained.labels)
    report = decide(predictor, Corpus(folder / "c.arrow", trained.featurizer, trained.labels), ["br"])
    chosen = report.decisions.thresholds["br"]["macro_f1"]
    assert isinstance(chosen, float | list)
    return chosen


def test_targets_without_relation_to_the_text_get_one_threshold(predictor: Predictor, tmp_path: Path) -> None:
    """Thresholds of single labels would fit the noise: they are judged on rows that did not choose them."""
    rng = np.random.default_rng(0)
    noise = [
        Example(str(n), text=" ".join(rng.choice(WORDS, size=5)), labels=("a",) if rng.random() < 0.1 else ())
        for n in range(40)
    ]
    assert isinstance(macro_thresholds(predictor, noise, tmp_path), float)


def test_labels_with_a_threshold_of_their_own_get_it(predictor: Predictor, tmp_path: Path) -> None:
    """Each label is there exactly where its probability reaches a quantile of its own."""
    rng = np.random.default_rng(0)
    texts = [Example(str(n), text=" ".join(rng.choice(WORDS, size=5))) for n in range(200)]
    probs = predictor.predict_proba(texts, "br")  # (N, L)
    truth = probs >= np.array([np.quantile(probs[:, i], q) for i, q in enumerate((0.9, 0.5, 0.3, 0.1))])
    names = np.array(predictor.labels.names)
    examples = [replace(e, labels=tuple(names[row].tolist())) for e, row in zip(texts, truth, strict=True)]
    each = macro_thresholds(predictor, examples, tmp_path)
    assert isinstance(each, list)
    shared = max(scores(truth, probs >= threshold)["macro_f1"] for threshold in np.linspace(0, 1, 201))
    assert scores(truth, probs >= np.array(each))["macro_f1"] > shared + 0.1


def test_probabilities_of_labels(predictor: Predictor, examples: list[Example]) -> None:
    br = predictor.predict_proba(examples)
    one_by_one = np.stack([prediction.probs for prediction in predictor.predict(examples)])
    np.testing.assert_allclose(br, one_by_one, atol=1e-6)
    shares = predictor.predict_proba(examples, "marginal")
    assert shares.shape == br.shape
    assert ((shares > 0) & (shares < 1)).all()
    assert not np.allclose(shares, br, atol=0.01)
    assert predictor.predict_proba([]).shape == (0, 4)
    with pytest.raises(OrderfreeError, match="'joint' gives no probabilities of labels; those that do: br, marginal"):
        predictor.predict_proba(examples, "joint")


def test_probabilities_of_sets(predictor: Predictor, examples: list[Example]) -> None:
    few = examples[:7]
    every = [[name for place, name in enumerate("abcd") if number >> place & 1] for number in range(16)]
    total = sum(np.exp(predictor.set_log_prob(few, [chosen] * len(few))) for chosen in every)
    np.testing.assert_allclose(total, 1, atol=1e-3)
    found = predictor.set_log_prob(few, [("a", "b")] * 7)
    np.testing.assert_allclose(predictor.set_log_prob(few, [("b", "a")] * 7), found, atol=1e-5)
    with pytest.raises(OrderfreeError, match="fewer sets than examples"):
        predictor.set_log_prob(few, [("a",)])
    with pytest.raises(OrderfreeError, match="'e' is no label of this model"):
        predictor.set_log_prob(few, [("e",)] * 7)


def test_the_best_path_is_never_more_probable_than_its_set(predictor: Predictor, examples: list[Example]) -> None:
    predictions = list(predictor.predict(examples[:9], ["greedy"]))
    sets = [p.label_sets["greedy"] for p in predictions]
    found = predictor.set_log_prob(examples[:9], [s.labels for s in sets])
    for whole, path in zip(found, sets, strict=True):
        assert whole >= path.log_prob - 1e-4
        assert math.isfinite(whole)


def test_a_damaged_decision_file(tmp_path: Path) -> None:
    save_model(made_model(seed=5), tmp_path / "model", "# card")
    path = tmp_path / "model" / "thresholds.json"
    write_json(path, {"thresholds": {}, "decisions": {}, "powers": {"micro_f1": "much"}})
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"]["thresholds.json"] = {"bytes": path.stat().st_size, "sha256": fingerprint(path)}
    write_json(tmp_path / "model" / "manifest.json", manifest)
    with pytest.raises(ModelDirectoryError, match="is damaged"):
        load_model(tmp_path / "model")


def test_no_label_decoder_no_probability_of_a_set(examples: list[Example]) -> None:
    alone = Predictor(made_model(seed=5, sequence=None))
    with pytest.raises(OrderfreeError, match="no label decoder"):
        alone.set_log_prob(examples, [()] * len(examples))
    assert torch.is_inference_mode_enabled() is False


def out_of_fold(predictor: Predictor, path: Path, cuts: list[float]) -> Corpus:
    """400 training examples whose out-of-fold scores are right exactly from a label's own cut on."""
    rng = np.random.default_rng(1)
    margins = rng.uniform(-1, 1, size=(400, len(cuts))).astype(np.float32)
    truth = margins >= np.array(cuts)
    names = np.array(predictor.labels.names)
    made = [Example(str(n), text="red fish", labels=tuple(names[row])) for n, row in enumerate(truth)]
    encode_corpora(((0, e) for e in made), [path], predictor.trained.featurizer, predictor.labels)
    train = Corpus(path, predictor.trained.featurizer, predictor.labels)
    train.scores = margins
    return train


def test_label_thresholds_come_from_out_of_fold_scores_where_labels_are_rare(
    examples: list[Example], tmp_path: Path
) -> None:
    predictor = Predictor(made_model(seed=5, encoder="linear"))
    few = [Example(e.id, text=e.text, labels=("a",) if n < 6 else ()) for n, e in enumerate(examples)]
    encode_corpora(((0, e) for e in few), [tmp_path / "v.arrow"], predictor.trained.featurizer, predictor.labels)
    valid = Corpus(tmp_path / "v.arrow", predictor.trained.featurizer, predictor.labels)
    cuts = [-0.5, 0.0, 0.25, 0.5]
    found = decide(predictor, valid, predictor.decoders, out_of_fold(predictor, tmp_path / "t.arrow", cuts))
    assert found.decisions.best["macro_f1"].search == "linear"
    chosen = np.array(found.decisions.thresholds["linear"]["macro_f1"])
    margins = np.log(chosen / (1 - chosen)) / MARGIN
    assert margins == pytest.approx(np.array(cuts), abs=0.1)  # drawn a little towards a shared one
    assert found.decisions.best["macro_f1"].br_power is None
    plain = decide(predictor, valid, predictor.decoders)
    others = [metric for metric in TUNED if metric != "macro_f1"]
    assert all(plain.decisions.best[metric] == found.decisions.best[metric] for metric in others)


def test_validation_decides_where_it_has_examples_of_most_labels(examples: list[Example], tmp_path: Path) -> None:
    """Out-of-fold thresholds are then one candidate more, which is taken only if it is better here."""
    predictor = Predictor(made_model(seed=5, encoder="linear"))
    encode_corpora(((0, e) for e in examples), [tmp_path / "v.arrow"], predictor.trained.featurizer, predictor.labels)
    valid = Corpus(tmp_path / "v.arrow", predictor.trained.featurizer, predictor.labels)
    plain = decide(predictor, valid, predictor.decoders)
    found = decide(predictor, valid, predictor.decoders, out_of_fold(predictor, tmp_path / "t.arrow", [0.9] * 4))
    assert found == plain, "the cuts of that corpus say nothing about these examples"


def test_a_threshold_for_macro_f1_is_the_best_of_its_candidates() -> None:
    rng = np.random.default_rng(2)
    probs, targets = rng.random((50, 6)), rng.random((50, 6)) < 0.3
    values = {t: scores(targets, probs >= t)["macro_f1"] for t in candidate_thresholds(probs, targets)}
    assert values[macro_threshold(probs, targets)] == pytest.approx(max(values.values()))
