"""The forward pass of one update: encode; binary relevance; start the label decoder, roll out and score; losses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from ..decoding.rollout import RolloutTask, follow
from ..nn.label_decoder import LabelDecoder, SequenceDecoder, unroll_active
from ..nn.model import OrderFreeModel
from ..nn.narrow import narrowed
from ..objectives import SequenceObjective
from ..objectives.multitask import Criterion, multitask
from ..types import (
    Batch,
    Candidates,
    DecoderState,
    EncoderOutput,
    LossTerms,
    LossWeights,
    ModelOutput,
    RolloutPlan,
    ScoredRollout,
    full_precision,
)
from .candidates import draw_candidates


def losses(
    network: OrderFreeModel,
    criterion: Criterion,
    batch: Batch,
    done: float = 0.0,
    weights: LossWeights = LossWeights(),  # noqa: B008  (frozen)
    count_steps: Callable[[Tensor], Tensor] = Tensor.sum,
    products: AbstractContextManager[object] = nullcontext(),  # noqa: B008  (holds nothing)
) -> LossTerms:
    """The losses of a batch after the share `done` (0 … 1) of training. `products`: the precision of the networks;
    logits, and therefore softmax and losses, are always float32."""
    with products:
        output = forward(network, criterion, batch, done)
    return multitask(criterion, output, batch.targets, weights, count_steps)


def forward(network: OrderFreeModel, criterion: Criterion, batch: Batch, done: float = 0.0) -> ModelOutput:
    """The encoder runs once for both decoders. A second objective trains the label decoder's first stage."""
    few = _sampled_labels(criterion, batch)
    encoded = network.encoder(batch.inputs)
    br_logits = full_precision(network.br_decoder(encoded)) if network.br_decoder is not None else None  # (B, L)
    decoder: SequenceDecoder | None = network.label_decoder
    if decoder is None or criterion.sequence is None:
        return ModelOutput(br_logits)
    if few is not None:
        assert isinstance(decoder, LabelDecoder), "build.py refuses the others"
        decoder, encoded = narrowed(decoder, few), _scores_of(few, encoded)
    task = rollout_task(criterion, criterion.sequence, batch, few)
    sequence = score_rollout(decoder, encoded, criterion.sequence.plan(done), task)
    if criterion.second is None:
        return ModelOutput(br_logits, sequence)
    task = rollout_task(criterion, criterion.second, batch, few)
    second = score_rollout(decoder.first_stage, encoded, criterion.second.plan(done), task)
    return ModelOutput(br_logits, sequence, second)


def score_rollout(
    decoder: SequenceDecoder, encoded: EncoderOutput, plan: RolloutPlan, task: RolloutTask
) -> ScoredRollout:
    """Label sequences that follow the plan, and the decoder's logits at each of their steps.

    The rollout runs step by step without gradients; scoring then takes all its steps in one call."""
    state = decoder.start(encoded)
    with torch.no_grad():
        rollout = follow(plan, partial(_step, decoder), state, task)
    torch.clear_autocast_cache()  # it holds weights that were cast without a gradient
    inputs = rollout.inputs(task.targets.shape[1])  # (B, K)
    logits = unroll_active(decoder, inputs, rollout.active, state)  # (B, K, L + 1)
    return ScoredRollout(rollout, logits)


def _step(decoder: SequenceDecoder, previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
    logits, state = decoder.step(previous, state)
    return full_precision(logits), state


def rollout_task(
    criterion: Criterion, objective: SequenceObjective, batch: Batch, few: Candidates | None = None
) -> RolloutTask:
    """The task of the rollouts of an objective, with a limit on the steps of each sequence."""
    targets, unknown, rank = batch.targets, batch.unknown, objective.rank.to(batch.targets.device)
    if few is not None:
        targets, unknown = targets[:, few.labels], None if unknown is None else unknown[:, few.labels]
        kept = F.pad(few.labels, (0, 1), value=len(rank) - 1)  # (C + 1,)
        rank = rank[kept].argsort().argsort()  # renumbered 0 … C
    elif batch.labels is not None:
        rank = rank[F.pad(batch.labels, (0, 1), value=len(rank) - 1)]  # (B, C + 1)
    needed = targets.sum(dim=1) + 1  # (B,) steps for every target and <eos>: the smallest limit
    limits = needed.clamp(min=criterion.settings.max_steps)  # (B,)
    if criterion.settings.extra_steps is not None:
        limits = limits.minimum(needed + criterion.settings.extra_steps)
    return RolloutTask(targets, rank, limits, unknown, None if few is None else few.labels)


def _sampled_labels(criterion: Criterion, batch: Batch) -> Candidates | None:
    others = criterion.settings.sampled_labels
    return None if others is None else draw_candidates(batch.targets, others)


def _scores_of(few: Candidates, encoded: EncoderOutput) -> EncoderOutput:
    return encoded if encoded.scores is None else replace(encoded, scores=encoded.scores[:, few.labels])
