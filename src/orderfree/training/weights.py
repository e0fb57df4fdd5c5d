"""How much examples, labels and single decisions count in the losses: sample weights, class weights, missing labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..config import Config
from ..data.labels import LabelVocabulary
from ..errors import ConfigError, nearest
from ..types import Batch, LossWeights


@dataclass(frozen=True, slots=True)
class Balance:
    """Class weights: how much it counts to have each label, and to lack it."""

    present: Tensor  # (L,)
    absent: Tensor  # (L,)
    usual: float  # mean over the training examples of what their labels count on average

    def of(self, labels: Tensor | None, device: torch.device) -> tuple[Tensor, Tensor]:
        """What it counts to have and to lack each label: (L,), or (B, C) of these candidates."""
        present, absent = self.present.to(device), self.absent.to(device)
        return (present, absent) if labels is None else (present[labels], absent[labels])

    def sequences(self, targets: Tensor, labels: Tensor | None = None) -> Tensor:
        """(B,) what the labels of each example count on average, so that the mean over training examples is 1."""
        present, _ = self.of(labels, targets.device)
        mean = (targets * present).sum(dim=1) / targets.sum(dim=1).clamp(min=1)  # (B,)
        return torch.where(targets.any(dim=1), mean, 1.0) / self.usual


def label_balance(config: Config, labels: LabelVocabulary, examples: int) -> Balance | None:
    """`objective.class_weight`, resolved for the labels of a training part of so many examples; None: all the same."""
    chosen = config.objective.class_weight
    if chosen is None:
        return None
    if chosen == "balanced":
        counts = torch.tensor(labels.counts, dtype=torch.float32)  # (L,)
        present = examples / (2 * counts)
        absent = examples / (2 * (examples - counts).clamp(min=1))
    else:
        unknown = [name for name in chosen if name not in labels.ids]
        if unknown:
            hint = nearest(unknown[0], list(labels.names))
            raise ConfigError(f"objective.class_weight: {unknown[0]!r} is no label of the training data.{hint}")
        present = torch.tensor([float(chosen.get(name, 1.0)) for name in labels.names])
        absent = torch.ones(len(labels))
    total = sum(
        times * (float(present[list(ids)].mean()) if ids else 1.0) for ids, times in labels.combinations.items()
    )
    return Balance(present, absent, total / sum(labels.combinations.values()))


def loss_weights(batch: Batch, balance: Balance | None) -> LossWeights:
    sequences = batch.weights
    if balance is not None:
        own = balance.sequences(batch.targets, batch.labels)
        sequences = own if sequences is None else sequences * own
    return LossWeights(sequences, decision_weights(batch.targets, batch.weights, batch.unknown, balance, batch.labels))


def decision_weights(
    targets: Tensor,
    weights: Tensor | None,
    unknown: Tensor | None,
    balance: Balance | None,
    labels: Tensor | None = None,
) -> Tensor | None:
    """How much each yes or no counts: (B, L), or (B, 1) where all labels count the same; None: all decisions do.

    What is not known counts 0."""
    counted = None if weights is None else weights[:, None]
    if balance is not None:
        own = torch.where(targets, *balance.of(labels, targets.device))  # (B, L)
        counted = own if counted is None else counted * own
    if unknown is not None:
        counted = (~unknown).float() if counted is None else counted * ~unknown
    return counted
