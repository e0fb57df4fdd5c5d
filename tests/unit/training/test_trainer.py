"""The trainer: validation within the limits, limits of rollouts, learning rates of the parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from orderfree.build import build_network, complete_config
from orderfree.checkpoint import TrainedModel
from orderfree.inference import Predictor
from orderfree.testing.toy import toy_corpus
from orderfree.training.loop import Trainer
from orderfree.training.prepare import Prepared, prepare
from orderfree.training.step import forward
from orderfree.training.validation import validate

TINY = {
    "model": {"encoder_options": {"hidden": 8, "slots": 1}, "label_embedding": 4, "decoder_hidden": 8},
    "training": {"epochs": 1, "tensorboard": False},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("data")
    lines = [json.dumps({"text": e.text, "labels": e.labels}) for e in toy_corpus(1, 120, 1, 1).train]
    (folder / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return prepare(complete_config(TINY, "the test"), folder / "train.jsonl", None, folder)


def trainer(data: Prepared, folder: Path, **sections: dict) -> Trainer:
    config = complete_config({**TINY, **sections}, "the test")
    torch.manual_seed(1)
    network = build_network(config, data.featurizer.input_size, len(data.labels))
    return Trainer(TrainedModel(config, data.labels, data.featurizer, network), data, folder)


@pytest.mark.parametrize(("fewest", "most"), [(3, 9), (0, 1)])
def test_validation_scores_binary_relevance_within_the_limits(
    data: Prepared, tmp_path: Path, fewest: int, most: int
) -> None:
    own = trainer(data, tmp_path, decoding={"min_labels": fewest, "max_labels": most})
    found = validate(Predictor(own.trained), data.valid, ["br"])
    assert fewest <= found.scores["br"]["predicted_labels_per_example"] <= most


def test_no_limit_of_the_rollout_cuts_a_target(data: Prepared, tmp_path: Path) -> None:
    own = trainer(data, tmp_path, objective={"sequence": "mle", "max_steps": 1, "extra_steps": 0})
    batch = data.train.batch(data.train.lengths.argsort()[:20])
    sequence = forward(own.network, own.criterion, batch).sequence.rollout.sequence
    chosen = torch.zeros(20, len(data.labels) + 1, dtype=torch.bool).scatter(1, sequence, True)
    assert torch.equal(chosen[:, :-1], batch.targets)


def test_the_encoders_rate_is_for_pretrained_weights_where_there_are_some(data: Prepared, tmp_path: Path) -> None:
    own = trainer(data, tmp_path, training={"encoder_rate": 0.1, "tensorboard": False})
    shares = shares_of(own)
    assert {name.split(".")[0]: share for name, share in shares.items()} == {
        "encoder": 0.1, "label_decoder": 1.0, "br_decoder": 1.0,
    }  # fmt: skip
    own.network.encoder.views.load_pretrained = lambda: None
    own.optimizer = torch.optim.AdamW(own.parameter_groups())
    slow = [name for name, share in shares_of(own).items() if share == 0.1]
    assert slow == [name for name in shares if name.startswith("encoder.views.")] != []


def shares_of(own: Trainer) -> dict[str, float]:
    """By the name of the weights, which the optimiser must hold in the order of the network: states are saved so."""
    held = [(weights, group["share"]) for group in own.optimizer.param_groups for weights in group["params"]]
    named = list(own.network.named_parameters())
    assert [id(weights) for weights, _ in held] == [id(weights) for _, weights in named]
    return {name: share for (name, _), (_, share) in zip(named, held, strict=True)}


def test_the_learning_rate_rises_and_falls_over_all_epochs(data: Prepared, tmp_path: Path) -> None:
    own = trainer(data, tmp_path, training={"epochs": 10, "learning_rate": 1.0, "warmup": 0.2, "tensorboard": False})
    rates = []
    for update in range(own.total_updates):
        own.progress.update = update
        own.set_learning_rate()
        rates.append(own.optimizer.param_groups[0]["lr"])
    peak = rates.index(max(rates))
    assert own.total_updates / 10 <= peak <= own.total_updates / 5
    assert 0 < rates[0] < 0.5
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[-1] > 0
