from __future__ import annotations

import pytest
import torch

from orderfree.decoding.beam import Limits, beam_search
from orderfree.nn.label_decoder import LabelDecoder
from orderfree.types import EncoderOutput, Rollout
from speed.exhaustive import path_log_prob

B, T, H, L = 3, 4, 6, 4


def make_decoder(layers: int = 2, hidden: int = 6) -> LabelDecoder:
    torch.manual_seed(layers)
    decoder = LabelDecoder(L, H, embedding=5, hidden=hidden, layers=layers, dropout=0.5)
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return decoder.eval()


def make_encoded(layers: int = 2) -> EncoderOutput:
    torch.manual_seed(7)
    mask = torch.arange(T) < torch.tensor([4, 2, 1])[:, None]
    return EncoderOutput(torch.randn(B, T, H) * mask[..., None], mask, torch.randn(layers, B, H))


@pytest.mark.parametrize("layers", [1, 2, 3])
@torch.no_grad()
def test_unroll_equals_repeated_steps(layers: int) -> None:
    decoder, state = make_decoder(layers), make_decoder(layers).start(make_encoded())
    inputs = torch.tensor([[L, 0, 2, 1], [L, 3, 1, 0], [L, L, L, L]])
    logits, last = decoder.unroll(inputs, state)
    for t in range(inputs.shape[1]):
        step_logits, state = decoder.step(inputs[:, t], state)
        assert torch.allclose(step_logits, logits[:, t], atol=1e-5)
    assert torch.allclose(state.hidden, last.hidden, atol=1e-5)
    assert torch.allclose(state.cell, last.cell, atol=1e-5)


@torch.no_grad()
def test_the_encoder_starts_the_layers_of_the_same_depth() -> None:
    encoded = make_encoded(layers=2)
    state = make_decoder(layers=2).start(encoded)
    assert torch.equal(state.hidden, encoded.final_hidden)
    assert (state.cell == 0).all()
    deeper = make_decoder(layers=3).start(encoded)
    assert torch.equal(deeper.hidden[:2], encoded.final_hidden)
    assert (deeper.hidden[2] == 0).all()
    shallower = make_decoder(layers=1).start(encoded)
    assert torch.equal(shallower.hidden[0], encoded.summary)


@torch.no_grad()
def test_another_hidden_size_goes_over_a_bridge() -> None:
    decoder = make_decoder(layers=2, hidden=9)
    state = decoder.start(make_encoded())
    assert state.hidden.shape == (2, B, 9)
    logits, _ = decoder.step(torch.full((B,), L), state)
    assert logits.shape == (B, L + 1)


@torch.no_grad()
def test_rows_of_a_beam_are_rows_of_a_batch() -> None:
    """Two rows per input side by side step like a batch whose states are repeated."""
    decoder, encoded = make_decoder(), make_encoded()
    state = decoder.start(encoded)
    twice = torch.arange(B).repeat_interleave(2)
    previous = torch.tensor([0, 1, 2, 3, L, 0])
    together, _ = decoder.step(previous, state.select(twice))
    repeated, _ = decoder.step(previous, state.select(twice, twice))
    assert torch.allclose(together, repeated, atol=1e-6)


@pytest.mark.parametrize("renormalise", [True, False])
@torch.no_grad()
def test_a_rollouts_log_probability_is_the_beams_score_of_that_sequence(renormalise: bool) -> None:
    decoder = make_decoder()
    state = decoder.start(make_encoded())
    found = beam_search(decoder.step, state, L, Limits(width=1000, renormalise=renormalise), None)
    for place in range(B):
        one = torch.tensor([place])
        alone = state.select(one, one)
        for rank in (0, 1, 5, 20):
            sequence = found.sequences[place, rank]
            length = sequence.tolist().index(L) + 1
            rollout = Rollout(sequence[None, :length], torch.ones(1, length, dtype=torch.bool))
            logits, _ = decoder.unroll(rollout.inputs(L), alone)
            if renormalise:
                for t in range(length):  # M_t of Eq. 4
                    logits[0, t, sequence[:t]] = float("-inf")
            log_prob = logits.log_softmax(dim=-1)[0, torch.arange(length), sequence[:length]].sum()
            assert found.log_probs[place, rank].item() == pytest.approx(log_prob.item(), abs=1e-4)
            assert found.scores[place, rank].item() == pytest.approx(log_prob.item(), abs=1e-4)
            labels = tuple(sequence[: length - 1].tolist())
            slow = path_log_prob(decoder.step, alone, labels, L, renormalise)
            assert slow == pytest.approx(log_prob.item(), abs=1e-4)


def test_gradients_reach_every_parameter() -> None:
    decoder = make_decoder(layers=2, hidden=9)
    logits, _ = decoder.unroll(torch.tensor([[L, 0], [L, 1], [L, 2]]), decoder.start(make_encoded()))
    logits.square().sum().backward()
    for name, parameter in decoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
