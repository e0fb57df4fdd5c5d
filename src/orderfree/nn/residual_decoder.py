"""A label decoder that corrects linear classifiers instead of learning everything anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..types import DecoderState, EncoderOutput
from .br_decoder import Calibration, given_scores
from .label_decoder import LabelDecoder, label_decoders

TAKEN = -1e9  # logit of a label already in the set; finite: 0 times it is 0


@label_decoders.register("residual")
class ResidualDecoder(LabelDecoder):
    """o_t = calibrated label scores, a constant for <eos>, and what the LSTM adds: nothing at first.

    Before any training it takes labels by falling score and stops where the sum of what is left is small: a threshold.
    What it learns besides is what the labels taken so far say of the others. A freely learned decoder on the same
    scores was behind the linear model it stood on (docs/explain/experiments.md).

    Labels already taken get no probability in the loss either (the paper: in the search only, Eq. 4): their scores stay
    high, and the LSTM would have to learn to take them away.

    `extra` of the state: base logits (R, L + 1), labels taken so far (R, L + 1).
    """

    needs_scores: ClassVar[bool] = True

    def __init__(self, num_labels: int, *others: Any, **named: Any) -> None:
        super().__init__(num_labels, *others, **named)
        self.calibrate = Calibration()
        self.stop = nn.Parameter(torch.zeros(1))
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def start(self, encoded: EncoderOutput) -> DecoderState:
        state = super().start(encoded)
        labels = self.calibrate(given_scores(encoded))  # (B, L)
        base = torch.cat([labels, self.stop.expand(labels.shape[0], 1)], dim=1)  # (B, L + 1)
        return replace(state, extra=(base, torch.zeros_like(base, dtype=torch.bool)))

    def unroll(self, inputs: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        base, before = state.extra
        named = F.one_hot(inputs, base.shape[1]).cumsum(dim=1) > 0  # (R, K, L + 1)
        taken = before[:, None] | named
        taken[..., -1] = False  # the start symbol is no label
        residual, state = super().unroll(inputs, state)  # (R, K, L + 1)
        logits = (base[:, None] + residual).masked_fill(taken, TAKEN)
        return logits, replace(state, extra=(base, taken[:, -1]))
