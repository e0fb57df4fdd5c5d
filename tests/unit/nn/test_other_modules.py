"""The binary-relevance decoder, the bag and frame encoders, and the model around them."""

from __future__ import annotations

import pytest
import torch

from orderfree.build import build_criterion, build_network, complete_config
from orderfree.nn.br_decoder import BRDecoder
from orderfree.nn.encoders.dense import DenseEncoder, DenseOptions
from orderfree.nn.encoders.sparse import SparseEncoder, SparseOptions
from orderfree.training.step import forward
from orderfree.types import BagInput, Batch, DenseInput, EncoderOutput


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_br_decoder_reads_summary_and_states(layers: int) -> None:
    torch.manual_seed(0)
    decoder = BRDecoder(4, state_size=6, hidden=5, layers=layers, dropout=0.5, batch_norm=layers == 3).eval()
    mask = torch.tensor([[True, True, False], [True, False, False]])
    states, summary = torch.randn(2, 3, 6) * mask[..., None], torch.randn(1, 2, 6)
    logits = decoder(EncoderOutput(states, mask, summary))
    assert logits.shape == (2, 4)
    assert not torch.allclose(logits, decoder(EncoderOutput(states, mask, summary + 1)))
    assert not torch.allclose(logits, decoder(EncoderOutput(states.flip(2), mask, summary)))
    padded = EncoderOutput(
        torch.cat([states, torch.full((2, 1, 6), 9.0)], 1), torch.cat([mask, ~mask[:, :1]], 1), summary
    )
    assert torch.allclose(logits, decoder(padded), atol=1e-6)


def test_the_bag_is_a_weighted_sum_whatever_the_order_of_its_terms() -> None:
    torch.manual_seed(0)
    encoder = SparseEncoder(SparseOptions(hidden=5, slots=3), 10, 0.5, 4).eval()
    bags = BagInput(torch.tensor([4, 2, 7, 2]), torch.tensor([0.5, 1.0, 2.0, 3.0]), torch.tensor([0, 2, 2]))
    turned = BagInput(torch.tensor([2, 4, 2, 7]), torch.tensor([1.0, 0.5, 3.0, 2.0]), torch.tensor([0, 2, 2]))
    output = encoder(bags)
    assert output.states.shape == (3, 3, 5)
    assert torch.allclose(output.states, encoder(turned).states, atol=1e-6)
    # before the tanh, a bag is the sum of what its terms alone would add to the empty bag
    singles = encoder(BagInput(torch.tensor([4, 2]), torch.ones(2), torch.tensor([0, 1]))).summary.atanh()
    empty = output.summary[1].atanh()
    expected = empty + 0.5 * (singles[0] - empty) + (singles[1] - empty)
    assert torch.allclose(output.summary[0].atanh(), expected, atol=1e-5)
    assert not torch.allclose(expected, empty, atol=1e-3)


def test_the_summary_of_frames_is_their_mean() -> None:
    torch.manual_seed(0)
    encoder = DenseEncoder(DenseOptions(hidden=5, layers=2), 3, 0.5, 4).eval()
    frames = torch.randn(2, 4, 3)
    output = encoder(DenseInput(frames, torch.tensor([4, 2])))
    assert torch.allclose(output.summary[1], encoder.stack(frames[1, :2]).mean(dim=0), atol=1e-6)
    assert (output.states[1, 2:] == 0).all()


def config(**objective):
    raw = {
        "model": {"encoder": "dense", "encoder_options": {"hidden": 6}, "decoder_hidden": 7, "br_hidden": 5},
        "objective": objective,
    }
    return complete_config(raw, "the test")


@pytest.mark.parametrize(
    ("objective", "has_sequence", "has_br"),
    [({}, True, True), ({"sequence": None}, False, True), ({"br_weight": 0.0}, True, False)],
)
def test_a_model_may_lack_one_decoder(objective: dict, has_sequence: bool, has_br: bool) -> None:
    network = build_network(config(**objective), 3, 4)
    inputs = DenseInput(torch.randn(2, 3, 3), torch.tensor([3, 1]))
    targets = torch.tensor([[True, False, False, True], [False] * 4])

    output = forward(network, build_criterion(config(**objective), range(4)), Batch(inputs, targets, torch.arange(2)))
    assert (output.br_logits is not None) == has_br
    assert (output.sequence is not None) == has_sequence
    if has_sequence:
        assert output.sequence.logits.shape == (*output.sequence.rollout.sequence.shape, 5)
        assert output.sequence.logits.requires_grad
        assert not output.sequence.rollout.sequence.requires_grad
    assert network.parameter_count() == sum(p.numel() for p in network.parameters())
