"""Starting from an earlier model: old labels behave as before, new ones are added, and a stopped run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from orderfree import Example
from orderfree.build import build_network, complete_config
from orderfree.checkpoint import TRAINING, TrainedModel, load_model
from orderfree.data.labels import LabelVocabulary
from orderfree.errors import ConfigError, OrderfreeError
from orderfree.inference import Predictor
from orderfree.training.loop import Stop
from orderfree.training.run import Interrupted, train
from orderfree.training.warm import adopt_weights, warm_config
from orderfree.types import BagInput, TokenInput

OLD = LabelVocabulary(("a", "b", "c"), (3, 2, 1), {(0,): 3})
NEW = LabelVocabulary.count([("new",)] * 5 + [("a", "other")], "the test")
SIZES: dict[str, Any] = {"label_embedding": 4, "decoder_hidden": 6, "br_hidden": 7}


def config_of(encoder: str, **model: Any) -> Any:
    objective = {"sequence": "mle"} if model.get("label_decoder") == "chain" else {}
    return complete_config({"model": {"encoder": encoder, **SIZES, **model}, "objective": objective}, "the test")


def test_old_labels_come_first_and_keep_their_place() -> None:
    labels = NEW.after(OLD)
    assert labels.names == ("a", "b", "c", "new", "other")
    assert labels.counts == (1, 0, 0, 5, 1)
    assert labels.combinations == {(3,): 5, (0, 4): 1}


@pytest.mark.parametrize(
    ("encoder", "model"),
    [
        ("sparse", {}),
        ("sparse", {"br_layers": 2, "br_batch_norm": True}),
        ("sparse", {"label_decoder": "sgm"}),
        ("sparse", {"label_decoder": "seq2set"}),
        ("sparse", {"label_decoder": "chain"}),
        ("bilstm", {"encoder_options": {"embedding": 5, "hidden": 4}}),
        ("linear", {}),
        ("linear", {"br_layers": 1, "label_decoder": "sgm"}),
    ],
    ids=str,
)
def test_a_network_with_more_labels_says_the_same_of_the_old_ones(encoder: str, model: dict[str, Any]) -> None:
    """With a linear encoder: as long as the new labels score 0, for then nothing of them is read."""
    config = config_of(encoder, **model)
    labels = NEW.after(OLD)
    torch.manual_seed(1)
    old = build_network(config, 9, len(OLD)).eval()
    for weights in old.parameters():  # residual decoders begin with zeros, which would prove nothing
        torch.nn.init.normal_(weights.data, std=0.3)
    network = build_network(config, 9, len(labels)).eval()
    adopt_weights(network, TrainedModel(config, OLD, None, old))  # type: ignore[arg-type]
    if encoder == "linear":
        network.encoder.terms[:, :3] = old.encoder.terms
        network.encoder.bias[:3] = old.encoder.bias
        for name, module in network.named_modules():
            if name.endswith("calibrate"):
                module.load_state_dict(old.get_submodule(name).state_dict())
    ids = torch.tensor([[1, 2, 3], [4, 5, 8]])
    inputs: Any = TokenInput(ids, torch.tensor([3, 3]))
    if encoder != "bilstm":
        inputs = BagInput(ids.flatten(), torch.ones(6), torch.tensor([0, 3]))
    with torch.no_grad():
        before, after = old.encoder(inputs), network.encoder(inputs)
        assert torch.allclose(old.br_decoder(before), network.br_decoder(after)[:, :3], atol=1e-5)
        one, other = old.label_decoder.first_stage, network.label_decoder.first_stage
        was, now = one.start(before), other.start(after)
        for previous in ("start", 0, 2):
            fed = (3, 5) if previous == "start" else (previous, previous)
            logits, was = one.step(torch.full((2,), fed[0]), was)
            grown, now = other.step(torch.full((2,), fed[1]), now)
            kept = (
                [0, 1, 2] if model.get("label_decoder") == "chain" else [0, 1, 2, 5]
            )  # a chain says no to all, then stops
            assert torch.allclose(logits[:, : len(kept)], grown[:, kept], atol=1e-5)
            if model.get("label_decoder") == "sgm":
                break  # its next input is the mean over all labels, new ones too


def _examples(labels: list[str], count: int = 60) -> list[Example]:
    rows = range(count)
    return [Example(str(i), text=f"{labels[i % len(labels)]} text", labels=(labels[i % len(labels)],)) for i in rows]


TINY = {
    "model": {"encoder": "sparse", "encoder_options": {"hidden": 8}, "dropout": 0.0, **SIZES},
    "training": {"epochs": 6, "tensorboard": False, "batch_size": 16, "learning_rate": 0.05},
}


def test_a_run_from_an_earlier_model(tmp_path: Path) -> None:
    two, three = _examples(["ant", "bee"]), _examples(["ant", "bee", "cat"])
    train(complete_config(TINY, "it"), two, two, tmp_path / "old", progress=False)
    config = warm_config(load_model(tmp_path / "old").config, ["training.epochs=12"])
    said: list[str] = []
    warm: dict[str, Any] = {"progress": False, "warm_start": tmp_path / "old"}
    found = train(config, three, three, tmp_path / "new", say=said.append, **warm)
    assert "1 label is new; the other 2 keep their weights" in said
    assert found.labels.names == ("ant", "bee", "cat")
    vocabularies = [(tmp_path / run / "vocabulary.json").read_bytes() for run in ("old", "new")]
    assert vocabularies[0] == vocabularies[1]
    assert not (tmp_path / "new" / TRAINING).exists()
    sets = {p.example.text: p.label_sets["br"].labels for p in Predictor.load(tmp_path / "new").predict(three, ["br"])}
    assert sets["ant text"] == ("ant",)
    # stopped and resumed, without the earlier model: the same bytes
    with pytest.raises(Interrupted):
        train(config, three, three, tmp_path / "cut", stop=Stop(requested=True), **warm)
    (tmp_path / "old").rename(tmp_path / "gone")
    train(config, three, three, tmp_path / "cut", resume=True, progress=False)
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("new", "cut")]
    assert weights[0] == weights[1]


def test_the_linear_encoder_is_solved_anew(tmp_path: Path) -> None:
    raw = {
        "model": {"encoder": "linear", "encoder_options": {"c": 1.0, "folds": 2}, **SIZES},
        "training": {"epochs": 1, "tensorboard": False},
    }
    two, three = _examples(["ant", "bee"]), _examples(["ant", "bee", "cat"])
    train(complete_config(raw, "it"), two, two, tmp_path / "old", progress=False)
    config = warm_config(load_model(tmp_path / "old").config, [])
    found = train(config, three, three, tmp_path / "new", progress=False, warm_start=tmp_path / "old")
    encoder: Any = found.network.encoder
    assert encoder.terms.shape[1] == 3
    assert np.abs(encoder.bias.numpy()).min() > 0


def test_what_cannot_be_started_from(tmp_path: Path) -> None:
    config = config_of("sparse")
    for setting in ("model.encoder=bilstm", "model.decoder_hidden=7", "data.min_count=2"):
        with pytest.raises(ConfigError, match="what the earlier model has"):
            warm_config(config, [setting])
    with pytest.raises(ConfigError, match="keeps the decoders it has"):
        warm_config(config, ["objective.br_weight=0"])
    two = _examples(["ant", "bee"])
    with pytest.raises(OrderfreeError, match="no such model directory"):
        train(complete_config(TINY, "it"), two, two, tmp_path / "new", warm_start=tmp_path / "no", progress=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OrderfreeError, match="is the earlier model itself"):
        train(complete_config(TINY, "it"), two, two, tmp_path / "a", warm_start=tmp_path / "a", progress=False)
