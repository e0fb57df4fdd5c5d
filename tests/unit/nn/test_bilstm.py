from __future__ import annotations

import pytest
import torch

from orderfree.nn.encoders.bilstm import BiLSTMEncoder, BiLSTMOptions
from orderfree.types import TokenInput

LENGTHS = torch.tensor([5, 1, 8, 3])


@pytest.fixture
def encoder() -> BiLSTMEncoder:
    torch.manual_seed(0)
    return BiLSTMEncoder(BiLSTMOptions(embedding=6, hidden=5, layers=2), 30, 0.5, 4).eval()


@pytest.fixture
def inputs() -> TokenInput:
    return TokenInput(torch.randint(0, 30, (4, 8), generator=torch.Generator().manual_seed(1)), LENGTHS)


@torch.no_grad()
def test_padding_changes_nothing(encoder: BiLSTMEncoder, inputs: TokenInput) -> None:
    together = encoder(inputs)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = encoder(TokenInput(inputs.ids[row : row + 1, :length], LENGTHS[row : row + 1]))
        assert torch.allclose(together.states[row, :length], alone.states[0], atol=1e-5)
        assert torch.allclose(together.final_hidden[:, row], alone.final_hidden[:, 0], atol=1e-5)
        assert (together.states[row, length:] == 0).all()
        assert together.mask[row].tolist() == [True] * length + [False] * (8 - length)


@torch.no_grad()
def test_ids_at_padded_positions_are_never_read(encoder: BiLSTMEncoder, inputs: TokenInput) -> None:
    ids = torch.where(torch.arange(8) < LENGTHS[:, None], inputs.ids, 17)
    other = encoder(TokenInput(ids, LENGTHS))
    assert torch.allclose(encoder(inputs).states, other.states, atol=1e-6)
    assert torch.allclose(encoder(inputs).final_hidden, other.final_hidden, atol=1e-6)


@torch.no_grad()
def test_batch_order_changes_nothing(encoder: BiLSTMEncoder, inputs: TokenInput) -> None:
    order = torch.tensor([2, 0, 3, 1])
    together, shuffled = encoder(inputs), encoder(TokenInput(inputs.ids[order], LENGTHS[order]))
    assert torch.allclose(together.states[order], shuffled.states, atol=1e-5)
    assert torch.allclose(together.final_hidden[:, order], shuffled.final_hidden, atol=1e-5)


@torch.no_grad()
def test_both_directions_are_read(encoder: BiLSTMEncoder, inputs: TokenInput) -> None:
    """Another first word changes the last state, another last word the first."""
    together = encoder(inputs).states
    for changed, seen in ((0, 4), (4, 0)):
        ids = inputs.ids.clone()
        ids[0, changed] = (ids[0, changed] + 1) % 30
        difference = (encoder(TokenInput(ids, LENGTHS)).states - together).abs().amax(dim=-1)
        assert difference[0, seen] > 1e-6
        assert (difference[1:] < 1e-6).all()


def test_dropout_is_for_training_only(encoder: BiLSTMEncoder, inputs: TokenInput) -> None:
    assert torch.equal(encoder(inputs).states, encoder(inputs).states)
    encoder.train()
    assert not torch.equal(encoder(inputs).states, encoder(inputs).states)
