"""Eq. 11 and 12: binary cross-entropy, and its sum with the label decoder's loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from ..config import ObjectiveConfig
from ..types import LossTerms, LossWeights, ModelOutput, Rollout, ScoredRollout
from . import SequenceObjective


def binary_cross_entropy(logits: Tensor, targets: Tensor, focus: float = 0.0, weights: Tensor | None = None) -> Tensor:
    """Eq. 11, summed over labels, mean over examples. The paper prints the likelihood; the loss is its negative.
    `weights` (B, L) or (B, 1), if given, weight each decision.

    With `focus` > 0 the loss of an absent label is multiplied by p^focus, so that many easy negatives do not outweigh
    few positives: the asymmetric loss of Ridnik et al. (2021), with the loss of positives unchanged."""
    if not focus and weights is None:
        return F.binary_cross_entropy_with_logits(logits, targets.float(), reduction="sum") / len(logits)
    losses = F.binary_cross_entropy_with_logits(logits, targets.float(), reduction="none")  # (B, L)
    if focus:
        losses = losses * torch.where(targets, 1.0, logits.sigmoid() ** focus)
    return (losses if weights is None else losses * weights).sum() / len(logits)


@dataclass(frozen=True, slots=True)
class Criterion:
    """The loss of an update: the objectives of the label decoder, and the settings that weight all losses."""

    sequence: SequenceObjective | None
    second: SequenceObjective | None = None  # trained beside it
    settings: ObjectiveConfig = field(default_factory=ObjectiveConfig)


def multitask(
    criterion: Criterion,
    output: ModelOutput,
    targets: Tensor,
    weights: LossWeights = LossWeights(),  # noqa: B008  (frozen: there is one for all calls)
    count_steps: Callable[[Tensor], Tensor] = Tensor.sum,
) -> LossTerms:
    """L_MTL = L_sequence + lambda L_logistic (Eq. 12); a term whose decoder is missing is left out.

    A second objective of the label decoder is added in the same way. `count_steps` counts the active steps, for
    `normalise` "step"; processes that share a batch count the steps of all processes."""
    settings, terms = criterion.settings, dict[str, Tensor]()
    total = torch.zeros((), device=targets.device)
    for name, objective, scored, weight in (
        ("sequence", criterion.sequence, output.sequence, 1.0),
        ("second", criterion.second, output.second, settings.second_weight),
    ):
        if objective is not None and scored is not None:
            losses = step_losses(objective, scored, targets, weights.sequences)  # (B, K)
            # Eq. 10 sums over the steps of a sequence
            per_step = settings.normalise == "step"
            terms[name] = losses.sum() / (count_steps(scored.rollout.active) if per_step else len(targets))
            total = total + weight * terms[name]
    if output.br_logits is not None:
        terms["br"] = binary_cross_entropy(output.br_logits, targets, settings.br_focus, weights.decisions)
        total = total + settings.br_weight * terms["br"]
    return LossTerms(total, {name: term.detach() for name, term in terms.items()})


def step_losses(
    objective: SequenceObjective, scored: ScoredRollout, targets: Tensor, weights: Tensor | None = None
) -> Tensor:
    """(B, K) losses of the steps of a rollout, 0 after its end; `weights` (B,) weight the rows."""
    rollout = scored.rollout
    wanted = targets if rollout.labels is None else targets[:, rollout.labels]  # (B, L) or (B, C)
    losses = objective.step_losses(_possible(scored.logits, rollout), rollout, wanted) * rollout.active  # (B, K)
    return losses if weights is None else losses * weights[:, None]


NEVER = -1e9  # logit of an action that is not allowed; finite, because 0 * -inf is not a number


def _possible(logits: Tensor, rollout: Rollout) -> Tensor:
    """The logits (B, K, L + 1) with barred labels masked: they count neither as right nor as wrong."""
    if rollout.barred is None:
        return logits
    return torch.cat([logits[..., :-1].masked_fill(rollout.barred[:, None], NEVER), logits[..., -1:]], dim=-1)
