"""Policy gradient on a set reward: sampled sequences against the model's greedy sequences (Seq2Set)."""

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
        0.5, description="share of training by maximum likelihood before sampling: the first samples have no useful F1"
    )


@objectives.register("self_critical")
class SelfCritical:
    """-(F1(sampled set) - F1(greedy set)) log p(sampled sequence): samples better than the greedy set are reinforced.

    F1 does not depend on the order of the labels, so neither does the reward.
    Reference: Yang et al., "A Deep Reinforced Sequence-to-Set Model for Multi-Label Classification", ACL 2019;
    Rennie et al., CVPR 2017, for the baseline. Relations: OCD also trains on the model's own samples, but has a target
    distribution at every step; here all steps of a sequence share one reward.
    """

    Options = SelfCriticalOptions

    def __init__(self, options: SelfCriticalOptions, rank: Tensor) -> None:
        self.options, self.rank = options, rank
        self.warmup = options.warmup  # share of training during which no weights are kept

    def plan(self, done: float) -> RolloutPlan:
        return RolloutPlan("teacher") if done < self.options.warmup else RolloutPlan("sample", baseline="best")

    def step_losses(self, logits: Tensor, rollout: Rollout, targets: Tensor) -> Tensor:
        if rollout.baseline is None:  # warm-up
            return negative_log_likelihood(logits, rollout.sequence)
        advantage = set_f1(rollout.sequence, targets) - set_f1(rollout.baseline, targets)  # (B,)
        # samples come from softmax(o_t + M_t) (Eq. 4), so the gradient is that of the masked policy
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
