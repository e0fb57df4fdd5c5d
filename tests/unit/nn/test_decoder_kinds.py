"""The other label decoders: same seam, same promises."""

from __future__ import annotations

import pytest
import torch

from orderfree.build import build_network, complete_config
from orderfree.decoding.beam import Limits, beam_search
from orderfree.nn.label_decoder import LabelDecoder
from orderfree.nn.residual_decoder import ResidualDecoder
from orderfree.nn.seq2set_decoder import Seq2SetDecoder
from orderfree.nn.sgm_decoder import SGMDecoder
from orderfree.types import EncoderOutput
from speed.exhaustive import exhaustive_search

B, T, H, L = 3, 4, 6, 4
KINDS = [
    (LabelDecoder, "gru"),
    (SGMDecoder, "lstm"),
    (SGMDecoder, "gru"),
    (Seq2SetDecoder, "lstm"),
    (ResidualDecoder, "lstm"),
]


def make_decoder(kind: type[LabelDecoder], cell: str) -> LabelDecoder:
    torch.manual_seed(3)
    decoder = kind(L, H, embedding=5, hidden=6, layers=2, dropout=0.5, cell=cell)
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return decoder.eval()


def make_encoded() -> EncoderOutput:
    torch.manual_seed(7)
    mask = torch.arange(T) < torch.tensor([4, 2, 1])[:, None]
    return EncoderOutput(torch.randn(B, T, H) * mask[..., None], mask, torch.randn(2, B, H), torch.randn(B, L))


@pytest.mark.parametrize(("kind", "cell"), KINDS)
@torch.no_grad()
def test_unroll_equals_repeated_steps(kind: type[LabelDecoder], cell: str) -> None:
    decoder = make_decoder(kind, cell)
    state = decoder.start(make_encoded())
    inputs = torch.tensor([[L, 0, 2, 1], [L, 3, 1, 0], [L, 2, 3, 1]])
    logits, last = decoder.unroll(inputs, state)
    for t in range(inputs.shape[1]):
        step_logits, state = decoder.step(inputs[:, t], state)
        assert torch.allclose(step_logits, logits[:, t], atol=1e-5)
    assert torch.allclose(state.hidden, last.hidden, atol=1e-5)


@pytest.mark.parametrize(("kind", "cell"), KINDS)
@torch.no_grad()
def test_a_full_width_beam_is_exhaustive(kind: type[LabelDecoder], cell: str) -> None:
    decoder = make_decoder(kind, cell)
    state = decoder.start(make_encoded())
    limits = Limits(width=200, max_labels=3)
    found = beam_search(decoder.step, state, L, limits, None)
    for place in range(B):
        row = torch.tensor([place])
        expected = exhaustive_search(decoder.step, state.select(row, row), L, limits)
        scores = found.scores[place][: len(expected)].tolist()
        assert scores == pytest.approx([score for _, score in expected], abs=1e-4)


@torch.no_grad()
def test_sgm_feeds_back_the_distribution_not_only_the_label() -> None:
    decoder = make_decoder(SGMDecoder, "lstm")
    assert isinstance(decoder, SGMDecoder)
    first = decoder.start(make_encoded())
    _, state = decoder.step(torch.full((B,), L), first)
    probs, taken, context = state.extra
    other = state.select(torch.arange(B))
    flipped = type(other)(other.hidden, other.cell, other.memory, other.mask, (probs.roll(1, dims=1), taken, context))
    label = torch.zeros(B, dtype=torch.long)
    assert not torch.allclose(decoder.step(label, state)[0], decoder.step(label, flipped)[0])
    _, after = decoder.step(label, state)
    assert (after.extra[0][:, 0] == 0).all()  # a label that was fed has no share any more
    assert (after.extra[0][:, L] == 0).all()  # neither has <eos>


@pytest.mark.parametrize(
    "model",
    [
        {"label_decoder": "sgm"},
        {"decoder_cell": "gru", "encoder": "bilstm", "encoder_options": {"cell": "gru", "hidden": 4, "embedding": 4}},
    ],
)
def test_they_are_built_from_the_config(model: dict) -> None:
    network = build_network(complete_config({"model": model}, "the test"), 9, L)
    assert type(network.label_decoder) is (SGMDecoder if model.get("label_decoder") == "sgm" else LabelDecoder)
    if "decoder_cell" in model:
        assert isinstance(network.label_decoder.recurrent, torch.nn.GRU)
        assert isinstance(network.encoder.forwards[0], torch.nn.GRU)


@torch.no_grad()
def test_the_set_decoder_reads_what_the_sequence_decoder_named() -> None:
    decoder = make_decoder(Seq2SetDecoder, "lstm")
    encoded = make_encoded()
    limits = Limits(width=1, max_labels=L)
    greedy = beam_search(decoder.first_stage.step, decoder.first_stage.start(encoded), L, limits, None).sequences[:, 0]
    named = (greedy != L).sum(dim=1)  # (B,)
    state = decoder.start(encoded)
    assert state.mask[:, :T].equal(encoded.mask)
    assert state.mask[:, T:].sum(dim=1).tolist() == (named + 1).tolist()  # its labels, and the step at which it ended
    before, _ = decoder.step(torch.full((B,), L), state)
    decoder.first_stage.embed.weight.add_(1.0)
    after, _ = decoder.step(torch.full((B,), L), decoder.start(encoded))
    assert not torch.allclose(before, after)


@torch.no_grad()
def test_what_one_row_names_does_not_touch_another() -> None:
    """Rows end after different numbers of labels: the shorter ones are masked, not padded with something seen."""
    decoder = make_decoder(Seq2SetDecoder, "lstm")
    encoded = make_encoded()
    together, _ = decoder.step(torch.full((B,), L), decoder.start(encoded))
    for place in range(B):
        own = slice(place, place + 1)
        alone = EncoderOutput(encoded.states[own], encoded.mask[own], encoded.final_hidden[:, own])
        logits, _ = decoder.step(torch.full((1,), L), decoder.start(alone))
        assert torch.allclose(logits[0], together[place], atol=1e-5)
