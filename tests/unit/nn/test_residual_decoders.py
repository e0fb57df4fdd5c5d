"""Decoders that correct the scores of linear classifiers: what they say before any training, and that they learn."""

from __future__ import annotations

import pytest
import torch

from orderfree.build import build_network, complete_config
from orderfree.decoding.beam import Limits, beam_search
from orderfree.errors import ConfigError
from orderfree.nn.br_decoder import ResidualBRDecoder
from orderfree.nn.residual_decoder import TAKEN, ResidualDecoder
from orderfree.objectives.ocd import OCD, OCDOptions
from orderfree.types import BagInput, EncoderOutput, Rollout

B, L = 3, 4
SCORES = torch.tensor([[1.0, -1.0, 0.5, -2.0], [-1.0, -1.5, -0.9, -1.1], [0.2, 0.1, 2.0, -0.5]])


def encoded() -> EncoderOutput:
    return EncoderOutput(SCORES[:, None], torch.ones(B, 1, dtype=torch.bool), SCORES[None], SCORES)


@pytest.fixture
def decoder() -> ResidualDecoder:
    torch.manual_seed(0)
    return ResidualDecoder(L, L, embedding=3, hidden=5, layers=1, dropout=0.0).eval()


@torch.no_grad()
def test_untrained_it_takes_labels_by_falling_score_down_to_a_threshold(decoder: ResidualDecoder) -> None:
    """Scale 4, offset 0, <eos> at 0: greedily, every label whose score is above 0."""
    found = beam_search(decoder.step, decoder.start(encoded()), L, Limits(width=1, max_labels=L), None)
    named = [[label for label in row if label != L] for row in found.sequences[:, 0].tolist()]
    assert named == [[0, 2], [], [2, 0, 1]]


def test_untrained_binary_relevance_is_the_calibrated_score() -> None:
    decoder = ResidualBRDecoder(L, L, hidden=5, layers=1, dropout=0.0, batch_norm=False).eval()
    assert torch.allclose(decoder(encoded()), 4 * SCORES)


def test_a_label_is_never_named_twice_and_costs_nothing_after(decoder: ResidualDecoder) -> None:
    torch.nn.init.normal_(decoder.output.weight)
    inputs = torch.tensor([[L, 0, 2], [L, 1, 0], [L, 3, 1]])
    logits, state = decoder.unroll(inputs, decoder.start(encoded()))
    assert (logits[0, 1, 0], logits[0, 2, 0], logits[0, 2, 2]) == (TAKEN, TAKEN, TAKEN)
    assert (logits[:, :, L] > TAKEN).all(), "the start symbol is not <eos>"
    assert state.extra[1].sum(dim=1).tolist() == [2, 2, 2]
    rollout = Rollout(torch.tensor([[0, 2, L]] * B), torch.ones(B, 3, dtype=torch.bool))
    targets = torch.tensor([[True, False, True, False]] * B)
    logits, _ = decoder.unroll(rollout.inputs(L), decoder.start(encoded()))
    losses = OCD(OCDOptions(), torch.arange(L + 1)).step_losses(logits, rollout, targets)
    assert torch.isfinite(losses).all()
    losses.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in decoder.parameters() if p.grad is not None)


def test_the_network_has_gradients_for_both_residuals() -> None:
    raw = {"model": {"encoder": "linear", "label_decoder": "residual", "br_decoder": "residual"}}
    network = build_network(complete_config(raw, "the test"), 6, L)
    torch.nn.init.normal_(network.encoder.terms)
    bag = BagInput(torch.tensor([0, 1, 2]), torch.ones(3), torch.tensor([0, 1, 2]))
    encoded, decoder = network.encoder(bag), network.label_decoder
    logits, _ = decoder.unroll(torch.tensor([[L, 0]] * 3), decoder.start(encoded))
    (network.br_decoder(encoded).sum() + logits[..., 1].sum()).backward()
    assert network.br_decoder.output.weight.grad.abs().sum() > 0
    assert network.label_decoder.output.weight.grad.abs().sum() > 0
    assert network.encoder.terms.grad is None, "solved weights stay as they are"


@pytest.mark.parametrize("key", ["label_decoder", "br_decoder"])
def test_there_must_be_scores_to_correct(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"model\.{key}=residual needs model\.encoder=linear"):
        complete_config({"model": {key: "residual"}}, "the test")
