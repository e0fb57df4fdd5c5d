"""Policy gradient on a set reward: sampled sequences against the model's own greedy ones (Seq2Set)."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from ..config import Section
from ..types import Rollout, RolloutPlan
from . import objectives
from .ocd import predicted_before
from .teacher_forcing import negative_log_likelihood


class SelfCriticalOptions(Section):
    """Self-critical policy gradient on the F1 of the generated set (Seq2Set)."""

    warmup: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="share of training by maximum likelihood before the first sample: F1 of noise teaches nothing"
    )


@objectives.register("self_critical")
class SelfCritical:
    """-(F1(sampled set) - F1(greedy set)) log p(sampled sequence): what beats the model's own best guess is reinforced.

    F1 does not know the order of the labels, so neither does the reward.
    Reference: Yang et al., "A Deep Reinforced Sequence-to-Set Model for Multi-Label Classification", ACL 2019;
    Rennie et al., CVPR 2017, for the baseline. Relations: OCD too trains on the model's own samples, but tells it at
    every step which actions were right; here all steps of a sequence share one number.
    """

    Options = SelfCriticalOptions

    def __init__(self, options: SelfCriticalOptions, rank: Tensor) -> None:
        self.options, self.rank = options, rank
        self.warmup = options.warmup  # share of training whose weights are not kept in the end

    def plan(self, done: float) -> RolloutPlan:
        return RolloutPlan("teacher") if done < self.options.warmup else RolloutPlan("sample", baseline="best")

    def step_losses(self, logits: Tensor, rollout: Rollout, targets: Tensor) -> Tensor:
        if rollout.baseline is None:  # warm-up
            return negative_log_likelihood(logits, rollout.sequence)
        advantage = set_f1(rollout.sequence, targets) - set_f1(rollout.baseline, targets)  # (B,)
        # sampled from softmax(o_t + M_t) (Eq. 4), so that is the policy whose gradient is taken
        taken = predicted_before(rollout.sequence, targets.shape[1])  # (B, K, L)
        masked = torch.cat([logits[..., :-1].masked_fill(taken, float("-inf")), logits[..., -1:]], dim=-1)
        return advantage[:, None] * negative_log_likelihood(masked, rollout.sequence)  # (B, K)


def set_f1(sequence: Tensor, targets: Tensor) -> Tensor:
    """F1 of the set of labels in each row: sequence (B, K), targets (B, L) -> (B,); 1 where both sets are empty."""
    rows, num_labels = targets.shape
    chosen = torch.zeros(rows, num_labels + 1, dtype=torch.bool, device=targets.device)
    chosen = chosen.scatter(1, sequence, True)[:, :num_labels]  # (B, L)
    both = (chosen.sum(dim=1) + targets.sum(dim=1)).float()  # (B,)
    return torch.where(both > 0, 2 * (chosen & targets).sum(dim=1) / both.clamp(min=1), 1.0)
