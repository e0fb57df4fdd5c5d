"""The pretrained encoder under the decoders: fine-tuned, frozen, and saved so that it stands alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from orderfree.build import build_network, complete_config, encoder_options, featurizer_class
from orderfree.checkpoint import TrainedModel, load_model, save_model
from orderfree.data.featurizers import encode_all
from orderfree.data.labels import LabelVocabulary
from orderfree.errors import ConfigError
from orderfree.system.pretrained import empty_network, load_pretrained, read_architecture
from orderfree.testing.contracts import example_inputs
from orderfree.types import Example
from tiny_bert import tiny_encoder


@pytest.fixture
def pretrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORDERFREE_CACHE", "off")
    return tiny_encoder(tmp_path / "tiny")


def made(pretrained: Path, **options: object) -> TrainedModel:
    given = {"encoder": "transformer", "encoder_options": {"pretrained": str(pretrained), **options}}
    config = complete_config({"model": given}, "a test")
    featurizer = featurizer_class(config).fit(example_inputs("wordpieces"), config.data, encoder_options(config))
    torch.manual_seed(0)
    labels = LabelVocabulary.count([("a", "b"), ("a",)], "a test")
    network = build_network(config, featurizer.input_size, len(labels)).eval()
    network.encoder.load_pretrained()
    return TrainedModel(config, labels, featurizer, network)


def states(trained: TrainedModel) -> torch.Tensor:
    rows = encode_all(trained.featurizer, example_inputs("wordpieces"))
    with torch.inference_mode():
        return trained.network.eval().encoder(trained.featurizer.collate([row.arrays for row in rows])).states


def test_fine_tuning_starts_at_the_pretrained_states(pretrained: Path) -> None:
    trained = made(pretrained)
    network = empty_network(read_architecture(pretrained)).eval()
    load_pretrained(network, pretrained)
    found = states(trained)
    for row, example in enumerate(example_inputs("wordpieces")):
        ids = torch.tensor([trained.featurizer.encode(example).arrays["tokens"].tolist()])
        with torch.inference_mode():
            expected = network(input_ids=ids).last_hidden_state[0]
        torch.testing.assert_close(found[row, : ids.shape[1]], expected, atol=1e-5, rtol=0)
        assert not found[row, ids.shape[1] :].any()


def test_every_weight_is_trained_unless_frozen(pretrained: Path) -> None:
    tuned = made(pretrained).network.encoder
    assert all(weights.requires_grad for weights in tuned.parameters())
    assert sum(weights.numel() for weights in tuned.parameters()) > 500
    frozen = made(pretrained, frozen=True, hidden=5).network.encoder
    assert sum(weights.numel() for weights in frozen.parameters()) == 8 * 5 + 5, "the projection, and nothing else"


@pytest.mark.parametrize("frozen", [False, True])
def test_a_saved_model_needs_nothing_else(pretrained: Path, tmp_path: Path, frozen: bool) -> None:
    trained = made(pretrained, frozen=frozen)
    before = states(trained)
    save_model(trained, tmp_path / "model", "# card")
    shutil.rmtree(pretrained)
    torch.testing.assert_close(states(load_model(tmp_path / "model")), before)


def test_long_texts_are_cut_and_counted(pretrained: Path) -> None:
    featurizer = made(pretrained, tokens=4).featurizer
    long, short = (featurizer.encode(example) for example in (example_inputs("wordpieces")[2], example_inputs("")[4]))
    assert long.truncated
    assert not short.truncated
    assert len(long.arrays["tokens"]) == 4


def test_the_architecture_is_kept_without_the_place_it_came_from(pretrained: Path) -> None:
    options = made(pretrained).config.model.encoder_options
    assert options["architecture"]["hidden_size"] == 8
    assert not any(key.startswith("_") for key in options["architecture"])


def test_a_frozen_vector_is_one_state(pretrained: Path) -> None:
    found = states(made(pretrained, frozen=True, hidden=6))
    assert found.shape == (5, 1, 6)
    assert np.isfinite(found.numpy()).all()


def test_texts_longer_than_the_encoder_has_positions_for(pretrained: Path) -> None:
    trained = made(pretrained, tokens=500)  # the tiny encoder has 64
    encoded = trained.featurizer.encode(Example("1", text="red fish " * 100))
    assert len(encoded.arrays["tokens"]) == 64
    assert encoded.truncated
    trained.network.encoder(trained.featurizer.collate([encoded.arrays]))


@pytest.mark.parametrize(
    "parts",
    [
        {"bilstm": {}, "transformer": {}},
        {"linear": {"embeddings": True}, "transformer": {"frozen": True}},
    ],
)
def test_two_that_read_the_same_cannot_stand_side_by_side(pretrained: Path, parts: dict) -> None:
    parts["transformer"]["pretrained"] = str(pretrained)
    if "linear" in parts:
        parts["linear"]["embeddings"] = str(pretrained)
    config = complete_config({"model": {"encoder": "hybrid", "encoder_options": {"parts": parts}}}, "a test")
    with pytest.raises(ConfigError, match="cannot stand side by side"):
        featurizer_class(config).fit(example_inputs("hybrid"), config.data, encoder_options(config))
