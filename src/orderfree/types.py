"""The nouns of the flow, one frozen dataclass per stage.

Dimensions, everywhere in the package:

    B  examples in a batch            L  labels of the model
    T  tokens (or frames) of a text   K  steps of a label sequence
    H  hidden size of the encoder     D  hidden size of the label decoder
    W  width of a beam                R  rows the decoder works on (B, or B x W in a beam)
    E  recurrent layers of the encoder

Where labels are many, an example is scored on a shortlist of C candidate labels only. Then C stands in the place of L
from the batch to the hypotheses: labels are numbered by their position in the example's own shortlist.

Labels are 0 … L-1. The id L is `<eos>` where it is an output and the start symbol where it is an input: the two
never meet, because nothing follows `<eos>`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class SparseVector:
    """One example given as term numbers and weights (libsvm)."""

    indices: np.ndarray  # (n,) int32, sorted, counted from 0
    values: np.ndarray  # (n,) float32


@dataclass(frozen=True, slots=True)
class Example:
    """What a reader yields: one thing to label. Exactly one of `text` and `features` is set."""

    id: str
    text: str | None = None
    features: SparseVector | np.ndarray | None = None  # dense: (F,) or (T, F), float32 or, where quantised, uint8
    labels: tuple[str, ...] | None = None  # None: the file has no labels; (): it says there are none
    weight: float = 1.0  # how much it counts in the losses
    unknown: tuple[str, ...] | None = ()  # labels it may or may not have; None: nothing is known of its labels


@dataclass(frozen=True, slots=True)
class TokenInput:
    """Word ids, padded at the end."""

    ids: Tensor  # (B, T) int64
    lengths: Tensor  # (B,) int64, at least 1


@dataclass(frozen=True, slots=True)
class BagInput:
    """Weighted bags of terms, concatenated: row b is entries offsets[b] … offsets[b + 1]."""

    indices: Tensor  # (N,) int64
    weights: Tensor  # (N,) float32
    offsets: Tensor  # (B,) int64, first entry of each row
    scores: Tensor | None = None  # (B, L) of linear classifiers that have not seen these examples, while training
    votes: Tensor | None = None  # (B, L) log-odds of labels among the training examples most like these
    labels: Tensor | None = None  # (B, C) int64, the candidate labels that `scores` (B, C) are of; None: all labels
    sets: Tensor | None = None  # (B, S, C) bool, sets of candidates that are likely right, while predicting
    set_log_probs: Tensor | None = None  # (B, S) how likely, falling; -inf: no such set


@dataclass(frozen=True, slots=True)
class DenseInput:
    """Feature vectors, padded at the end with zero frames."""

    frames: Tensor  # (B, T, F) float32
    lengths: Tensor  # (B,) int64, at least 1


@dataclass(frozen=True, slots=True)
class HybridInput:
    """What each of several encoders side by side is fed."""

    parts: dict[str, Any]  # by the encoder's name


EncoderInput = TokenInput | BagInput | DenseInput | HybridInput


def with_scores(inputs: EncoderInput, **known: Tensor) -> EncoderInput:
    """The same inputs with linear scores (B, L) in their bag of terms, or with those of candidate labels (B, C) and
    what else a scorer says of these."""
    if isinstance(inputs, BagInput):
        return replace(inputs, **known)  # fields of BagInput by name
    if isinstance(inputs, HybridInput):
        return HybridInput({name: with_scores(part, **known) for name, part in inputs.parts.items()})
    return inputs


def full_precision(values: Tensor) -> Tensor:
    """float32 again, where a product was computed in a shorter format; what is longer stays as it is."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def on_device(inputs: EncoderInput, device: torch.device) -> EncoderInput:
    """The same inputs on another device."""
    if isinstance(inputs, HybridInput):
        return HybridInput({name: on_device(part, device) for name, part in inputs.parts.items()})
    given: dict[str, Any] = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
    moved: dict[str, Any] = {name: None if values is None else values.to(device) for name, values in given.items()}
    return replace(inputs, **moved)


@dataclass(frozen=True, slots=True)
class Batch:
    """What the model is fed."""

    inputs: EncoderInput
    targets: Tensor  # (B, L) bool; all False where labels are unknown
    rows: Tensor  # (B,) int64, position of each example in its corpus
    weights: Tensor | None = None  # (B,) float32, how much each example counts in the losses; None: all the same
    unknown: Tensor | None = None  # (B, L) bool, labels of which it is not known whether they are there; None: none
    labels: Tensor | None = None  # (B, C) int64, the candidates that targets and unknown are about; None: all labels


@dataclass(frozen=True, slots=True)
class EncoderOutput:
    """What both decoders read."""

    states: Tensor  # (B, T, H), zero where masked
    mask: Tensor  # (B, T) bool, True on real positions
    final_hidden: Tensor  # (E, B, H), last state of every layer, the last layer's at the end
    scores: Tensor | None = None  # (B, L), where the encoder scores labels itself
    labels: Tensor | None = None  # (B, C) int64, the candidates that the decoders score; None: all labels
    sets: Tensor | None = None  # (B, S, C) bool, as in BagInput
    set_log_probs: Tensor | None = None  # (B, S)

    @property
    def summary(self) -> Tensor:
        """h_m^e: the final state of the last layer."""
        return self.final_hidden[-1]  # (B, H)


