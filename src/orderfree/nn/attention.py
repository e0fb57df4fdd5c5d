"""Attention of a query over the encoder's states."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..types import full_precision


class Attention(nn.Module):
    """Query through a linear layer and tanh, dot product with the states, softmax over real positions."""

    def __init__(self, query_size: int, state_size: int) -> None:
        super().__init__()
        self.project = nn.Linear(query_size, state_size)

    def forward(self, query: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """query (R, K, D), states (B, T, H), mask (B, T) -> context (R, K, H), weights (R, K, T).

        R is B, or B x W in a beam: the W rows of one input are adjacent, so that a view groups their queries by input
        and the states are never repeated (B = 2, W = 2: rows 0, 1 | 2, 3 -> inputs 0 | 1).
        """
        rows, steps, _ = query.shape
        inputs, tokens, size = states.shape
        query = torch.tanh(self.project(query)).view(inputs, -1, size)  # (B, W * K, H)
        energy = full_precision(query @ states.transpose(1, 2))  # (B, W * K, T)
        energy = energy.masked_fill(~mask[:, None, :], float("-inf"))  # (B, W * K, T)
        weights = energy.softmax(dim=-1)  # (B, W * K, T)
        context = weights @ states  # (B, W * K, H)
        return context.view(rows, steps, size), weights.view(rows, steps, tokens)
