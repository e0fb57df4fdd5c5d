"""Encoder and decoders in one module."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor, nn

from ..types import Candidates, DecoderState, EncoderInput, EncoderOutput, ModelOutput, Roll, Rollout
from .br_decoder import BRDecoder, GivenScores, SummaryOutput
from .chain_decoder import ChainDecoder
from .label_decoder import LabelDecoder
from .narrow import narrowed


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

    def forward(
        self,
        inputs: EncoderInput,
        roll: Roll | None = None,
        second_roll: Roll | None = None,
        candidates: Candidates | None = None,
    ) -> ModelOutput:
        """One training pass: encode once for both decoders, let `roll` choose a label sequence, score that sequence.

        `second_roll` does the same for the objective trained beside it, on the decoder's first stage. `candidates`: the
        labels the label decoder may choose from.
        """
        encoded = self.encoder(inputs)
        br_logits = self.br_decoder(encoded) if self.br_decoder is not None else None
        if self.label_decoder is None or roll is None:
            return ModelOutput(br_logits, None, None)
        decoder = self.label_decoder
        if candidates is not None:
            assert isinstance(decoder, LabelDecoder), "build.py refuses the others"
            decoder = narrowed(decoder, candidates)
            if encoded.scores is not None:
                encoded = replace(encoded, scores=encoded.scores[:, candidates.labels])
        rollout, logits = self._roll(decoder, encoded, roll)
        if second_roll is None:
            return ModelOutput(br_logits, rollout, logits)
        second = self._roll(decoder.first_stage, encoded, second_roll)
        return ModelOutput(br_logits, rollout, logits, *second)

    def _roll(self, decoder: LabelDecoder | ChainDecoder, encoded: EncoderOutput, roll: Roll) -> tuple[Rollout, Tensor]:
        """Choosing needs no gradient, so it runs step by step without one; scoring then takes all steps in one call."""
        state = decoder.start(encoded)
        with torch.no_grad():
            rollout = roll(decoder.step, state)
        return rollout, unroll_active(decoder, rollout.inputs(decoder.num_labels), rollout.active, state)

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


COPYING = 16  # multiplications in the time it takes to copy one number of the encoder's states, there and back
SPARED = 1 / 32  # of all steps: a cut that saves less is not made, for small groups run slower


def unroll_active(decoder: LabelDecoder | ChainDecoder, inputs: Tensor, active: Tensor, state: DecoderState) -> Tensor:
    """Logits (B, K, L + 1) of sequences that end early; zero after their end, where nothing is learned.

    A few long sequences among many short ones would run all of them to their end. Where it pays, rows are grouped by
    length, and each group runs to its own end only."""
    rows, steps = active.shape
    lengths = active.sum(dim=1)  # (B,)
    groups = group_by_length(torch.bincount(lengths, minlength=steps + 1).tolist(), SPARED * rows * steps)
    saved = rows * steps - sum(size * last for size, _, last in groups)
    weights = sum(parameter.numel() for parameter in decoder.parameters())  # about what a step of a row multiplies by
    if saved * weights <= COPYING * state.memory.numel():
        return decoder.unroll(inputs, state)[0]
    logits = state.hidden.new_zeros(rows, steps, decoder.num_labels + 1)  # (B, K, L + 1)
    for _, first, last in groups:
        kept = ((lengths >= first) & (lengths <= last)).nonzero()[:, 0]  # (b,)
        found, _ = decoder.unroll(inputs[kept, :last], state.select(kept, kept))  # (b, k, L + 1)
        logits[kept, :last] = found
    return logits


def group_by_length(counts: list[int], spared: float, first: int = 0) -> list[tuple[int, int, int]]:
    """Rows of each length from 0, and steps a cut must save -> groups (rows, shortest, longest) of those from `first`.

    A cut at length k spares every row up to k the steps from there to the longest; the best cut is made, then the best
    of either side, for as long as it is worth it."""
    longest = len(counts) - 1
    ended = list(accumulate(counts[first:]))
    saved = [rows * (longest - length) for length, rows in enumerate(ended, start=first)]
    most = max(saved)
    if most < spared or most == 0:
        return [(ended[-1], first, longest)] if ended[-1] else []
    cut = first + saved.index(most)
    return group_by_length(counts[: cut + 1], spared, first) + group_by_length(counts, spared, cut + 1)
