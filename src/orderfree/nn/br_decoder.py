"""The binary-relevance decoder D_br: an independent decision for each label (Eq. 6). To add one, register a subclass
of `BRPart`."""

from __future__ import annotations

import math
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from ..config import ModelConfig
from ..system.registry import Registry
from ..types import EncoderOutput
from .attention import Attention


class BRPart(nn.Module):
    """A binary-relevance decoder: EncoderOutput -> logits (B, L)."""

    needs_scores: ClassVar[bool] = False  # True: the encoder must score labels
    repeats_scores: ClassVar[bool] = False  # True: it outputs these scores unchanged

    @classmethod
    def from_config(cls, settings: ModelConfig, num_labels: int, state_size: int) -> Self:
        raise NotImplementedError


br_decoders: Registry[type[BRPart]] = Registry("binary-relevance decoder")


@br_decoders.register("scores")
class GivenScores(BRPart):
    """The encoder's label scores, unchanged (row "SVM")."""

    needs_scores: ClassVar[bool] = True
    repeats_scores: ClassVar[bool] = True

    @classmethod
    def from_config(cls, settings: ModelConfig, num_labels: int, state_size: int) -> Self:
        return cls()

    def forward(self, encoded: EncoderOutput) -> Tensor:
        return given_scores(encoded)  # (B, L)


@br_decoders.register("output")
class SummaryOutput(BRPart):
    """sigmoid(W h_m + b): the output layer of an encoder designed with one (audio)."""

    def __init__(self, num_labels: int, state_size: int) -> None:
        super().__init__()
        self.output = nn.Linear(state_size, num_labels)
        # about one label per example at first; otherwise hundreds of updates only teach that most labels are absent
        nn.init.constant_(self.output.bias, -math.log(num_labels))

    @classmethod
    def from_config(cls, settings: ModelConfig, num_labels: int, state_size: int) -> Self:
        return cls(num_labels, state_size)

    def forward(self, encoded: EncoderOutput) -> Tensor:
        return label_logits(self.output, encoded.summary, encoded.labels)  # (B, L)


@br_decoders.register("mlp")
class BRDecoder(BRPart):
    """p_br = sigmoid(W_br [MLP(h_m); c_br]), c_br from attention with the MLP's output as the query."""

    def __init__(
        self, num_labels: int, state_size: int, hidden: int, layers: int, dropout: float, batch_norm: bool
    ) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Dropout(dropout)]
        size = state_size
        for _ in range(layers):
            parts.append(nn.Linear(size, hidden))
            if batch_norm:
                parts.append(nn.BatchNorm1d(hidden))
            parts += [nn.LeakyReLU(), nn.Dropout(dropout)]
            size = hidden
        self.mlp = nn.Sequential(*parts)
        self.attention = Attention(size, state_size)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(size + state_size, num_labels)

    @classmethod
    def from_config(cls, settings: ModelConfig, num_labels: int, state_size: int) -> Self:
        return cls(
            num_labels, state_size, settings.br_hidden, settings.br_layers, settings.dropout, settings.br_batch_norm
        )

    def forward(self, encoded: EncoderOutput) -> Tensor:
        query = self.mlp(encoded.summary)  # (B, hidden)
        context, _ = self.attention(query[:, None], encoded.states, encoded.mask)  # (B, 1, H)
        return label_logits(self.output, torch.cat([query, self.dropout(context[:, 0])], dim=-1), encoded.labels)


@br_decoders.register("residual")
class ResidualBRDecoder(BRDecoder):
    """The encoder's label scores as log-odds, plus a correction by the decoder, which is zero at first."""

    needs_scores: ClassVar[bool] = True

    def __init__(
        self, num_labels: int, state_size: int, hidden: int, layers: int, dropout: float, batch_norm: bool
    ) -> None:
        super().__init__(num_labels, state_size, hidden, layers, dropout, batch_norm)
        self.calibrate = Calibration()
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, encoded: EncoderOutput) -> Tensor:
        return self.calibrate(given_scores(encoded)) + super().forward(encoded)  # (B, L)


def label_logits(output: nn.Linear, summary: Tensor, labels: Tensor | None) -> Tensor:
    """summary (B, D) -> logits (B, L), or (B, C) for the candidates `labels` (B, C) only."""
    if labels is None:
        logits: Tensor = output(summary)
        return logits
    weights, bias = output.weight[labels], output.bias[labels]  # (B, C, D), (B, C)
    return torch.baddbmm(bias[:, :, None], weights, summary[:, :, None])[:, :, 0]


NEWTON_STEPS = 25


class Calibration(nn.Module):
    """Margins to log-odds (Platt 1999): one scale and one offset for all labels. With a pair per label, the
    probabilities of rare labels were too low, and so was every metric on Reuters' validation part
    (docs/explain/experiments.md)."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1,), 4.0))  # an SVM's margins of -1 and 1: 2 % and 98 %
        self.offset = nn.Parameter(torch.zeros(1))

    def fit(self, scores: Tensor, targets: Tensor, weights: Tensor | None = None) -> None:
        """Fits scale and offset to scores (N, L) of classifiers that have not seen these examples, because the size of
        margins depends on C. Newton's method on the logistic loss. If higher scores do not make a label more likely, as
        may happen on a handful of examples, both keep their values: a negative scale would reverse the ranking.
        weights (N, 1) or (N, L): the weight of each score."""
        margins, truth = scores.double().flatten(), targets.double().flatten()
        counted = torch.ones_like(truth) if weights is None else weights.double().expand_as(scores).flatten()
        spread = margins.std().clamp(min=1e-9)
        inputs = torch.stack([margins / spread, torch.ones_like(margins)])  # (2, N * L)
        pair = torch.zeros(2, dtype=torch.float64)
        for _ in range(NEWTON_STEPS):
            probs = (pair @ inputs).sigmoid()
            gradient = inputs @ (counted * (probs - truth))
            curvature = (inputs * (counted * probs * (1 - probs))) @ inputs.T + 1e-6 * torch.eye(2, dtype=torch.float64)
            pair = pair - torch.linalg.solve(curvature, gradient).clamp(-1.0, 1.0)
        if pair[0] > 0:
            with torch.no_grad():
                self.scale.fill_(float(pair[0] / spread))
                self.offset.fill_(float(pair[1]))

    def forward(self, scores: Tensor) -> Tensor:
        return scores * self.scale + self.offset  # (B, L)


def given_scores(encoded: EncoderOutput) -> Tensor:
    assert encoded.scores is not None, "this decoder needs an encoder that scores labels itself"
    return encoded.scores
