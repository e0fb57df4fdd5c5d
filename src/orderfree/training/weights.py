"""Weights of examples, labels and single decisions in the losses: sample weights, class weights, missing labels."""

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
    """Class weights: the weight of each label where it is present and where it is absent."""

    present: Tensor  # (L,)
    absent: Tensor  # (L,)
    usual: float  # mean over the training examples of the mean weight of their labels

    def of(self, labels: Tensor | None, device: torch.device) -> tuple[Tensor, Tensor]:
        """The weights of each label, present and absent: (L,), or (B, C) of these candidates."""
        present, absent = self.present.to(device), self.absent.to(device)
        return (present, absent) if labels is None else (present[labels], absent[labels])

    def sequences(self, targets: Tensor, labels: Tensor | None = None) -> Tensor:
        """(B,) the mean weight of the labels of each example, scaled so that the mean over training examples is 1."""
        present, _ = self.of(labels, targets.device)
        mean = (targets * present).sum(dim=1) / targets.sum(dim=1).clamp(min=1)  # (B,)
        return torch.where(targets.any(dim=1), mean, 1.0) / self.usual


def label_balance(config: Config, labels: LabelVocabulary, examples: int) -> Balance | None:
    """`objective.class_weight`, resolved for the labels of a training part of `examples` examples; None: no weights."""
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
        balanced = balance.sequences(batch.targets, batch.labels)
        sequences = balanced if sequences is None else sequences * balanced
    return LossWeights(sequences, decision_weights(batch.targets, batch.weights, batch.unknown, balance, batch.labels))


def decision_weights(
    targets: Tensor,
    weights: Tensor | None,
    unknown: Tensor | None,
    balance: Balance | None,
    labels: Tensor | None = None,
) -> Tensor | None:
    """The weight of each decision: (B, L), or (B, 1) if all labels of an example have one weight; None: no weights.

    Decisions that are not known have weight 0."""
    counted = None if weights is None else weights[:, None]
    if balance is not None:
        balanced = torch.where(targets, *balance.of(labels, targets.device))  # (B, L)
        counted = balanced if counted is None else counted * balanced
    if unknown is not None:
        counted = (~unknown).float() if counted is None else counted * ~unknown
    return counted
