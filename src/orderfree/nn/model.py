"""Encoder and decoders in one module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..types import EncoderInput, EncoderOutput, ModelOutput, Roll, Rollout
from .br_decoder import BRDecoder, GivenScores, SummaryOutput
from .chain_decoder import ChainDecoder
from .label_decoder import LabelDecoder


class OrderFreeModel(nn.Module):
    """An encoder under a label decoder, a binary-relevance decoder, or both."""

    def __init__(
        self,
        encoder: nn.Module,
        label_decoder: LabelDecoder | ChainDecoder | None,
        br_decoder: BRDecoder | GivenScores | SummaryOutput | None,
        num_labels: int,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.label_decoder = label_decoder
        self.br_decoder = br_decoder
        self.num_labels = num_labels

    def forward(self, inputs: EncoderInput, roll: Roll | None = None, second_roll: Roll | None = None) -> ModelOutput:
        """One training pass: encode once for both decoders, let `roll` choose a label sequence, score that sequence.

        `second_roll` does the same for the objective trained beside it, on the decoder's first stage.
        """
        encoded = self.encoder(inputs)
        br_logits = self.br_decoder(encoded) if self.br_decoder is not None else None
        if self.label_decoder is None or roll is None:
            return ModelOutput(br_logits, None, None)
        rollout, logits = self._roll(self.label_decoder, encoded, roll)
        if second_roll is None:
            return ModelOutput(br_logits, rollout, logits)
        second = self._roll(self.label_decoder.first_stage, encoded, second_roll)
        return ModelOutput(br_logits, rollout, logits, *second)

    def _roll(self, decoder: LabelDecoder | ChainDecoder, encoded: EncoderOutput, roll: Roll) -> tuple[Rollout, Tensor]:
        """Choosing needs no gradient, so it runs step by step without one; scoring then takes all steps in one call."""
        state = decoder.start(encoded)
        with torch.no_grad():
            rollout = roll(decoder.step, state)
        logits, _ = decoder.unroll(rollout.inputs(self.num_labels), state)
        return rollout, logits

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
