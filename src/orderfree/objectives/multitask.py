"""Eq. 11 and 12: binary cross-entropy, and its sum with the label decoder's loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ..types import LossTerms, LossWeights, ModelOutput, Rollout
from . import SequenceObjective


def binary_cross_entropy(logits: Tensor, targets: Tensor, focus: float = 0.0, weights: Tensor | None = None) -> Tensor:
    """Eq. 11, summed over labels, mean over examples. The paper prints a likelihood; a loss is its negative.
    Each decision counts `weights` (B, L) or (B, 1) times, where they are given.

    With `focus` > 0 a label that is absent counts p^focus of its loss, so that the many that are plainly absent do not
    outvote the few that are there: the asymmetric loss of Ridnik et al. (2021), with nothing taken from positives."""
    if not focus and weights is None:
        return F.binary_cross_entropy_with_logits(logits, targets.float(), reduction="sum") / len(logits)
    losses = F.binary_cross_entropy_with_logits(logits, targets.float(), reduction="none")  # (B, L)
    if focus:
        losses = losses * torch.where(targets, 1.0, logits.sigmoid() ** focus)
    return (losses if weights is None else losses * weights).sum() / len(logits)


def multitask(
    output: ModelOutput,
    targets: Tensor,
    objective: SequenceObjective | None,
    br_weight: float,
    normalise: str,
    second: SequenceObjective | None = None,
    second_weight: float = 1.0,
    br_focus: float = 0.0,
    weights: LossWeights = LossWeights(),  # noqa: B008  (frozen: there is one for all calls)
    steps_of: Callable[[Tensor], Tensor] = Tensor.sum,
) -> LossTerms:
    """L_MTL = L_sequence + lambda L_logistic (Eq. 12); a part without its decoder is left out.

    A second objective of the label decoder is added in the same way. `steps_of` counts the steps that are active, for
    `normalise` "step"; processes that share a batch count those of all."""
    terms: dict[str, Tensor] = {}
    total = torch.zeros((), device=targets.device)
    for name, own, logits, rollout, weight in (
        ("sequence", objective, output.sequence_logits, output.rollout, 1.0),
        ("second", second, output.second_logits, output.second_rollout, second_weight),
    ):
        if own is not None and logits is not None and rollout is not None:
            wanted = targets if rollout.labels is None else targets[:, rollout.labels]  # (B, L) or (B, C)
            losses = own.step_losses(_possible(logits, rollout), rollout, wanted) * rollout.active  # (B, K)
            if weights.sequences is not None:
                losses = losses * weights.sequences[:, None]
            # Eq. 10 sums over the steps of a sequence
            divisor = len(targets) if normalise == "sequence" else steps_of(rollout.active)
            terms[name] = losses.sum() / divisor
            total = total + weight * terms[name]
    if output.br_logits is not None:
        terms["br"] = binary_cross_entropy(output.br_logits, targets, br_focus, weights.decisions)
        total = total + br_weight * terms["br"]
    return LossTerms(total, {name: term.detach() for name, term in terms.items()})


NEVER = -1e9  # logit of what is no action; finite: 0 times it is 0


def _possible(logits: Tensor, rollout: Rollout) -> Tensor:
    """The logits (B, K, L + 1) with barred labels out of every softmax: neither right nor wrong, they teach nothing."""
    if rollout.barred is None:
        return logits
    return torch.cat([logits[..., :-1].masked_fill(rollout.barred[:, None], NEVER), logits[..., -1:]], dim=-1)
