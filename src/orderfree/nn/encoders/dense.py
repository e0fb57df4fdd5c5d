"""Precomputed feature vectors: embeddings, sensor windows, measurements."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import torch
from pydantic import Field
from torch import nn

from ...config import Layers, PositiveInt, Section
from ...types import DenseInput, EncoderOutput
from . import encoders


class DenseOptions(Section):
    """Feature vectors, one or several per example (.npz)."""

    hidden: PositiveInt = Field(256, description="size of the state computed from each vector")
    layers: Layers = Field(2, description="feed-forward layers")


@encoders.register("dense")
class DenseEncoder(nn.Module):
    """A feed-forward stack on every frame; the summary is the mean over real frames."""

    Options = DenseOptions
    input_kind: ClassVar[str] = "dense"

    def __init__(self, options: DenseOptions, input_size: int, dropout: float, num_labels: int) -> None:
        super().__init__()
        self.output_size = options.hidden
        sizes = [input_size] + [options.hidden] * options.layers
        parts: list[nn.Module] = []
        for before, after in pairwise(sizes):
            parts += [nn.Linear(before, after), nn.LeakyReLU(), nn.Dropout(dropout)]
        self.stack = nn.Sequential(*parts)

    def forward(self, inputs: DenseInput) -> EncoderOutput:
        frames = inputs.frames.shape[1]
        mask = torch.arange(frames, device=inputs.frames.device) < inputs.lengths[:, None]  # (B, T)
        states = self.stack(inputs.frames) * mask[..., None]  # (B, T, H)
        summary = states.sum(dim=1) / inputs.lengths[:, None]  # (B, H)
        return EncoderOutput(states, mask, summary[None])
