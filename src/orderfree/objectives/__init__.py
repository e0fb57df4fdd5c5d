"""Objectives of the label decoder. Add one by registering a class here.

An objective is a class with
    Options                   its settings, a config Section
    __init__(options, rank)   rank (L + 1,): labels from frequent to rare, <eos> last
    rank                      (L + 1,) the order a teacher follows
    plan(done)                the rollout it needs after the share `done` (0 … 1) of training
    step_losses(logits, rollout, targets) -> (B, K), loss of every step; the caller leaves out inactive steps, and masks
                              the logits of labels that must not be generated (rollout.barred)
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from torch import Tensor

from ..config import Section
from ..system.registry import Registry
from ..types import Rollout, RolloutPlan


class SequenceObjective(Protocol):
    Options: ClassVar[type[Section]]
    rank: Tensor

    def plan(self, done: float) -> RolloutPlan: ...

    def step_losses(self, logits: Tensor, rollout: Rollout, targets: Tensor) -> Tensor: ...


objectives: Registry[type] = Registry("objective")

from . import ocd, self_critical, teacher_forcing  # noqa: E402, F401  (each registers itself)
