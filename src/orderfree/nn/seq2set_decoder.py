"""Seq2Set's label decoder: a set decoder on top of a sequence decoder (row "Seq2set")."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import nn

from ..decoding.rollout import RolloutTask, policies, roll_out
from ..types import DecoderState, EncoderOutput, Rollout
from .label_decoder import LabelDecoder, label_decoders

LONGEST = 25  # maximum number of labels of the sequence decoder


@label_decoders.register("seq2set")
class Seq2SetDecoder(LabelDecoder):
    """The sequence decoder first generates labels greedily; the set decoder attends to the input and to its states.

    Reference: Yang et al., "A Deep Reinforced Sequence-to-Set Model for Multi-Label Classification", ACL 2019. There
    the set decoder has one attention for each of the two; here one attention reads both, concatenated. In training,
    too, the sequence decoder is fed its own labels: states fed the correct labels would reveal them.
    """

    reads_all_labels: ClassVar[bool] = True

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
        rollout = self._greedy(begin)
        fed = rollout.inputs(self.num_labels)  # (B, K)
        output, _, _ = first.recur(first.dropout(first.embed(fed)), begin)  # (B, K, D)
        first_states = torch.tanh(self.read(output)) * rollout.active[..., None]  # (B, K, H)
        state = super().start(encoded)
        return replace(
            state,
            memory=torch.cat([encoded.states, first_states], dim=1),  # (B, T + K, H)
            mask=torch.cat([encoded.mask, rollout.active], dim=1),  # (B, T + K)
        )

    @torch.no_grad()
    def _greedy(self, state: DecoderState) -> Rollout:
        """The sequence decoder's most probable label at every step."""
        rows, labels = state.hidden.shape[1], self.num_labels
        targets = torch.zeros(rows, labels, dtype=torch.bool, device=state.hidden.device)  # (B, L); no targets
        rank = torch.arange(labels + 1, device=targets.device)  # (L + 1,)
        limits = torch.full((rows,), min(LONGEST, labels + 1), device=targets.device)  # (B,)
        return roll_out(policies["best"], self.sequence_decoder.step, state, RolloutTask(targets, rank, limits))
