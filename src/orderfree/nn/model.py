"""Encoder and decoders in one module."""

from __future__ import annotations

import torch
from torch import nn

from ..types import EncoderInput, ModelOutput, Roll
from .br_decoder import BRDecoder
from .label_decoder import LabelDecoder


class OrderFreeModel(nn.Module):
    """An encoder under a label decoder, a binary-relevance decoder, or both."""

    def __init__(
        self, encoder: nn.Module, label_decoder: LabelDecoder | None, br_decoder: BRDecoder | None, num_labels: int
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.label_decoder = label_decoder
        self.br_decoder = br_decoder
        self.num_labels = num_labels

    def forward(self, inputs: EncoderInput, roll: Roll | None = None) -> ModelOutput:
        """One training pass: encode once for both decoders, let `roll` choose a label sequence, score that sequence.

        Choosing needs no gradient, so it runs step by step without one; scoring then takes all steps in one call.
        """
        encoded = self.encoder(inputs)
        br_logits = self.br_decoder(encoded) if self.br_decoder is not None else None
        if self.label_decoder is None or roll is None:
            return ModelOutput(br_logits, None, None)
        state = self.label_decoder.start(encoded)
        with torch.no_grad():
            rollout = roll(self.label_decoder.step, state)
        logits, _ = self.label_decoder.unroll(rollout.inputs(self.num_labels), state)
        return ModelOutput(br_logits, rollout, logits)

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
