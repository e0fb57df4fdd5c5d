"""What a model is decoded with where nothing is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from orderfree.build import complete_config
from orderfree.checkpoint import TrainedModel
from orderfree.decisions.records import Decision, Decisions, default_decoder
from orderfree.evaluation import evaluate
from orderfree.inference import Predictor
from orderfree.metrics.scores import scores, to_matrix
from orderfree.report.trace import trace
from orderfree.serve.answers import asked_for, describe
from orderfree.serve.schema import DecodeOptions, ServiceLimits
from orderfree.tools.compare import compare
from orderfree.training.run import train
from orderfree.types import Example

SETTINGS = {
    "model": {"encoder": "sparse", "encoder_options": {"hidden": 8}, "decoder_hidden": 8, "label_embedding": 4},
    "training": {"epochs": 30, "patience": 2, "tensorboard": False, "learning_rate": 0.05},
}


def _examples(count: int) -> list[Example]:
    rng = np.random.default_rng(1)
    words, names = [f"word{i}" for i in range(12)], ("a", "b", "c", "d")
    rows = []
    for number in range(count):
        drawn = rng.choice(12, size=4, replace=False)
        labels = tuple(name for place, name in enumerate(names) if place in drawn % 5)
        rows.append(Example(str(number), text=" ".join(words[i] for i in drawn), labels=labels))
    return rows


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainedModel, list[str]]:
    said: list[str] = []
    folder = tmp_path_factory.mktemp("default") / "run"
    config = complete_config(SETTINGS, "the test")
    return train(config, _examples(60), _examples(40), folder, say=said.append, progress=False), said


def test_the_default_is_what_validation_prefers() -> None:
    config = complete_config({"training": {"select_metric": "macro_f1"}}, "x")
    best = {"micro_f1": Decision("br", 0.4), "macro_f1": Decision("marginal", 0.3)}
    assert default_decoder(config, Decisions(best=best)) == "best:macro_f1"
    assert default_decoder(config, Decisions()) == "joint"  # nothing is decided yet
    config.decoding.decoder = "beam"
    assert default_decoder(config, Decisions(best=best)) == "beam"


def test_the_average_of_metrics_has_a_decision(trained: tuple[TrainedModel, list[str]]) -> None:
    config = trained[0].config.model_copy(deep=True)
    config.training.select_metric = "average"
    assert default_decoder(config, trained[0].decisions) == "best:average"


def test_all_parts_agree(trained: tuple[TrainedModel, list[str]]) -> None:
    predictor, examples = Predictor(trained[0]), _examples(10)
    default = predictor.default_decoder
    search = predictor.decision(default).search
    expected = [found.label_sets["best:micro_f1"].labels for found in predictor.predict(examples, ["best:micro_f1"])]
    assert [found.label_sets[default].labels for found in predictor.predict(examples)] == expected
    assert evaluate(predictor, examples, [*predictor.decoders, default])["default_decoder"] == default
    assert [trace(predictor, example).chosen.labels for example in examples] == expected
    assert asked_for(predictor, DecodeOptions())[1:] == (default, search)
    assert describe(predictor, "a model", ServiceLimits(), []).default_decoder == search
    assert compare({"one": predictor, "two": predictor}, examples)["decoders"] == {"one": default, "two": default}


def test_what_to_expect_is_measured_with_it(trained: tuple[TrainedModel, list[str]]) -> None:
    model, predictor, examples = trained[0], Predictor(trained[0]), _examples(40)
    told = model.metrics["default"]
    assert told["decoder"] == "best:micro_f1"
    predicted = [found.label_sets[told["decoder"]].labels for found in predictor.predict(examples)]
    truth = [example.labels or () for example in examples]
    names = model.labels.names
    assert told["scores"] == pytest.approx(scores(to_matrix(truth, names), to_matrix(predicted, names)), abs=1e-9)


def test_early_stopping_is_said(trained: tuple[TrainedModel, list[str]]) -> None:
    model, said = trained
    (told,) = [line for line in said if "stopped early" in line]
    assert f"stopped early at update {model.metrics['updates']} of 30" in told
    assert f"since update {model.metrics['update']}, whose weights are kept (training.patience=2)" in told
