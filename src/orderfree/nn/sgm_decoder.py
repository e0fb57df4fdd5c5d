"""SGM's label decoder with global embedding (row "SGM + GE")."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..types import DecoderState, EncoderOutput, full_precision
from .label_decoder import LabelDecoder, label_decoders


@label_decoders.register("sgm")
class SGMDecoder(LabelDecoder):
    """Feeds back more than the label it chose: the mean embedding of all labels under the previous step's
    distribution, mixed in by a gate, and the attention's context.

    Reference: Yang et al., "SGM: Sequence Generation Model for Multi-label Classification", COLING 2018. Their
    attention is additive; here it is that of all other rows, so that rows differ only in their method.
    Each step needs the distribution of the previous step, so the steps of a known sequence run one by one.
    """

    reads_all_labels: ClassVar[bool] = True
    feeds_context: ClassVar[bool] = True

    def __init__(self, num_labels: int, state_size: int, embedding: int, *others: Any, **named: Any) -> None:
        super().__init__(num_labels, state_size, embedding, *others, **named)
        self.gate_label = nn.Linear(embedding, embedding)
        self.gate_mean = nn.Linear(embedding, embedding, bias=False)

    def start(self, encoded: EncoderOutput) -> DecoderState:
        state = super().start(encoded)
        rows = state.hidden.shape[1]
        start = torch.full((rows,), self.num_labels, device=state.hidden.device)
        probs = F.one_hot(start, self.num_labels + 1).to(state.hidden)  # (R, L + 1)
        taken = torch.zeros(rows, self.num_labels + 1, dtype=torch.bool, device=probs.device)  # (R, L + 1)
        context = state.hidden.new_zeros(rows, encoded.states.shape[-1])  # (R, H)
        return replace(state, extra=(probs, taken, context))

    def unroll(self, inputs: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        all_logits = []
        for t in range(inputs.shape[1]):
            logits, state = self._one_step(inputs[:, t], state)
            all_logits.append(logits)
        return torch.stack(all_logits, dim=1), state  # (R, K, L + 1)

    def _one_step(self, previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        probs, taken, context = state.extra
        chosen = self.embed(previous)  # (R, embedding)
        mean = probs @ self.embed.weight  # (R, embedding); at the first step both are the start symbol
        gate = torch.sigmoid(self.gate_label(chosen) + self.gate_mean(mean))  # (R, embedding)
        mixed = (1 - gate) * chosen + gate * mean
        fed = torch.cat([self.dropout(mixed), context], dim=-1)[:, None]  # (R, 1, embedding + H)
        output, hidden, cell = self.recur(fed, state)  # (R, 1, D)
        logits, context = self.attend(output, state)  # (R, 1, L + 1), (R, 1, H)
        taken = taken.scatter(1, previous[:, None], True)
        taken = torch.cat([taken[:, :-1], torch.zeros_like(taken[:, -1:])], dim=1)  # the start symbol is no label
        # masked as in SGM; the share of <eos> is dropped, because its row of the embedding is the start symbol's
        masked = full_precision(logits[:, 0]).masked_fill(taken, float("-inf")).softmax(dim=-1)  # (R, L + 1)
        probs = torch.cat([masked[:, :-1], torch.zeros_like(masked[:, -1:])], dim=1)
        return logits[:, 0], replace(state, hidden=hidden, cell=cell, extra=(probs, taken, context[:, 0]))
