"""The audio encoder: pooling by hand, and training that does not notice padding."""

from __future__ import annotations

import pytest
import torch

from orderfree.build import complete_config
from orderfree.errors import ConfigError
from orderfree.nn.encoders.audio import AttentionPooling, AudioEncoder, AudioOptions
from orderfree.types import DenseInput


def test_attention_pooling_by_hand() -> None:
    pooling = AttentionPooling(1, 1)
    with torch.no_grad():
        for layer, slope in ((pooling.value, 1.0), (pooling.weight, -2.0)):
            layer.weight.fill_(slope)
            layer.bias.zero_()
    frames = torch.tensor([[0.0], [1.0], [3.0]])  # two rows: frames 0 and 1, and frame 3 alone
    mask = torch.tensor([[True, True], [True, False]])
    value, weight = frames.sigmoid(), (-2 * frames).sigmoid()
    expected = (weight[:2] * value[:2]).sum() / weight[:2].sum()
    found = pooling(frames, mask).detach()
    assert float(found[0]) == pytest.approx(float(expected), abs=1e-6)
    assert float(found[1]) == pytest.approx(float(value[2]), abs=1e-6)  # one frame has all the weight


def test_padding_changes_nothing_in_training_either() -> None:
    """Batch normalisation learns its statistics from real frames only."""
    torch.manual_seed(0)
    frames, lengths = torch.randn(4, 5, 3), torch.tensor([5, 2, 1, 3])
    frames *= (torch.arange(5) < lengths[:, None])[..., None]
    longer = torch.cat([frames, torch.zeros(4, 7, 3)], dim=1)
    encoders = [AudioEncoder(AudioOptions(hidden=8), 3, dropout=0.0, num_labels=2) for _ in range(2)]
    encoders[1].load_state_dict(encoders[0].state_dict())
    outputs = [
        encoder.train()(DenseInput(given, lengths)) for encoder, given in zip(encoders, (frames, longer), strict=True)
    ]
    assert torch.allclose(outputs[0].summary, outputs[1].summary, atol=1e-6)
    for name, values in encoders[0].state_dict().items():
        assert torch.allclose(values, encoders[1].state_dict()[name]), name


@pytest.mark.parametrize(
    ("model", "training", "problem"),
    [
        ({"encoder_options": {"hidden": 7}}, {}, "expected an even number"),
        ({}, {"batch_size": 1}, "needs training.batch_size of at least 2"),
    ],
)
def test_settings_that_cannot_be(model: dict, training: dict, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        complete_config({"model": {"encoder": "audio", **model}, "training": training}, "the configuration")
