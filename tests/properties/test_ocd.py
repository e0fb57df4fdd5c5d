"""OCD against a scalar twin written from the definition of Q* (Eq. 8): try every completion, keep the best reward."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderfree.objectives.ocd import OCD, OCDOptions, optimal_policy, optimal_q_values
from orderfree.types import Rollout

REWARDS = ("hamming", "example_f1")
quick = settings(max_examples=60, deadline=None, derandomize=True)


def reward_of(predicted: frozenset[int], targets: frozenset[int], reward: str) -> float:
    if reward == "hamming":  # Eq. 7
        return -float(len(predicted ^ targets))
    if not predicted and not targets:
        return 1.0
    return 2 * len(predicted & targets) / (len(predicted) + len(targets))


@cache
def q_value(prefix: frozenset[int], action: int, targets: frozenset[int], num_labels: int, reward: str) -> float:
    """max over all completions of the reward of the set they end in. Order is no matter, so a completion is any set
    of labels not predicted yet."""
    if action == num_labels:
        return reward_of(prefix, targets, reward)
    if action in prefix:
        return -math.inf
    after = prefix | {action}
    rest = sorted(set(range(num_labels)) - after)
    completions = (after | set(more) for n in range(len(rest) + 1) for more in combinations(rest, n))
    return max(reward_of(frozenset(completed), targets, reward) for completed in completions)


def scalar_policy(q_values: list[float], temperature: float) -> list[float]:
    """Eq. 9."""
    best = max(q_values)
    if temperature == 0:
        weights = [float(q == best) for q in q_values]
    else:
        weights = [math.exp((q - best) / temperature) for q in q_values]
    return [weight / sum(weights) for weight in weights]


def scalar_kl(policy: list[float], logits: list[float]) -> float:
    """One term of Eq. 10."""
    norm = math.log(sum(math.exp(value) for value in logits))
    return sum(p * (math.log(p) - (value - norm)) for p, value in zip(policy, logits, strict=True) if p > 0)


@st.composite
def problems(draw: st.DrawFn) -> tuple[int, frozenset[int], list[int]]:
    """Labels, targets and a sequence without repeats, ended by <eos> or cut off."""
    num_labels = draw(st.integers(1, 5))
    targets = draw(st.frozensets(st.integers(0, num_labels - 1)))
    order = draw(st.permutations(range(num_labels)))
    sequence = list(order[: draw(st.integers(0, num_labels))])
    if not sequence or draw(st.booleans()):
        sequence.append(num_labels)
    return num_labels, targets, sequence


temperatures = st.sampled_from([0.0, 1e-8, 0.1, 0.7, 1.0, 10.0])


def as_tensors(num_labels: int, targets: frozenset[int], sequence: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([[label in targets for label in range(num_labels)]]), torch.tensor([sequence])


def scalar_q_values(num_labels: int, targets: frozenset[int], sequence: list[int], reward: str) -> list[list[float]]:
    prefixes = [frozenset(sequence[:t]) for t in range(len(sequence))]
    return [[q_value(p, action, targets, num_labels, reward) for action in range(num_labels + 1)] for p in prefixes]


@quick
@given(problems(), st.sampled_from(REWARDS))
def test_q_values(problem, reward: str) -> None:
    fast = optimal_q_values(*as_tensors(*problem), reward)[0].tolist()
    for step, expected in zip(fast, scalar_q_values(*problem, reward), strict=True):
        assert step == pytest.approx(expected, abs=1e-6)


@quick
@given(problems(), st.sampled_from(REWARDS), temperatures)
def test_policy(problem, reward: str, temperature: float) -> None:
    fast = optimal_policy(optimal_q_values(*as_tensors(*problem), reward), temperature)[0].tolist()
    for t, (step, q_values) in enumerate(zip(fast, scalar_q_values(*problem, reward), strict=True)):
        assert step == pytest.approx(scalar_policy(q_values, temperature), abs=1e-5)
        for already in problem[2][:t]:
            assert step[already] == 0


@quick
@given(problems(), st.sampled_from(REWARDS), temperatures, st.integers(0, 2**31))
def test_loss_of_every_step(problem, reward: str, temperature: float, seed: int) -> None:
    num_labels, _, sequence = problem
    targets, taken = as_tensors(*problem)
    logits = 3 * torch.randn(1, len(sequence), num_labels + 1, generator=torch.Generator().manual_seed(seed))
    objective = OCD(OCDOptions(temperature=temperature, reward=reward), torch.arange(num_labels + 1))
    losses = objective.step_losses(logits, Rollout(taken, torch.ones_like(taken, dtype=torch.bool)), targets)
    expected = [
        scalar_kl(scalar_policy(q_values, temperature), row)
        for q_values, row in zip(scalar_q_values(*problem, reward), logits[0].tolist(), strict=True)
    ]
    assert losses[0].tolist() == pytest.approx(expected, abs=1e-4)


@quick
@given(problems())
def test_example_f1_has_the_hard_targets_of_eq_7(problem) -> None:
    """With one exception: nothing is wanted and something was predicted. F1 is 0 whatever follows, so every action
    ties, while Eq. 7 still says stop."""
    num_labels, wanted, sequence = problem
    targets, taken = as_tensors(*problem)
    hamming, f1 = (optimal_policy(optimal_q_values(targets, taken, reward), 0.0)[0] for reward in REWARDS)
    for t in range(len(sequence)):
        if wanted or t == 0:
            assert torch.equal(hamming[t], f1[t])
        else:
            assert hamming[t, num_labels] == 1
            free = num_labels + 1 - t
            assert f1[t].max() == pytest.approx(1 / free)


@quick
@given(st.lists(problems(), min_size=2, max_size=4), st.sampled_from(REWARDS))
def test_rows_do_not_touch_one_another(rows, reward: str) -> None:
    num_labels = 5
    steps = max(len(sequence) for _, _, sequence in rows)
    filled = []
    for own_labels, _, sequence in rows:  # <eos> of the row's own problem becomes that of the larger one
        ids = [num_labels if label == own_labels else label for label in sequence]
        filled.append(ids + [num_labels] * (steps - len(ids)))
    targets = torch.tensor([[label in wanted for label in range(num_labels)] for _, wanted, _ in rows])
    together = optimal_q_values(targets, torch.tensor(filled), reward)
    for place in range(len(rows)):
        alone = optimal_q_values(targets[place : place + 1], torch.tensor(filled[place : place + 1]), reward)
        assert torch.equal(together[place], alone[0])
