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


@dataclass(frozen=True, slots=True)
class Criterion:
    """What an update minimises: the objectives of the label decoder, and the settings that weigh all losses."""

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
    """L_MTL = L_sequence + lambda L_logistic (Eq. 12); a part without its decoder is left out.

    A second objective of the label decoder is added in the same way. `count_steps` counts the steps that are active,
    for `normalise` "step"; processes that share a batch count those of all."""
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
    """(B, K) losses of the steps of a rollout, 0 after its end; each row counts `weights` (B,) times."""
    rollout = scored.rollout
    wanted = targets if rollout.labels is None else targets[:, rollout.labels]  # (B, L) or (B, C)
    losses = objective.step_losses(_possible(scored.logits, rollout), rollout, wanted) * rollout.active  # (B, K)
    return losses if weights is None else losses * weights[:, None]


NEVER = -1e9  # logit of what is no action; finite: 0 times it is 0


def _possible(logits: Tensor, rollout: Rollout) -> Tensor:
    """The logits (B, K, L + 1) with barred labels out of every softmax: neither right nor wrong, they teach nothing."""
    if rollout.barred is None:
        return logits
    return torch.cat([logits[..., :-1].masked_fill(rollout.barred[:, None], NEVER), logits[..., -1:]], dim=-1)
