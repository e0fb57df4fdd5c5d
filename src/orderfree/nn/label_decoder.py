"""The RNN decoder D_rnn: an LSTM with attention that generates one label per step (Eq. 2-3), and the registry of all
label decoders: `@label_decoders.register("lstm")`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import ModelConfig
from ..system.registry import Registry
from ..types import DecoderState, EncoderOutput, full_precision
from .attention import Attention


class SequenceDecoder(Protocol):
    """A label decoder: its declarations, and the methods that rollouts, searches and training call."""

    needs_scores: ClassVar[bool]  # it corrects label scores, so the encoder must score labels
    reads_all_labels: ClassVar[bool]  # it cannot be trained on a sample of the labels (objective.sampled_labels)
    fixed_order: ClassVar[bool]  # it generates labels from frequent to rare only: maximum likelihood trains it
    num_labels: int

    @classmethod
    def from_config(cls, settings: ModelConfig, num_labels: int, state_size: int) -> Self: ...

    @property
    def first_stage(self) -> SequenceDecoder: ...

    def start(self, encoded: EncoderOutput) -> DecoderState: ...

    def step(self, previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]: ...

    def unroll(self, inputs: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]: ...

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]: ...


label_decoders: Registry[type[SequenceDecoder]] = Registry("label decoder")


@label_decoders.register("lstm")
class LabelDecoder(nn.Module):
    """`unroll` runs any number of steps whose inputs are known; `step` is the case of one step, called by rollouts and
    searches. The attention reads the LSTM's output and is not fed back, so all steps with known inputs run in one call,
    and the encoder's states are read once instead of once per step."""

    needs_scores: ClassVar[bool] = False
    reads_all_labels: ClassVar[bool] = False
    fixed_order: ClassVar[bool] = False
    feeds_context: ClassVar[bool] = False  # True: the attention's context is part of the next step's input

    def __init__(
        self,
        num_labels: int,
        state_size: int,
        embedding: int,
        hidden: int,
        layers: int,
        dropout: float,
        cell: str = "lstm",
    ) -> None:
        super().__init__()
        self.num_labels, self.layers, self.hidden = num_labels, layers, hidden
        self.embed = nn.Embedding(num_labels + 1, embedding)  # the last row is the start symbol
        self.bridge = nn.Identity() if state_size == hidden else nn.Linear(state_size, hidden)
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
        width = embedding + (state_size if self.feeds_context else 0)
        self.recurrent = kind(width, hidden, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.attention = Attention(hidden, state_size)
        self.combine = nn.Linear(state_size + hidden, hidden)
        self.output = nn.Linear(hidden, num_labels + 1)  # the last column is <eos>
        self.dropout = nn.Dropout(dropout)

    @classmethod
    def from_config(cls, settings: ModelConfig, num_labels: int, state_size: int) -> Self:
        return cls(
            num_labels,
            state_size,
            settings.label_embedding,
            settings.decoder_hidden,
            settings.decoder_layers,
            settings.dropout,
            settings.decoder_cell,
        )

    @property
    def first_stage(self) -> LabelDecoder:
        """The decoder that a second objective trains: this one, unless it is built on another decoder."""
        return self

    def start(self, encoded: EncoderOutput) -> DecoderState:
        """h_0^d = h_m^e, layer by layer; decoder layers beyond the encoder's start at zero, and so do all cells.

        The released code also copies the cells. A masked encoder does not have them at the end of each row (an LSTM
        kernel returns only those of the last padded step), and the paper mentions the hidden state only.
        """
        depth = min(self.layers, encoded.final_hidden.shape[0])
        top = self.bridge(encoded.final_hidden[-depth:])  # (depth, B, D)
        rest = top.new_zeros(self.layers - depth, *top.shape[1:])  # (layers - depth, B, D)
        hidden = torch.cat([top, rest]).contiguous()  # (layers, B, D)
        cells, actions = torch.zeros_like(hidden), None
        if encoded.labels is not None:
            actions = F.pad(encoded.labels, (0, 1), value=self.num_labels)  # (B, C + 1)
        return DecoderState(hidden, cells, encoded.states, encoded.mask, actions=actions)

    def unroll(self, inputs: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """inputs (R, K): y~_{t-1} at each step -> logits o_t (R, K, L + 1) and the state after the last one."""
        embedded = self.dropout(self.embed(model_ids(inputs, state.actions)))  # (R, K, embedding)
        output, hidden, cell = self.recur(embedded, state)  # (R, K, D)
        logits, _ = self.attend(output, state)  # (R, K, L + 1)
        return logits, replace(state, hidden=hidden, cell=cell)

    def recur(self, embedded: Tensor, state: DecoderState) -> tuple[Tensor, Tensor, Tensor]:
        """The recurrent layers: outputs (R, K, D), then the last hidden states and cells; a GRU keeps the cells."""
        if isinstance(self.recurrent, nn.LSTM):
            output, (hidden, cell) = self.recurrent(embedded, (state.hidden, state.cell))
            return output, hidden, cell
        output, hidden = self.recurrent(embedded, state.hidden)
        return output, hidden, state.cell

    def attend(self, output: Tensor, state: DecoderState) -> tuple[Tensor, Tensor]:
        """Outputs of the recurrent layers, attention to the input -> logits (R, K, L + 1), context (R, K, H)."""
        context, _ = self.attention(output, state.memory, state.mask)  # (R, K, H)
        combined = torch.tanh(self.combine(torch.cat([context, output], dim=-1)))  # (R, K, D)
        return scored(self.output, self.dropout(combined), state.actions), context

    def step(self, previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """previous (R,) -> logits (R, L + 1) and the next state."""
        logits, state = self.unroll(previous[:, None], state)
        return logits[:, 0], state


def model_ids(inputs: Tensor, actions: Tensor | None) -> Tensor:
    """inputs (R, K) numbered by shortlists, actions (B, C + 1) with R = B x W -> the model's own ids (R, K)."""
    if actions is None:
        return inputs
    width = len(inputs) // max(len(actions), 1)
    return actions.gather(1, inputs.view(len(actions), -1)).view(len(actions) * width, -1)


def scored(output: nn.Linear, combined: Tensor, actions: Tensor | None) -> Tensor:
    """combined (R, K, D) -> logits (R, K, L + 1); with actions (B, C + 1), R = B x W, only for these: (R, K, C + 1)."""
    if actions is None:
        logits: Tensor = output(combined)
        return logits
    rows, steps, _ = combined.shape
    weights, bias = output.weight[actions], output.bias[actions]  # (B, C + 1, D), (B, C + 1)
    together = combined.reshape(len(actions), -1, combined.shape[-1])  # (B, W * K, D)
    return torch.baddbmm(bias[:, None], together, weights.transpose(1, 2)).view(rows, steps, -1)


COPYING = 16  # multiplications in the time of copying one number of the encoder's states and its gradient
SPARED = 1 / 32  # of all steps: smaller savings are not worth a cut, because small groups run slower


def unroll_active(decoder: SequenceDecoder, inputs: Tensor, active: Tensor, state: DecoderState) -> Tensor:
    """Logits (B, K, L + 1) of sequences that end early; zero after their end, where there is no loss.

    A few long sequences would make all others run to the same length. If the saving outweighs the copying, rows are
    grouped by length, and each group runs only to its own maximum."""
    rows, steps = active.shape
    lengths = active.sum(dim=1)  # (B,)
    groups = group_by_length(torch.bincount(lengths, minlength=steps + 1).tolist(), SPARED * rows * steps)
    saved = rows * steps - sum(size * last for size, _, last in groups)
    weights = sum(parameter.numel() for parameter in decoder.parameters())  # about the multiplications of a step
    if saved * weights <= COPYING * state.memory.numel():
        return full_precision(decoder.unroll(inputs, state)[0])
    actions = decoder.num_labels + 1 if state.actions is None else state.actions.shape[1]
    logits = full_precision(state.hidden.new_zeros(rows, steps, actions))  # (B, K, L + 1)
    for _, first, last in groups:
        kept = ((lengths >= first) & (lengths <= last)).nonzero()[:, 0]  # (b,)
        group_logits, _ = decoder.unroll(inputs[kept, :last], state.select(kept, kept))  # (b, k, L + 1)
        logits[kept, :last] = full_precision(group_logits)
    return logits


def group_by_length(counts: list[int], spared: float, first: int = 0) -> list[tuple[int, int, int]]:
    """Rows of each length from 0, and steps a cut must save -> groups (rows, shortest, longest) from `first` on.

    A cut at length k saves every row up to k the steps from k to the longest. The best cut is made first, then the best
    cut of either side, as long as it saves enough."""
    longest = len(counts) - 1
    ended = list(accumulate(counts[first:]))
    saved = [rows * (longest - length) for length, rows in enumerate(ended, start=first)]
    most = max(saved)
    if most < spared or most == 0:
        return [(ended[-1], first, longest)] if ended[-1] else []
    cut = first + saved.index(most)
    return group_by_length(counts[: cut + 1], spared, first) + group_by_length(counts, spared, cut + 1)
