"""Encoder and decoders in one module."""

from __future__ import annotations

from torch import nn

from .br_decoder import BRPart
from .chain_decoder import ChainDecoder
from .label_decoder import LabelDecoder


class OrderFreeModel(nn.Module):
    """An encoder with a label decoder, a binary-relevance decoder, or both. `training/step.py` runs it in training,
    `inference.py` in prediction."""

    def __init__(
        self,
        encoder: nn.Module,
        label_decoder: LabelDecoder | ChainDecoder | None,
        br_decoder: BRPart | None,
        num_labels: int,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.label_decoder = label_decoder
        self.br_decoder = br_decoder
        self.num_labels = num_labels

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
