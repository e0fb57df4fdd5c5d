"""The binary-relevance decoder D_br: every label on its own (Eq. 6)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..types import EncoderOutput
from .attention import Attention


class GivenScores(nn.Module):
    """The encoder's own label scores as they are (row "SVM")."""

    def forward(self, encoded: EncoderOutput) -> Tensor:
        return encoded.summary  # (B, L)


class BRDecoder(nn.Module):
    """p_br = sigmoid(W_br [MLP(h_m); c_br]), c_br attended to with the MLP's output as the query."""

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

    def forward(self, encoded: EncoderOutput) -> Tensor:
        query = self.mlp(encoded.summary)  # (B, hidden)
        context, _ = self.attention(query[:, None], encoded.states, encoded.mask)  # (B, 1, H)
        return self.output(torch.cat([query, self.dropout(context[:, 0])], dim=-1))  # (B, L)
