"""Maximum likelihood of one fixed label sequence (the Seq2seq baseline)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from ..config import Section
from ..types import Rollout
from . import objectives


class MLEOptions(Section):
    """Maximum likelihood of the label sequence in a fixed order (Seq2seq)."""

    order: Literal["frequent_first", "rare_first"] = Field(
        "frequent_first", description="order of the labels in the target sequence"
    )


@objectives.register("mle")
class MLE:
    """-log p_rnn of the correct sequence, every step conditioned on the correct prefix.

    Reference: Nam et al., NeurIPS 2017. Relations: needs an order and only ever sees correct prefixes, the two things
    OCD is free of.
    """

    Options = MLEOptions
    policy = "teacher"

    def __init__(self, options: MLEOptions, rank: Tensor) -> None:
        self.rank = rank
        if options.order == "rare_first":
            last = rank.numel() - 1  # <eos> stays last
            self.rank = rank.clone()
            self.rank[:last] = last - 1 - rank[:last]

    def step_losses(self, logits: Tensor, rollout: Rollout, targets: Tensor) -> Tensor:
        log_probs = logits.log_softmax(dim=-1)  # (B, K, L + 1)
        return -log_probs.gather(2, rollout.sequence[..., None])[..., 0]  # (B, K)
