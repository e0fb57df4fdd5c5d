"""The classifier chain as a label decoder: the same distribution of sets as its product of binary decisions."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from orderfree.build import build_network, complete_config
from orderfree.decoding.beam import Limits, beam_search
from orderfree.errors import ConfigError
from orderfree.nn.br_decoder import BRDecoder
from orderfree.nn.chain_decoder import ChainDecoder
from orderfree.types import DecoderState, EncoderOutput
from speed.exhaustive import path_log_prob

B, T, H, L = 3, 2, 4, 4


@pytest.fixture
def decoder() -> ChainDecoder:
    torch.manual_seed(2)
    made = ChainDecoder(L, BRDecoder(L, H, hidden=5, layers=1, dropout=0.0, batch_norm=False))
    torch.nn.init.normal_(made.influence, std=2.0)
    return made.eval()


@pytest.fixture
def state(decoder: ChainDecoder) -> DecoderState:
    torch.manual_seed(4)
    encoded = EncoderOutput(torch.randn(B, T, H), torch.ones(B, T, dtype=torch.bool), torch.randn(1, B, H))
    with torch.no_grad():
        return decoder.start(encoded)


def chain_log_prob(decoder: ChainDecoder, scores: torch.Tensor, chosen: tuple[int, ...]) -> float:
    """log P(y | x) as the papers write it: one binary classifier after another."""
    total = 0.0
    for label in range(L):
        own = scores[label] + sum(decoder.influence[label, earlier] for earlier in chosen if earlier < label)
        prob = torch.sigmoid(own)
        total += float(torch.log(prob if label in chosen else 1 - prob))
    return total


ALL_SETS = [chosen for size in range(L + 1) for chosen in combinations(range(L), size)]


@torch.no_grad()
def test_a_path_has_the_probability_of_its_set(decoder: ChainDecoder, state: DecoderState) -> None:
    for place in range(B):
        row = torch.tensor([place])
        for chosen in ALL_SETS:
            expected = chain_log_prob(decoder, state.hidden[0, place], chosen)
            for renormalise in (True, False):
                found = path_log_prob(decoder.step, state.select(row, row), chosen, L, renormalise)
                assert found == pytest.approx(expected, abs=1e-4)


@torch.no_grad()
def test_the_probabilities_of_all_sets_add_up_to_one(decoder: ChainDecoder, state: DecoderState) -> None:
    row = torch.tensor([0])
    probs = [path_log_prob(decoder.step, state.select(row, row), chosen, L, True) for chosen in ALL_SETS]
    assert torch.tensor(probs).exp().sum().item() == pytest.approx(1.0, abs=1e-5)


@torch.no_grad()
def test_a_wide_beam_finds_the_most_probable_set(decoder: ChainDecoder, state: DecoderState) -> None:
    found = beam_search(decoder.step, state, L, Limits(width=40, max_labels=L), None)
    for place in range(B):
        scores = state.hidden[0, place]
        best = max(ALL_SETS, key=lambda chosen: chain_log_prob(decoder, scores, chosen))
        assert tuple(label for label in found.sequences[place, 0].tolist() if label != L) == best


@torch.no_grad()
def test_unroll_equals_repeated_steps(decoder: ChainDecoder, state: DecoderState) -> None:
    inputs = torch.tensor([[L, 0, 2], [L, 1, 3], [L, 0, 1]])
    logits, last = decoder.unroll(inputs, state)
    for t in range(inputs.shape[1]):
        own, state = decoder.step(inputs[:, t], state)
        assert torch.allclose(own, logits[:, t], atol=1e-5)
    assert torch.equal(last.cell, state.cell)


@torch.no_grad()
def test_a_forced_label_keeps_the_hypothesis_alive(decoder: ChainDecoder, state: DecoderState) -> None:
    """After the last label of the chain only <eos> is left; min_labels asks for more."""
    found = beam_search(decoder.step, state, L, Limits(width=2, min_labels=L, max_labels=L), None)
    assert torch.isfinite(found.scores[:, 0]).all()
    assert sorted(found.sequences[0, 0].tolist()[:L]) == list(range(L))


@pytest.mark.parametrize(
    "objective",
    [{"sequence": "ocd"}, {"sequence": "mle", "sequence_options": {"order": "rare_first"}},
     {"sequence": "mle", "second": "ocd"}],
)  # fmt: skip
def test_a_chain_is_trained_in_its_own_order_only(objective: dict) -> None:
    with pytest.raises(ConfigError, match="chain goes from frequent labels to rare"):
        complete_config({"model": {"label_decoder": "chain"}, "objective": objective}, "the test")


def test_it_is_built_from_a_config() -> None:
    raw = {"model": {"label_decoder": "chain"}, "objective": {"sequence": "mle", "br_weight": 0.0}}
    network = build_network(complete_config(raw, "the test"), 10, L)
    assert isinstance(network.label_decoder, ChainDecoder)