@dataclass(frozen=True, slots=True)
class DecoderState:
    """Where the label decoder stands. R rows; with R = B x W the W rows of one input lie side by side."""

    hidden: Tensor  # (layers, R, D)
    cell: Tensor  # (layers, R, D)
    memory: Tensor  # (B, T, H) encoder states, read by the attention
    mask: Tensor  # (B, T) bool
    extra: tuple[Tensor, ...] = ()  # (R, …) each: what a decoder remembers besides
    actions: Tensor | None = None  # (B, C + 1) the model's id of each candidate and of <eos>; None: all labels

    def select(self, rows: Tensor, inputs: Tensor | None = None) -> DecoderState:
        """Rows `rows`, of the inputs `inputs` (all, where not given)."""
        memory, mask, actions = self.memory, self.mask, self.actions
        if inputs is not None:
            memory, mask, actions = memory[inputs], mask[inputs], None if actions is None else actions[inputs]
        extra = tuple(values[rows] for values in self.extra)
        return DecoderState(self.hidden[:, rows], self.cell[:, rows], memory, mask, extra, actions)


# step(previous_label (R,), state) -> logits (R, L + 1), state: the one seam that training and search both drive.
Step = Callable[[Tensor, DecoderState], tuple[Tensor, DecoderState]]


@dataclass(frozen=True, slots=True)
class Rollout:
    """Label sequences chosen by a policy; `<eos>` ends a row and fills the rest of it."""

    sequence: Tensor  # (B, K) int64: y~_1 … y~_K
    active: Tensor  # (B, K) bool: True up to and including the first <eos>
    fed: Tensor | None = None  # (B, K) what the decoder was fed instead of the sequence (scheduled sampling)
    baseline: Tensor | None = None  # (B, K') sequences of another policy, to compare with
    barred: Tensor | None = None  # (B, L) bool, labels that are no actions: it is not known whether they are right
    labels: Tensor | None = None  # (C,) the labels that were there to choose from, and are numbered by; None: all

    def inputs(self, num_labels: int) -> Tensor:
        """y~_{t-1} for every step t: what was fed, shifted right behind the start symbol (the id L)."""
        fed = self.sequence if self.fed is None else self.fed
        start = torch.full_like(fed[:, :1], num_labels)  # (B, 1)
        return torch.cat([start, fed[:, :-1]], dim=1)  # (B, K)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The labels one batch is trained on, in the place of all (objective.sampled_labels)."""

    labels: Tensor  # (C,) int64, ascending
    stands_for: Tensor  # (C,) how many labels each of them stands for in a softmax


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """Whose label sequences an objective wants; the names are those of `decoding/rollout`."""

    policy: str
    teacher_ratio: float = 1.0  # share of steps fed what the policy chose; the others are fed what the model samples
    baseline: str | None = None  # policy of the sequences to compare with


@dataclass(frozen=True, slots=True)
class ScoredRollout:
    """A rollout and what the label decoder says at each of its steps."""

    rollout: Rollout
    logits: Tensor  # (B, K, L + 1) o_t


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """What one training pass of the model gives; None where the model has no such decoder."""

    br_logits: Tensor | None  # (B, L)
    sequence: ScoredRollout | None = None
    second: ScoredRollout | None = None  # of the second objective


@dataclass(frozen=True, slots=True)
class LossWeights:
    """How much each part of a batch counts in the losses; None: everything the same."""

    sequences: Tensor | None = None  # (B,) the label sequence of each example
    decisions: Tensor | None = None  # (B, L) or (B, 1) each yes or no of binary relevance


@dataclass(frozen=True, slots=True)
class LossTerms:
    """Named loss terms, kept apart so that each can be logged; `total` is what is minimised."""

    total: Tensor  # ()
    terms: dict[str, Tensor] = field(default_factory=dict)  # each ()


@dataclass(frozen=True, slots=True)
class DecodeInput:
    """All a search may use of one batch. A model with one decoder only leaves the other's part None."""

    num_labels: int
    step: Step | None
    state: DecoderState | None  # R = B
    br_logits: Tensor | None  # (B, L)
    thresholds: Tensor | None = None  # (L,) or (B, C) probabilities at which BR says yes
    scores: Tensor | None = None  # (B, L) of an encoder that scores labels itself
    labels: Tensor | None = None  # (B, C) the candidates that are numbered 0 … C - 1 here; None: all labels
    sets: Tensor | None = None  # (B, S, C) bool, as in BagInput
    set_log_probs: Tensor | None = None  # (B, S)


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """What a search returns: up to W label sequences per input, best first."""

    sequences: Tensor  # (B, W, K) int64, <eos> from the end on
    scores: Tensor  # (B, W) what the search ranked by; -inf: no such hypothesis
    log_probs: Tensor  # (B, W) log-probability the deciding model gives it: log P_path (Eq. 14) or log P_br (Eq. 13)


@dataclass(frozen=True, slots=True)
class LabelSet:
    """One prediction, in names."""

    labels: tuple[str, ...]  # in the order they were generated; by falling probability under BR
    log_prob: float  # of the set: permutations of it found by the search are added up
    alternatives: tuple[tuple[tuple[str, ...], float], ...] = ()  # other sets the search held, with log_prob
