"""Scoring only the steps a sequence has gives the losses and gradients of scoring every step of every row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from orderfree.nn.br_decoder import BRDecoder
from orderfree.nn.chain_decoder import ChainDecoder
from orderfree.nn.label_decoder import LabelDecoder, group_by_length, unroll_active
from orderfree.nn.seq2set_decoder import Seq2SetDecoder
from orderfree.nn.sgm_decoder import SGMDecoder
from orderfree.types import EncoderOutput

B, T, H, L, K = 9, 5, 6, 4, 7
# how many steps each row has
MANY_SHORT = torch.tensor([2, 1, 2, 7, 1, 2, 3, 1, 2])
ALL_LONG = torch.tensor([7, 6, 7, 7, 5, 7, 7, 6, 7])
DECODERS = {
    "lstm": lambda: LabelDecoder(L, H, 3, 5, 2, 0.0),
    "sgm": lambda: SGMDecoder(L, H, 3, 5, 1, 0.0),
    "seq2set": lambda: Seq2SetDecoder(L, H, 3, 5, 1, 0.0),
    "chain": lambda: ChainDecoder(L, BRDecoder(L, H, 5, 1, 0.0, False)),
}


def scored(kind: str, lengths: Tensor, only_active: bool) -> tuple[Tensor, list[Tensor]]:
    """Logits of active steps (everything else zero), and the gradients of a loss that reads them."""
    torch.manual_seed(3)
    decoder = DECODERS[kind]()
    states = torch.randn(B, T, H, requires_grad=True)
    mask = torch.arange(T) < torch.randint(1, T + 1, (B, 1))
    encoded = EncoderOutput(states * mask[..., None], mask, torch.randn(1, B, H))
    active = torch.arange(K) < lengths[:, None]  # (B, K)
    inputs = torch.cat([torch.full((B, 1), L), torch.randint(0, L, (B, K - 1))], dim=1)  # (B, K)
    weights = torch.randn(B, K, L + 1)
    state = decoder.start(encoded)
    logits = unroll_active(decoder, inputs, active, state) if only_active else decoder.unroll(inputs, state)[0]
    logits = torch.where(active[..., None], logits, 0.0)
    (logits * weights).sum().backward()
    return logits.detach(), [states.grad, *(p.grad for p in decoder.parameters() if p.grad is not None)]


@pytest.mark.parametrize("lengths", [MANY_SHORT, ALL_LONG], ids=["many short", "all long"])
@pytest.mark.parametrize("kind", DECODERS)
def test_losses_and_gradients_are_those_of_all_steps(kind: str, lengths: Tensor) -> None:
    fast, fast_gradients = scored(kind, lengths, only_active=True)
    slow, slow_gradients = scored(kind, lengths, only_active=False)
    assert torch.allclose(fast, slow, atol=1e-5)
    assert len(fast_gradients) == len(slow_gradients) > 1
    for own, other in zip(fast_gradients, slow_gradients, strict=True):
        assert torch.allclose(own, other, atol=1e-4)


def test_the_steps_run_are_fewer() -> None:
    counted = 0

    class Counting(LabelDecoder):
        def unroll(self, inputs, state):  # type: ignore[no-untyped-def]
            nonlocal counted
            counted += inputs.numel()
            return super().unroll(inputs, state)

    decoder = Counting(L, H, 3, 5, 1, 0.0)
    encoded = EncoderOutput(torch.randn(B, T, H), torch.ones(B, T, dtype=torch.bool), torch.randn(1, B, H))
    active = torch.arange(K) < MANY_SHORT[:, None]
    unroll_active(decoder, torch.full((B, K), L), active, decoder.start(encoded))
    assert counted == 3 * 1 + 4 * 2 + 1 * 3 + 1 * 7  # no row runs further than it must


@pytest.mark.parametrize(
    ("counts", "spared", "groups"),
    [
        ([0, 5], 1, [(5, 0, 1)]),  # all rows of one length
        ([0, 3, 4, 1, 0, 0, 0, 1], 0, [(3, 0, 1), (4, 2, 2), (1, 3, 3), (1, 4, 7)]),  # every cut is made
        ([0, 3, 4, 1, 0, 0, 0, 1], 4, [(7, 0, 2), (1, 3, 3), (1, 4, 7)]),  # one that saves three steps is not
        ([0, 3, 4, 1, 0, 0, 0, 1], 5, [(7, 0, 2), (2, 3, 7)]),
        ([0, 3, 4, 1, 0, 0, 0, 1], 36, [(9, 0, 7)]),  # the best one saves 35
    ],
)
def test_groups_cut_by_hand(counts: list[int], spared: float, groups: list[tuple[int, int, int]]) -> None:
    assert group_by_length(counts, spared) == groups


def test_states_that_cost_more_to_copy_than_is_saved_stay_in_one_piece() -> None:
    called = 0

    class Counting(LabelDecoder):
        def unroll(self, inputs, state):  # type: ignore[no-untyped-def]
            nonlocal called
            called += 1
            return super().unroll(inputs, state)

    decoder = Counting(L, H, 3, 5, 1, 0.0)
    active = torch.arange(K) < MANY_SHORT[:, None]
    for words, calls in ((5, 4), (5000, 1)):
        called = 0
        encoded = EncoderOutput(torch.randn(B, words, H), torch.ones(B, words, dtype=torch.bool), torch.randn(1, B, H))
        unroll_active(decoder, torch.full((B, K), L), active, decoder.start(encoded))
        assert called == calls
