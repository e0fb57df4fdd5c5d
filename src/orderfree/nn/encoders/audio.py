"""Frames of sound: the multi-level attention model of Yu et al. (2018), "2-A-1-A", without its output layer."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from ...config import PositiveInt, Section
from ...types import DenseInput, EncoderOutput
from . import encoders


class AudioOptions(Section):
    """Several feature vectors per clip: layers on each frame, attention pooling at the last two of three levels."""

    hidden: PositiveInt = Field(1024, description="units of each level, and of the summary")

    @field_validator("hidden")
    @classmethod
    def _even(cls, hidden: int) -> int:
        if hidden % 2:
            raise ValueError("expected an even number: each of two poolings makes half of the summary")
        return hidden


@encoders.register("audio")
class AudioEncoder(nn.Module):
    """Two layers, attention (2-A), one more layer, attention (1-A): the concatenated poolings are the summary, and the
    frames of the last level are the states.

    In the paper a pooling has one unit per label (527 for AudioSet); here it has half the hidden size, so that summary
    and states have the same size and few labels are no bottleneck. Layers process the real frames only: padding affects
    neither the pooling nor the statistics of batch normalisation."""

    Options = AudioOptions
    input_kind: ClassVar[str] = "dense"
    br_decoder: ClassVar[str] = "output"
    normalises_batches: ClassVar[bool] = True

    def __init__(self, options: AudioOptions, input_size: int, dropout: float, num_labels: int) -> None:
        super().__init__()
        hidden = self.output_size = options.hidden
        self.lower = nn.Sequential(_level(input_size, hidden, dropout), _level(hidden, hidden, dropout))
        self.upper = _level(hidden, hidden, dropout)
        self.pool_lower, self.pool_upper = AttentionPooling(hidden, hidden // 2), AttentionPooling(hidden, hidden // 2)

    def forward(self, inputs: DenseInput) -> EncoderOutput:
        frames = inputs.frames.shape[1]
        mask = torch.arange(frames, device=inputs.frames.device) < inputs.lengths[:, None]  # (B, T)
        lower = self.lower(inputs.frames[mask])  # (N, H) all real frames, concatenated
        upper = self.upper(lower)  # (N, H)
        summary = torch.cat([self.pool_lower(lower, mask), self.pool_upper(upper, mask)], dim=-1)  # (B, H)
        return EncoderOutput(padded(upper, mask), mask, summary[None])


class AttentionPooling(nn.Module):
    """Σ_t a_t v_t / Σ_t a_t, unit by unit: the mean of values v_t with weights a_t, both sigmoids of the frame."""

    def __init__(self, size: int, units: int) -> None:
        super().__init__()
        self.value, self.weight = nn.Linear(size, units), nn.Linear(size, units)

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        """frames (N, H) of all rows, concatenated; mask (B, T) with N real positions -> (B, units)."""
        weight = self.weight(frames).sigmoid()  # (N, units)
        pooled = padded(weight * self.value(frames).sigmoid(), mask).sum(dim=1)  # (B, units)
        return pooled / padded(weight, mask).sum(dim=1).clamp(min=1e-7)


def padded(frames: Tensor, mask: Tensor) -> Tensor:
    """(N, H) of all rows, concatenated -> (B, T, H), zero where masked."""
    rows = frames.new_zeros(*mask.shape, frames.shape[1])
    rows[mask] = frames
    return rows


def _level(before: int, after: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU(), nn.Dropout(dropout))
