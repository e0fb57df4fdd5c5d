"""A label decoder that corrects the scores of linear classifiers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..types import DecoderState, EncoderOutput
from .br_decoder import Calibration, given_scores
from .label_decoder import LabelDecoder, label_decoders

TAKEN = -1e9  # logit of a label already in the set; finite, because 0 * -inf is not a number


@label_decoders.register("residual")
class ResidualDecoder(LabelDecoder):
    """o_t = calibrated label scores, a constant for <eos>, plus the output of the LSTM, which is zero at first.

    Before training it generates labels by falling score and stops when the remaining scores are small: a threshold.
    Training adds the dependence on the labels generated so far. A decoder that learned freely from the same
    scores was worse than the linear model that it was built on (docs/explain/experiments.md).

    Labels already taken are masked in the loss, too (in the paper only in the search, Eq. 4): their scores stay high,
    and the LSTM would have to learn to subtract them.

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
        generated = F.one_hot(inputs, base.shape[1]).cumsum(dim=1) > 0  # (R, K, L + 1)
        taken = before[:, None] | generated
        taken[..., -1] = False  # the start symbol is no label
        residual, state = super().unroll(inputs, state)  # (R, K, L + 1)
        logits = (base[:, None] + residual).masked_fill(taken, TAKEN)
        return logits, replace(state, extra=(base, taken[:, -1]))
