"""Eq. 11 and 12: binary cross-entropy, and its sum with the label decoder's loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..types import LossTerms, ModelOutput
from . import SequenceObjective


def binary_cross_entropy(logits: Tensor, targets: Tensor, focus: float = 0.0) -> Tensor:
    """Eq. 11, summed over labels, mean over examples. The paper prints a likelihood; a loss is its negative.

    With `focus` > 0 a label that is absent counts p^focus of its loss, so that the many that are plainly absent do not
    outvote the few that are there: the asymmetric loss of Ridnik et al. (2021), with nothing taken from positives."""
    if not focus:
        return F.binary_cross_entropy_with_logits(logits, targets.float(), reduction="sum") / len(logits)
    losses = F.binary_cross_entropy_with_logits(logits, targets.float(), reduction="none")  # (B, L)
    return (losses * torch.where(targets, 1.0, logits.sigmoid() ** focus)).sum() / len(logits)


def multitask(
    output: ModelOutput,
    targets: Tensor,
    objective: SequenceObjective | None,
    br_weight: float,
    normalise: str,
    second: SequenceObjective | None = None,
    second_weight: float = 1.0,
    br_focus: float = 0.0,
) -> LossTerms:
    """L_MTL = L_sequence + lambda L_logistic (Eq. 12); a part without its decoder is left out.

    A second objective of the label decoder is added in the same way."""
    terms: dict[str, Tensor] = {}
    total = torch.zeros((), device=targets.device)
    for name, own, logits, rollout, weight in (
        ("sequence", objective, output.sequence_logits, output.rollout, 1.0),
        ("second", second, output.second_logits, output.second_rollout, second_weight),
    ):
        if own is not None and logits is not None and rollout is not None:
            losses = own.step_losses(logits, rollout, targets) * rollout.active  # (B, K)
            divisor = len(targets) if normalise == "sequence" else rollout.active.sum()  # Eq. 10 sums over the steps
            terms[name] = losses.sum() / divisor
            total = total + weight * terms[name]
    if output.br_logits is not None:
        terms["br"] = binary_cross_entropy(output.br_logits, targets, br_focus)
        total = total + br_weight * terms["br"]
    return LossTerms(total, {name: term.detach() for name, term in terms.items()})
