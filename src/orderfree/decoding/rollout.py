"""Label sequences chosen step by step while training. Who chooses is the policy; nothing else differs between
maximum likelihood, order-free RNN, OCD and OCD with correct prefixes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..registry import Registry
from ..types import DecoderState, Rollout, RolloutPlan, Step


@dataclass(frozen=True, slots=True)
class Choice:
    """What a policy may look at. r rows are still running; <eos> is column L."""

    logits: Tensor | None  # (r, L + 1) o_t; None for a policy that does not ask the model
    taken: Tensor  # (r, L + 1) bool, labels already in the sequence
    missing: Tensor  # (r, L + 1) bool, targets not yet in the sequence; <eos> once there is none
    rank: Tensor  # (L + 1,) fixed order of labels, 0 first; <eos> last


@dataclass(frozen=True, slots=True)
class Policy:
    choose: Callable[[Choice], Tensor]  # -> (r,)
    asks_model: bool = True


policies: Registry[Policy] = Registry("policy")


def _sample(logits: Tensor, allowed: Tensor) -> Tensor:
    """Gumbel-max: argmax(o + G) is a sample of softmax(o), and needs no normalisation."""
    noise = -torch.empty_like(logits).exponential_().log()  # (r, L + 1)
    return (logits + noise).masked_fill(~allowed, float("-inf")).argmax(dim=-1)  # (r,)


def _asked(choice: Choice) -> Tensor:
    assert choice.logits is not None, "this policy asks the model"
    return choice.logits


# OCD: y~_t ~ softmax(o_t + M_t), M_t = -inf on labels already predicted (Eq. 4).
policies.register("sample")(Policy(lambda c: _sample(_asked(c), ~c.taken)))
# Self-critical baseline: what greedy search would say.
policies.register("best")(Policy(lambda c: _asked(c).masked_fill(c.taken, float("-inf")).argmax(dim=-1)))
# OCD (correct prefix): the same among the labels still missing.
policies.register("sample_missing")(Policy(lambda c: _sample(_asked(c), c.missing)))
# Order-free RNN: the missing label the model likes best.
policies.register("best_missing")(Policy(lambda c: _asked(c).masked_fill(~c.missing, float("-inf")).argmax(dim=-1)))
LAST = torch.iinfo(torch.int64).max
# Seq2seq: the missing label that comes first in a fixed order.
policies.register("teacher")(
    Policy(lambda c: c.rank.expand_as(c.missing).masked_fill(~c.missing, LAST).argmin(dim=-1), False)
)


@dataclass(frozen=True, slots=True)
class RolloutTask:
    """What the label sequences of a batch are rolled out against."""

    targets: Tensor  # (B, L) bool
    rank: Tensor  # (L + 1,) fixed order of labels, 0 first; <eos> last; (B, C + 1) of shortlists
    limits: Tensor  # (B,) most steps of each row
    barred: Tensor | None = None  # (B, L) bool, labels that no policy may choose; None: none
    labels: Tensor | None = None  # (C,) what the labels of this task are called in the model; None: it has all of them


def follow(plan: RolloutPlan, step: Step, state: DecoderState, task: RolloutTask) -> Rollout:
    """The rollouts an objective asked for."""
    rollout = roll_out(policies[plan.policy], step, state, task, plan.teacher_ratio)
    rollout = replace(rollout, barred=task.barred, labels=task.labels)
    if plan.baseline is None:
        return rollout
    compared = roll_out(policies[plan.baseline], step, state, task)
    return replace(rollout, baseline=compared.sequence)


def roll_out(policy: Policy, step: Step, state: DecoderState, task: RolloutTask, teacher_ratio: float = 1.0) -> Rollout:
    """Label sequences (B, K) chosen by the policy, each of at most its limit of steps.

    With a teacher_ratio below 1 (scheduled sampling) the decoder is fed, each time with that probability, the chosen
    label, else one it samples itself; what was chosen stays the target.

    Rows that have ended cost nothing: they are left out of the batch as soon as a quarter of it has ended (leaving
    them out at every step would copy the encoder's states each time).
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
        taken[:, :eos] = task.barred  # as if they had been: no policy chooses them
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
    """What is fed: the chosen label, or with probability 1 - ratio a sample of the model's own.

    <eos> is never sampled here: nothing follows it in prediction, so a decoder never has to go on from it. Where every
    label was fed already, and where the chosen one is <eos>, the chosen one stays."""
    eos = logits.shape[-1] - 1
    allowed = ~taken
    allowed[:, eos] = False
    own = (torch.rand(len(chosen), device=chosen.device) >= teacher_ratio) & (chosen != eos) & allowed.any(dim=1)
    return torch.where(own, _sample(logits, allowed), chosen)  # (r,)
