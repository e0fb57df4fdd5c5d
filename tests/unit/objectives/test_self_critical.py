"""Policy gradient against exact expectations."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
import torch
from torch import Tensor

from orderfree.config import ObjectiveConfig
from orderfree.objectives.multitask import Criterion, multitask
from orderfree.objectives.self_critical import SelfCritical, SelfCriticalOptions, set_f1
from orderfree.objectives.teacher_forcing import MLE, MLEOptions
from orderfree.types import ModelOutput, Rollout, RolloutPlan, ScoredRollout

L = 3
TARGETS = torch.tensor([[True, True, False]])
OBJECTIVE = SelfCritical(SelfCriticalOptions(), torch.arange(L + 1))


def test_f1_of_sets_by_hand() -> None:
    sequences = torch.tensor([[1, 0, 3], [0, 3, 3], [2, 3, 3], [2, 0, 3], [3, 3, 3]])
    assert set_f1(sequences, TARGETS.expand(5, L)).tolist() == pytest.approx([1, 2 / 3, 0, 1 / 2, 0])
    nothing = torch.zeros(2, L, dtype=torch.bool)
    assert set_f1(torch.tensor([[3, 3], [0, 3]]), nothing).tolist() == [1.0, 0.0]


def test_warm_up_first_then_samples_against_the_greedy_sequence() -> None:
    assert OBJECTIVE.plan(0.49) == RolloutPlan("teacher")
    assert OBJECTIVE.plan(0.5) == RolloutPlan("sample", baseline="best")


def all_rollouts() -> list[Rollout]:
    """Every sequence without repeats, ended by <eos>; K = L + 1 steps."""
    found = []
    for size in range(L + 1):
        for labels in permutations(range(L), size):
            sequence = torch.tensor([[*labels, *[L] * (L + 1 - size)]])
            found.append(Rollout(sequence, torch.arange(L + 1)[None] <= size))
    return found


def probability(logits: Tensor, rollout: Rollout) -> Tensor:
    """Of sampling this sequence from softmax(o_t + M_t), step by step."""
    total = torch.ones(())
    taken: list[int] = []
    for t, label in enumerate(rollout.sequence[0].tolist()):
        if not rollout.active[0, t]:
            break
        masked = logits[0, t].clone()
        masked[taken] = float("-inf")
        total = total * masked.softmax(dim=-1)[label]
        taken.append(label)
    return total


@pytest.mark.parametrize("baseline", [[3, 3], [0, 3], [1, 0]])
def test_its_expected_gradient_is_that_of_the_expected_reward(baseline: list[int]) -> None:
    """Whatever the baseline: it lowers the variance and changes nothing else."""
    torch.manual_seed(0)
    logits = torch.randn(1, L + 1, L + 1, requires_grad=True)  # o_t, here the same after every prefix
    rollouts = all_rollouts()
    expected_reward = sum(probability(logits, r) * set_f1(r.sequence, TARGETS)[0] for r in rollouts)
    (wanted,) = torch.autograd.grad(expected_reward, logits)
    found = torch.zeros_like(logits)
    for rollout in rollouts:
        compared = replace(rollout, baseline=torch.tensor([baseline]))
        loss = (OBJECTIVE.step_losses(logits, compared, TARGETS) * rollout.active).sum()
        (gradient,) = torch.autograd.grad(loss, logits)
        found += probability(logits, rollout).detach() * gradient
    assert torch.allclose(found, -wanted, atol=1e-5)


def test_a_second_objective_is_added_with_its_weight() -> None:
    logits, rollout = torch.randn(1, 4, L + 1), all_rollouts()[5]
    mle = MLE(MLEOptions(), torch.arange(L + 1))
    scored = ScoredRollout(rollout, logits)
    alone = multitask(Criterion(mle), ModelOutput(None, scored), TARGETS)
    both = multitask(
        Criterion(mle, mle, ObjectiveConfig(second_weight=0.25)), ModelOutput(None, scored, scored), TARGETS
    )
    assert both.total.item() == pytest.approx(1.25 * alone.total.item())
    assert set(both.terms) == {"sequence", "second"}
