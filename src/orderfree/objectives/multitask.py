"""Eq. 11 and 12: binary cross-entropy, and its sum with the label decoder's loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..types import LossTerms, ModelOutput
from . import SequenceObjective


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Eq. 11, summed over labels, mean over examples. The paper prints a likelihood; a loss is its negative."""
    return F.binary_cross_entropy_with_logits(logits, targets.float(), reduction="sum") / len(logits)


def multitask(
    output: ModelOutput, targets: Tensor, objective: SequenceObjective | None, br_weight: float, normalise: str
) -> LossTerms:
    """L_MTL = L_sequence + lambda L_logistic (Eq. 12); a part without its decoder is left out."""
    terms: dict[str, Tensor] = {}
    total = torch.zeros((), device=targets.device)
    if objective is not None and output.sequence_logits is not None and output.rollout is not None:
        active = output.rollout.active
        losses = objective.step_losses(output.sequence_logits, output.rollout, targets) * active  # (B, K)
        divisor = len(targets) if normalise == "sequence" else active.sum()  # Eq. 10 sums over the steps of a sequence
        terms["sequence"] = losses.sum() / divisor
        total = total + terms["sequence"]
    if output.br_logits is not None:
        terms["br"] = binary_cross_entropy(output.br_logits, targets)
        total = total + br_weight * terms["br"]
    return LossTerms(total, {name: term.detach() for name, term in terms.items()})
