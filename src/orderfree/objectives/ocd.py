"""Optimal completion distillation (Eq. 7-10).

The state is the set of labels predicted so far. With N targets, `hits` of them already predicted, and `wrong`
predicted labels that are not targets, the best reward that an action can still lead to has a closed form:

    action                      Q* under Eq. 7            Q* under example-F1
    a target still missing      -wrong                    2N / (2N + wrong)
    <eos>                       -wrong - (N - hits)       2 hits / (N + hits + wrong)
    a label not in the targets  -wrong - 1                2N / (2N + wrong + 1)
    a label already predicted   not an action: -inf

A repeated label would leave the set unchanged at no cost, but Eq. 4 never samples one and the paper's worked example
gives it probability 0: it is not an action. After <eos> the sequence has ended: there is no state and no loss.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from ..config import Section
from ..types import Rollout, RolloutPlan
from . import objectives


class OCDOptions(Section):
    """Optimal completion distillation (Eq. 7-10) on sequences sampled from the model (Eq. 4)."""

    temperature: Annotated[float, Field(ge=0)] = Field(0.0, description="tau of Eq. 9; 0 is the hard limit")
    reward: Literal["hamming", "example_f1"] = Field(
        "hamming", description="Eq. 7, or example-F1: the same hard targets, except for examples without labels"
    )
    prefix: Literal["sampled", "correct"] = Field(
        "sampled", description="sample any label, or only among the labels still missing ('OCD (correct prefix)')"
    )


@objectives.register("ocd")
class OCD:
    """KL(optimal policy || p_rnn) at every step of a sequence sampled from the model (Eq. 10).

    Sampling is masked (Eq. 4), but the loss is not (Eq. 3): the model also learns not to repeat labels.
    Reference: Tsai & Lee, AAAI 2020; Sabour et al., ICLR 2019, for edit distance.
    Relations: with prefix "correct" the model never sees a wrong prefix, as in maximum likelihood, but has no order.
    """

    Options = OCDOptions

    def __init__(self, options: OCDOptions, rank: Tensor) -> None:
        self.options, self.rank = options, rank

    def plan(self, done: float) -> RolloutPlan:
        return RolloutPlan("sample" if self.options.prefix == "sampled" else "sample_missing")

    def step_losses(self, logits: Tensor, rollout: Rollout, targets: Tensor) -> Tensor:
        q_values = optimal_q_values(targets, rollout.sequence, self.options.reward, rollout.barred)  # (B, K, L + 1)
        policy = optimal_policy(q_values, self.options.temperature)  # (B, K, L + 1)
        log_probs = logits.log_softmax(dim=-1)  # (B, K, L + 1)
        return (torch.xlogy(policy, policy) - policy * log_probs).sum(dim=-1)  # (B, K)


def predicted_before(sequence: Tensor, num_labels: int) -> Tensor:
    """sequence (B, K) -> labels predicted before each step (B, K, L) bool."""
    rows, steps = sequence.shape
    chosen = torch.zeros(rows, steps, num_labels + 1, device=sequence.device)  # (B, K, L + 1)
    chosen.scatter_(2, sequence[..., None], 1.0)
    earlier = chosen.cumsum(dim=1) - chosen  # (B, K, L + 1)
    return earlier[..., :num_labels] > 0


def optimal_q_values(
    targets: Tensor, sequence: Tensor, reward: str = "hamming", barred: Tensor | None = None
) -> Tensor:
    """Q* of Eq. 8 for every action at every step: targets (B, L) bool, sequence (B, K) -> (B, K, L + 1).

    barred (B, L): further labels that are not actions."""
    num_labels = targets.shape[1]
    predicted = predicted_before(sequence, num_labels)  # (B, K, L)
    wanted = targets[:, None]  # (B, 1, L)
    hits = (predicted & wanted).sum(dim=-1, keepdim=True).float()  # (B, K, 1)
    wrong = (predicted & ~wanted).sum(dim=-1, keepdim=True).float()  # (B, K, 1)
    size = targets.sum(dim=-1).float()[:, None, None].expand_as(hits)  # (B, K, 1)
    if reward == "hamming":
        correct, stop, mistake = -wrong, -wrong - (size - hits), -wrong - 1
    else:
        correct = _f1(size, size, wrong)
        stop = _f1(size, hits, wrong)
        mistake = _f1(size, size, wrong + 1)
    impossible = predicted if barred is None else predicted | barred[:, None]  # (B, K, L)
    labels = torch.where(wanted, correct, mistake).masked_fill(impossible, float("-inf"))  # (B, K, L)
    return torch.cat([labels, stop], dim=-1)  # (B, K, L + 1)


def _f1(size: Tensor, hits: Tensor, wrong: Tensor) -> Tensor:
    """Example-F1 of a set with `hits` of `size` targets and `wrong` others; 1 where both sets are empty."""
    both = size + hits + wrong
    return torch.where(both > 0, 2 * hits / both.clamp(min=1), torch.ones_like(both))


def optimal_policy(q_values: Tensor, temperature: float) -> Tensor:
    """softmax(Q* / tau) (Eq. 9); at tau = 0 all mass, equally, on the best actions."""
    best = q_values.amax(dim=-1, keepdim=True)
    if temperature == 0:
        optimal = (q_values == best).float()
        return optimal / optimal.sum(dim=-1, keepdim=True)
    return ((q_values - best) / temperature).softmax(dim=-1)
