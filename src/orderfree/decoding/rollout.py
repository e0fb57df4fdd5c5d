"""Label sequences generated step by step during training. A policy chooses each label; the rollouts of maximum
likelihood, order-free RNN, OCD and OCD with correct prefixes differ in their policy only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..system.registry import Registry
from ..types import DecoderState, Rollout, RolloutPlan, Step


@dataclass(frozen=True, slots=True)
class Choice:
    """The input of a policy. r rows are still running; <eos> is column L."""

    logits: Tensor | None  # (r, L + 1) o_t; None for a policy that does not use the model
    taken: Tensor  # (r, L + 1) bool, labels already in the sequence
    missing: Tensor  # (r, L + 1) bool, targets not yet in the sequence; <eos> if none is left
    rank: Tensor  # (L + 1,) fixed order of labels, 0 first; <eos> last


@dataclass(frozen=True, slots=True)
class Policy:
    choose: Callable[[Choice], Tensor]  # -> (r,)
    asks_model: bool = True


policies: Registry[Policy] = Registry("policy")


def _sample(logits: Tensor, allowed: Tensor) -> Tensor:
    """Gumbel-max: argmax(o + G) is a sample from softmax(o), without computing the normaliser."""
    noise = -torch.empty_like(logits).exponential_().log()  # (r, L + 1)
    return (logits + noise).masked_fill(~allowed, float("-inf")).argmax(dim=-1)  # (r,)


def _asked(choice: Choice) -> Tensor:
    assert choice.logits is not None, "this policy needs logits"
    return choice.logits


# OCD: y~_t ~ softmax(o_t + M_t), M_t = -inf on labels already predicted (Eq. 4).
policies.register("sample")(Policy(lambda c: _sample(_asked(c), ~c.taken)))
# Self-critical baseline: greedy search.
policies.register("best")(Policy(lambda c: _asked(c).masked_fill(c.taken, float("-inf")).argmax(dim=-1)))
# OCD (correct prefix): a sample among the labels still missing.
policies.register("sample_missing")(Policy(lambda c: _sample(_asked(c), c.missing)))
# Order-free RNN: the most probable missing label.
policies.register("best_missing")(Policy(lambda c: _asked(c).masked_fill(~c.missing, float("-inf")).argmax(dim=-1)))
LAST = torch.iinfo(torch.int64).max
# Seq2seq: the missing label that comes first in a fixed order.
policies.register("teacher")(
    Policy(lambda c: c.rank.expand_as(c.missing).masked_fill(~c.missing, LAST).argmin(dim=-1), False)
)


@dataclass(frozen=True, slots=True)
class RolloutTask:
    """The targets of a batch and the constraints of its rollouts."""

    targets: Tensor  # (B, L) bool
    rank: Tensor  # (L + 1,) fixed order of labels, 0 first, <eos> last; (B, C + 1) with shortlists
    limits: Tensor  # (B,) maximum number of steps of each row
    barred: Tensor | None = None  # (B, L) bool, labels that no policy may choose; None: none
    labels: Tensor | None = None  # (C,) ids in the model of the labels of this task; None: all labels


def follow(plan: RolloutPlan, step: Step, state: DecoderState, task: RolloutTask) -> Rollout:
    """The rollout that an objective planned, with its baseline if it has one."""
    rollout = roll_out(policies[plan.policy], step, state, task, plan.teacher_ratio)
    rollout = replace(rollout, barred=task.barred, labels=task.labels)
    if plan.baseline is None:
        return rollout
    compared = roll_out(policies[plan.baseline], step, state, task)
    return replace(rollout, baseline=compared.sequence)


def roll_out(policy: Policy, step: Step, state: DecoderState, task: RolloutTask, teacher_ratio: float = 1.0) -> Rollout:
    """Label sequences (B, K) chosen by the policy, each of at most its limit of steps.

    With a teacher_ratio below 1 (scheduled sampling), each step feeds the decoder the chosen label with that
    probability and otherwise a label sampled from the model; the chosen label remains the target.

    Rows that have ended leave the batch once they are a quarter of it. Removing them at every step would copy the
    encoder's states each time.
    """
    targets, limits = task.targets, task.limits
    inputs, num_labels = targets.shape
    eos, steps = num_labels, int(limits.max())
    device = targets.device
    asks_model = policy.asks_model or teacher_ratio < 1
    sequence = torch.full((inputs, steps), eos, device=device)  # (B, K)
    fed = sequence.clone()  # (B, K)
    active = torch.zeros(inputs, steps, dtype=torch.bool, device=device)  # (B, K)

    rows = torch.arange(inputs, device=device)  # (r,) rows still in the batch
    running = torch.ones_like(rows, dtype=torch.bool)  # (r,)
    taken = torch.zeros(inputs, num_labels + 1, dtype=torch.bool, device=device)  # (r, L + 1) labels fed so far
    if task.barred is not None:
        taken[:, :eos] = task.barred  # treated as taken, so that no policy chooses them
    missing = torch.cat([targets, ~targets.any(dim=1, keepdim=True)], dim=1)  # (r, L + 1)
    previous = torch.full_like(rows, num_labels)  # (r,) the start symbol
    for t in range(steps):
        logits = None
        if asks_model:
            logits, state = step(previous, state)  # (r, L + 1)
        rank = task.rank if task.rank.dim() == 1 else task.rank[rows]  # (L + 1,) or (r, C + 1)
        chosen = policy.choose(Choice(logits, taken, missing, rank)).masked_fill(~running, eos)  # (r,)
        previous = chosen
        if logits is not None and teacher_ratio < 1:
            previous = _schedule(chosen, logits, taken, teacher_ratio)
        sequence[rows, t], fed[rows, t], active[rows, t] = chosen, previous, running

        taken.scatter_(1, previous[:, None], True)
        taken[:, eos] = False
        missing.scatter_(1, chosen[:, None], False)
        missing[:, eos] = ~missing[:, :eos].any(dim=1)
        running = running & (chosen != eos) & (limits[rows] > t + 1)
        alive = int(running.sum())
        if alive == 0:
            return _rollout(sequence[:, : t + 1], active[:, : t + 1], fed[:, : t + 1], teacher_ratio)
        if 4 * alive <= 3 * len(rows):
            kept = running.nonzero()[:, 0]  # (alive,)
            rows, taken, missing, previous = rows[kept], taken[kept], missing[kept], previous[kept]
            running = running[kept]
            state = state.select(kept, kept) if asks_model else state
    return _rollout(sequence, active, fed, teacher_ratio)


def _rollout(sequence: Tensor, active: Tensor, fed: Tensor, teacher_ratio: float) -> Rollout:
    return Rollout(sequence, active, fed if teacher_ratio < 1 else None)


def _schedule(chosen: Tensor, logits: Tensor, taken: Tensor, teacher_ratio: float) -> Tensor:
    """The label fed at the next step: the chosen label, or with probability 1 - ratio a sample from the model.

    <eos> is never sampled here: prediction ends at <eos>, so a decoder never continues after it. The chosen label is
    fed if it is <eos> or if every label has been fed already."""
    eos = logits.shape[-1] - 1
    allowed = ~taken
    allowed[:, eos] = False
    sampled = (torch.rand(len(chosen), device=chosen.device) >= teacher_ratio) & (chosen != eos) & allowed.any(dim=1)
    return torch.where(sampled, _sample(logits, allowed), chosen)  # (r,)
