"""The worked example of the paper (its table of A, B, C, D), row by row, and what follows from Eq. 7-10 by hand."""

from __future__ import annotations

import math

import pytest
import torch

from orderfree.objectives.ocd import OCD, OCDOptions, optimal_policy, optimal_q_values, predicted_before
from orderfree.types import Rollout

A, B, C, D, EOS = range(5)
TARGETS = torch.tensor([[True, True, False, True]])
SEQUENCE = torch.tensor([[B, C, A, D, EOS]])
RANK = torch.arange(5)

# step: OCD targets, optimal policy, best reward still possible
TABLE = [
    ({A, B, D}, [1 / 3, 1 / 3, 0, 1 / 3, 0], 0),
    ({A, D}, [1 / 2, 0, 0, 1 / 2, 0], 0),
    ({A, D}, [1 / 2, 0, 0, 1 / 2, 0], -1),
    ({D}, [0, 0, 0, 1, 0], -1),
    ({EOS}, [0, 0, 0, 0, 1], -1),
]


@pytest.mark.parametrize("step", range(5))
@pytest.mark.parametrize("temperature", [0.0, 1e-8])
def test_the_table_of_the_paper(step: int, temperature: float) -> None:
    optimal, policy, reward = TABLE[step]
    q_values = optimal_q_values(TARGETS, SEQUENCE)[0, step]
    assert q_values.max() == reward
    assert set((q_values == q_values.max()).nonzero()[:, 0].tolist()) == optimal
    assert optimal_policy(q_values, temperature).tolist() == pytest.approx(policy)


def test_every_q_value_of_the_second_step() -> None:
    """B was right: A and D go on to 0; C costs 1; to stop leaves A and D out; B is no action."""
    assert optimal_q_values(TARGETS, SEQUENCE)[0, 1].tolist() == [0, -math.inf, -1, 0, -2]


def test_every_q_value_of_the_third_step_under_example_f1() -> None:
    """After B, C: the best set left is {A, B, D, C}, F1 6/7; to stop now gives {B, C}, F1 2/5."""
    q_values = optimal_q_values(TARGETS, SEQUENCE, "example_f1")[0, 2].tolist()
    assert q_values == pytest.approx([6 / 7, -math.inf, -math.inf, 6 / 7, 2 / 5])


def test_predicted_before() -> None:
    before = predicted_before(SEQUENCE, 4)[0]
    expected = [set(), {B}, {B, C}, {A, B, C}, {A, B, C, D}]
    assert [set(row.nonzero()[:, 0].tolist()) for row in before] == expected


def test_the_loss_of_a_uniform_model() -> None:
    """KL of 1/n on n optimal actions from a uniform model over five actions: log 5 - log n."""
    rollout = Rollout(SEQUENCE, torch.ones(1, 5, dtype=torch.bool))
    losses = OCD(OCDOptions(), RANK).step_losses(torch.zeros(1, 5, 5), rollout, TARGETS)
    assert losses[0].tolist() == pytest.approx([math.log(5 / n) for n in (3, 2, 2, 1, 1)])


@pytest.mark.parametrize("temperature", [0.0, 0.3, 2.0])
def test_the_loss_is_zero_only_where_the_model_is_the_policy(temperature: float) -> None:
    rollout = Rollout(SEQUENCE, torch.ones(1, 5, dtype=torch.bool))
    objective = OCD(OCDOptions(temperature=temperature), RANK)
    policy = optimal_policy(optimal_q_values(TARGETS, SEQUENCE), temperature)
    logits = policy.clamp(min=1e-30).log()
    assert objective.step_losses(logits, rollout, TARGETS).abs().max() < 1e-6
    for action in range(5):
        other = logits.clone()
        other[..., action] = 1.0  # changes the model wherever that action is not already sure
        changed = (other.softmax(-1) - policy).abs().amax(-1) > 1e-4
        losses = objective.step_losses(other, rollout, TARGETS)
        assert changed.any()
        assert (losses[changed] > 1e-6).all()
        assert (losses >= -1e-6).all()


def test_repeating_a_label_is_punished_though_it_is_never_sampled() -> None:
    """The loss is over softmax(o_t), unmasked: probability on a label already predicted costs."""
    rollout = Rollout(SEQUENCE, torch.ones(1, 5, dtype=torch.bool))
    logits = torch.zeros(1, 5, 5, requires_grad=True)
    OCD(OCDOptions(), RANK).step_losses(logits, rollout, TARGETS)[0, 1].backward()
    assert logits.grad is not None
    assert logits.grad[0, 1, B] == pytest.approx(0.2)


def test_the_policy_follows_the_prefix_option() -> None:
    assert OCD(OCDOptions(), RANK).plan(0.5).policy == "sample"
    assert OCD(OCDOptions(prefix="correct"), RANK).plan(0.5).policy == "sample_missing"


def test_without_targets_only_eos_is_optimal() -> None:
    nothing = torch.zeros(1, 4, dtype=torch.bool)
    for reward in ("hamming", "example_f1"):
        q_values = optimal_q_values(nothing, torch.tensor([[EOS]]), reward)
        assert optimal_policy(q_values, 0.0)[0, 0].tolist() == [0, 0, 0, 0, 1]
