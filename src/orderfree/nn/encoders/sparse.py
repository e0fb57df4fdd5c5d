"""A bag of tf-idf terms: no recurrence, trains in seconds."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import nn
from torch.nn import functional as F

from ...config import BagOptions, PositiveInt
from ...types import BagInput, EncoderOutput
from . import encoders


class SparseOptions(BagOptions):
    """A bag of tf-idf terms, no recurrence: trains in seconds."""

    hidden: PositiveInt = Field(256, description="size of the state computed from the bag")
    slots: PositiveInt = Field(4, description="states the decoders' attention can choose from")


# Rows of tf-idf have norm 1: single weights are small, and so are the gradients of their embeddings. With this scale,
# 8 epochs reached a score that 12 epochs did not reach without it (docs/explain/experiments.md).
SCALE = 10.0


@encoders.register("sparse")
class SparseEncoder(nn.Module):
    """The weighted sum of the terms' embeddings is the summary; `slots` linear views of it are the states."""

    Options = SparseOptions
    input_kind: ClassVar[str] = "bag"

    def __init__(self, options: SparseOptions, input_size: int, dropout: float, num_labels: int) -> None:
        super().__init__()
        self.output_size = options.hidden
        self.slots = options.slots
        self.terms = nn.EmbeddingBag(input_size, options.hidden, mode="sum", include_last_offset=False)
        # small at first: a term that is too rare to be learned must not add noise
        nn.init.normal_(self.terms.weight, std=0.05)
        self.bias = nn.Parameter(torch.zeros(options.hidden))
        self.views = nn.Linear(options.hidden, options.slots * options.hidden)
        self.dropout = dropout

    def forward(self, inputs: BagInput) -> EncoderOutput:
        # Dropout of whole terms, not of hidden units: the model must not depend on a single word.
        weights = F.dropout(SCALE * inputs.weights, self.dropout, self.training)  # (N,)
        bag = self.terms(inputs.indices, inputs.offsets, per_sample_weights=weights)  # (B, H)
        summary = torch.tanh(bag + self.bias)  # (B, H)
        states = torch.tanh(self.views(summary)).view(-1, self.slots, self.output_size)  # (B, slots, H)
        mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)  # (B, slots)
        return EncoderOutput(states, mask, summary[None])
