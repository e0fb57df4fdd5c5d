"""Maximum likelihood of one label sequence: in a fixed order (Seq2seq) or the model's order (order-free RNN)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from ..config import Section
from ..types import Rollout, RolloutPlan
from . import objectives

Ratio = Annotated[float, Field(ge=0, le=1)]


class TeacherOptions(Section):
    """Options of every objective with a teacher."""

    teacher_start: Ratio = Field(1.0, description="share of steps fed the correct label, at the start of training")
    teacher_end: Ratio = Field(1.0, description="the same at the end, linear in between (scheduled sampling: 0.7)")


class MLEOptions(TeacherOptions):
    """Maximum likelihood of the label sequence in a fixed order (Seq2seq)."""

    order: Literal["frequent_first", "rare_first"] = Field(
        "frequent_first", description="order of the labels in the target sequence"
    )


class Teacher:
    """-log p_rnn of the sequence the policy chose, whichever labels the decoder was fed."""

    policy: ClassVar[str]

    def __init__(self, options: TeacherOptions, rank: Tensor) -> None:
        self.options, self.rank = options, rank

    def plan(self, done: float) -> RolloutPlan:
        ratio = self.options.teacher_start + done * (self.options.teacher_end - self.options.teacher_start)
        return RolloutPlan(self.policy, ratio)

    def step_losses(self, logits: Tensor, rollout: Rollout, targets: Tensor) -> Tensor:
        return negative_log_likelihood(logits, rollout.sequence)


def negative_log_likelihood(logits: Tensor, sequence: Tensor) -> Tensor:
    """-log p_rnn of every label of a sequence: logits (B, K, L + 1), sequence (B, K) -> (B, K)."""
    return -logits.log_softmax(dim=-1).gather(2, sequence[..., None])[..., 0]


@objectives.register("mle")
class MLE(Teacher):
    """Maximum likelihood of the labels in a fixed order.

    Reference: Nam et al., NeurIPS 2017. Relations: it needs an order and is trained on correct prefixes only; OCD
    needs neither. Scheduled sampling (Bengio et al., NeurIPS 2015) adds some wrong prefixes.
    """

    Options = MLEOptions
    policy = "teacher"

    def __init__(self, options: MLEOptions, rank: Tensor) -> None:
        super().__init__(options, rank)
        if options.order == "rare_first":
            last = rank.numel() - 1  # <eos> stays last
            self.rank = rank.clone()
            self.rank[:last] = last - 1 - rank[:last]


class OrderFreeOptions(TeacherOptions):
    """The next target is the missing label with the highest probability (order-free RNN)."""


@objectives.register("order_free")
class OrderFree(Teacher):
    """Maximum likelihood of the labels in the order that the model prefers at each step.

    Reference: Chen et al., AAAI 2018. Relations: no fixed order, but correct prefixes only; the target is one missing
    label, where OCD spreads it over all of them. Chen et al. start from a given order; here training starts from the
    preference of the untrained model.
    """

    Options = OrderFreeOptions
    policy = "best_missing"
