"""Dropout with 16 random bits for each element."""

import pytest
import torch

from orderfree.nn.dropout import FastDropout


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_it_drops_the_wanted_share_and_keeps_the_mean(probability: float) -> None:
    torch.manual_seed(0)
    dropped = FastDropout(probability)(torch.ones(1000, 1001))
    share = float((dropped == 0).double().mean())
    assert share == pytest.approx(probability, abs=0.002)  # four standard deviations of a million draws
    assert dropped.unique().tolist() == pytest.approx([0, 1 / (1 - probability)], rel=1e-3)


def test_each_of_the_four_elements_of_a_word_is_drawn_alone() -> None:
    torch.manual_seed(0)
    kept = (FastDropout(0.5)(torch.ones(100_000, 4)) > 0).double()  # (N, 4): a row is a word of 64 bits
    assert kept.mean(dim=0).tolist() == pytest.approx([0.5] * 4, abs=0.007)
    correlations = torch.corrcoef(kept.t()) - torch.eye(4, dtype=torch.float64)
    assert correlations.abs().max() < 0.015


def test_the_gradient_passes_where_values_were_kept() -> None:
    values = torch.ones(7, 11, requires_grad=True)
    dropped = FastDropout(0.5)(values)
    dropped.sum().backward()
    assert values.grad is not None
    assert torch.equal(values.grad, dropped.detach())


def test_the_same_seed_gives_the_same_mask() -> None:
    def draw() -> torch.Tensor:
        torch.manual_seed(3)
        return FastDropout(0.5)(torch.ones(100))

    assert torch.equal(draw(), draw())


def test_nothing_is_dropped_in_prediction_or_with_probability_zero() -> None:
    values = torch.randn(50)
    assert torch.equal(FastDropout(0.5).eval()(values), values)
    assert torch.equal(FastDropout(0.0)(values), values)
    assert FastDropout(1.0)(values).abs().max() == 0


def test_the_precision_of_the_values_is_kept() -> None:
    assert FastDropout(0.5)(torch.ones(9, dtype=torch.bfloat16)).dtype == torch.bfloat16
