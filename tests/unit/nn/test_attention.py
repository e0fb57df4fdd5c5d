from __future__ import annotations

import pytest
import torch

from orderfree.nn.attention import Attention

B, T, H, D = 3, 5, 4, 6


@pytest.fixture
def attention() -> Attention:
    torch.manual_seed(0)
    return Attention(D, H)


def random_states() -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([5, 2, 1])
    mask = torch.arange(T) < lengths[:, None]
    return torch.randn(B, T, H), mask


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("steps", [1, 3])
def test_rows_of_one_input_side_by_side_equal_repeated_states(attention: Attention, width: int, steps: int) -> None:
    states, mask = random_states()
    query = torch.randn(B * width, steps, D)
    context, weights = attention(query, states, mask)
    repeated = attention(query, states.repeat_interleave(width, 0), mask.repeat_interleave(width, 0))
    assert torch.allclose(context, repeated[0], atol=1e-6)
    assert torch.allclose(weights, repeated[1], atol=1e-6)


def test_masked_positions_get_no_weight_and_real_ones_share_it_all(attention: Attention) -> None:
    states, mask = random_states()
    _, weights = attention(torch.randn(B, 2, D), states, mask)
    masked = ~mask[:, None].expand_as(weights)
    assert (weights[masked] == 0).all()
    assert (weights[~masked] > 0).all()
    assert torch.allclose(weights.sum(dim=-1), torch.ones(B, 2))


def test_what_stands_at_masked_positions_is_never_read(attention: Attention) -> None:
    states, mask = random_states()
    query = torch.randn(B, 1, D)
    other = torch.where(mask[..., None], states, torch.full_like(states, 1e3))
    assert torch.equal(attention(query, states, mask)[0], attention(query, other, mask)[0])


def test_by_the_formula(attention: Attention) -> None:
    """softmax(tanh(W q + b) · s_i) over two real positions, written out."""
    states, query = torch.randn(1, 2, H), torch.randn(1, 1, D)
    key = torch.tanh(attention.project.weight @ query[0, 0] + attention.project.bias)
    first, second = (torch.exp(key @ states[0, i]) for i in range(2))
    expected = (first * states[0, 0] + second * states[0, 1]) / (first + second)
    context, _ = attention(query, states, torch.ones(1, 2, dtype=torch.bool))
    assert torch.allclose(context[0, 0], expected, atol=1e-6)
