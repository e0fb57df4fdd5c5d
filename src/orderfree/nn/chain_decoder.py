"""Probabilistic classifier chain: one binary classifier per label, each with the earlier labels as input."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import ModelConfig
from ..types import DecoderState, EncoderOutput
from .br_decoder import br_decoders
from .label_decoder import label_decoders

IMPOSSIBLE = -1e9  # log-probability of a label the chain has passed; finite, so that min_labels can still force one


@label_decoders.register("chain")
class ChainDecoder(nn.Module):
    """P(y | x) = prod_i P(y_i | x, y_1 … y_i-1), from frequent labels to rare.

    Reference: Dembczynski et al., "Bayes Optimal Multilabel Classification via Probabilistic Classifier Chains", ICML
    2010; Read et al., 2009. The paper builds on it.

    The chain rejects most labels. As a sequence of the labels that it accepts, the next label is k with probability
    p_k * prod_i (1 - p_i) over the labels i between the last one and k, and <eos> has the remaining probability.
    Maximum likelihood and beam search are therefore those of every other label decoder, with the same distribution
    over sets.

    In the state, `hidden` (1, R, L) holds the score of each label given the input, `cell` (1, R, L) the labels chosen
    so far.
    """

    needs_scores: ClassVar[bool] = False
    reads_all_labels: ClassVar[bool] = True
    fixed_order: ClassVar[bool] = True

    def __init__(self, num_labels: int, scorer: nn.Module) -> None:
        super().__init__()
        self.num_labels = num_labels
        self.scorer = scorer
        self.influence = nn.Parameter(torch.zeros(num_labels, num_labels))  # [i, j]: of label j on the classifier of i

    @classmethod
    def from_config(cls, settings: ModelConfig, num_labels: int, state_size: int) -> Self:
        return cls(num_labels, br_decoders[settings.br_decoder or "mlp"].from_config(settings, num_labels, state_size))

    @property
    def first_stage(self) -> ChainDecoder:
        return self

    def start(self, encoded: EncoderOutput) -> DecoderState:
        scores = self.scorer(encoded)[None]  # (1, B, L)
        return DecoderState(scores, torch.zeros_like(scores), encoded.states, encoded.mask)

    def unroll(self, inputs: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """inputs (R, K): y_t-1 at each step -> log-probabilities of the next label (R, K, L + 1)."""
        one_hot = F.one_hot(inputs, self.num_labels + 1)[..., :-1]  # (R, K, L); the start symbol is no label
        chosen = (state.cell[0][:, None] + one_hot.cumsum(dim=1)).clamp(max=1)  # (R, K, L)
        scores = state.hidden[0][:, None] + chosen @ self.influence.tril(-1).T  # (R, K, L)
        # a label is ahead if neither it nor a later label has been chosen
        ahead = chosen.flip(-1).cumsum(dim=-1).flip(-1) == 0  # (R, K, L)
        no = F.logsigmoid(-scores) * ahead  # (R, K, L)
        skipped = no.cumsum(dim=-1)  # (R, K, L) log-probability of rejecting all labels up to and including each
        next_label = (F.logsigmoid(scores) + skipped - no).masked_fill(~ahead, IMPOSSIBLE)
        logits = torch.cat([next_label, skipped[..., -1:]], dim=-1)  # (R, K, L + 1)
        return logits, replace(state, cell=chosen[:, -1][None])

    def step(self, previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """previous (R,) -> log-probabilities (R, L + 1) and the next state."""
        logits, state = self.unroll(previous[:, None], state)
        return logits[:, 0], state
