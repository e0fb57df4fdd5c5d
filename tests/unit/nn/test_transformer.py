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
from orderfree.training.loop import Stop
from orderfree.training.run import Interrupted, train
from orderfree.training.state import Progress
from orderfree.types import Example, TokenInput
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


def test_frozen_layers_keep_their_weights_and_need_no_gradient(pretrained: Path) -> None:
    encoder = made(pretrained, frozen_layers=1).network.encoder.train()
    trained = {name for name, weights in encoder.named_parameters() if weights.requires_grad}
    assert trained
    assert all(name.startswith("network.encoder.layer.1.") for name in trained), trained
    ids = torch.tensor([[2, 4, 5, 3]])
    output = encoder(TokenInput(ids, torch.tensor([4])))
    output.states.square().sum().backward()
    graded = {name for name, weights in encoder.named_parameters() if weights.grad is not None}
    assert graded == trained


@pytest.mark.parametrize("frozen_layers", [2, 9])
def test_at_least_one_layer_is_trained(pretrained: Path, frozen_layers: int) -> None:
    with pytest.raises(ConfigError, match=rf"frozen_layers is {frozen_layers}, and this encoder has 2 layers"):
        made(pretrained, frozen_layers=frozen_layers)


class StopAfter:
    """A listener that stops a run after so many updates."""

    def __init__(self, update: int, stop: Stop) -> None:
        self.update, self.stop = update, stop

    def started(self, *_: object) -> None: ...
    def updated(self, progress: Progress, loss: float) -> None:
        self.stop.requested = progress.update == self.update

    def validated(self, *_: object) -> None: ...
    def ended(self, *_: object) -> None: ...


def test_fine_tuning_of_upper_layers_is_resumed_exactly(pretrained: Path, tmp_path: Path) -> None:
    options = {"pretrained": str(pretrained), "frozen_layers": 1, "tokens": 8}
    raw = {
        "model": {"encoder": "transformer", "encoder_options": options, "label_embedding": 4, "decoder_hidden": 8},
        "training": {"epochs": 2, "batch_size": 4, "warmup": 0.5, "encoder_rate": 0.1, "tensorboard": False}
        | {"threads": 1},
    }
    config = complete_config(raw, "a test")
    examples = [
        Example(str(n), text=f"{colour} fish {verb}", labels=(colour, verb))
        for n, (colour, verb) in enumerate([("red", "swim"), ("blue", "pond"), ("red", "pond"), ("blue", "swim")] * 4)
    ]
    straight = train(config, examples, examples[:4], tmp_path / "straight", progress=False)
    stop = Stop()
    listeners = [StopAfter(3, stop)]
    with pytest.raises(Interrupted):
        train(config, examples, examples[:4], tmp_path / "cut", stop=stop, progress=False, listeners=listeners)
    train(config, examples, examples[:4], tmp_path / "cut", resume=True, progress=False)
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("straight", "cut")]
    assert files[0] == files[1]
    before, after = empty_network(read_architecture(pretrained)), straight.network.encoder.network
    load_pretrained(before, pretrained)
    for name, weights in before.state_dict().items():
        if not name.startswith("pooler."):
            changed = not torch.equal(weights, after.state_dict()[name])
            assert changed == name.startswith("encoder.layer.1."), name
