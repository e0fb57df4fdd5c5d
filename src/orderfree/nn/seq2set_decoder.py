"""Seq2Set's label decoder: a set decoder that stands on a sequence decoder (row "Seq2set")."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..types import DecoderState, EncoderOutput
from .label_decoder import LabelDecoder

LONGEST = 25  # labels the sequence decoder may name


class Seq2SetDecoder(LabelDecoder):
    """The sequence decoder names labels first, greedily; the set decoder attends to the input and to its states.

    Reference: Yang et al., "A Deep Reinforced Sequence-to-Set Model for Multi-Label Classification", ACL 2019. There
    the set decoder has one attention for each of the two; here one attention reads both side by side. It reads what
    the sequence decoder makes of its own labels, in training too: states fed the correct labels would give them away.
    """

    def __init__(
        self, num_labels: int, state_size: int, embedding: int, hidden: int, *others: Any, **named: Any
    ) -> None:
        super().__init__(num_labels, state_size, embedding, hidden, *others, **named)
        self.sequence_decoder = LabelDecoder(num_labels, state_size, embedding, hidden, *others, **named)
        self.read = nn.Linear(hidden, state_size)

    @property
    def first_stage(self) -> LabelDecoder:
        return self.sequence_decoder

    def start(self, encoded: EncoderOutput) -> DecoderState:
        first = self.sequence_decoder
        begin = first.start(encoded)
        inputs, running = self._greedy(begin)  # (B, K), (B, K)
        output, _, _ = first.recur(first.dropout(first.embed(inputs)), begin)  # (B, K, D)
        named = torch.tanh(self.read(output)) * running[..., None]  # (B, K, H)
        state = super().start(encoded)
        return replace(
            state,
            memory=torch.cat([encoded.states, named], dim=1),  # (B, T + K, H)
            mask=torch.cat([encoded.mask, running], dim=1),  # (B, T + K)
        )

    @torch.no_grad()
    def _greedy(self, state: DecoderState) -> tuple[Tensor, Tensor]:
        """What the sequence decoder is fed when it follows itself, (B, K), and where it has not ended yet, (B, K)."""
        rows, eos = state.hidden.shape[1], self.num_labels
        previous = torch.full((rows,), eos, device=state.hidden.device)  # (B,)
        taken = torch.zeros(rows, eos + 1, dtype=torch.bool, device=previous.device)  # (B, L + 1)
        alive = torch.ones_like(previous, dtype=torch.bool)  # (B,)
        fed, running = [], []
        for _ in range(min(LONGEST, eos + 1)):
            fed.append(previous)
            running.append(alive)
            logits, state = self.sequence_decoder.step(previous, state)  # (B, L + 1)
            previous = logits.masked_fill(taken, float("-inf")).argmax(dim=-1).masked_fill(~alive, eos)
            taken = taken.scatter(1, previous[:, None], True)
            taken[:, eos] = False
            alive = alive & (previous != eos)
            if not alive.any():
                break
        return torch.stack(fed, dim=1), torch.stack(running, dim=1)
