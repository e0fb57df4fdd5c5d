"""Objectives of the label decoder. Add one by registering a class here.

An objective is a class with
    Options                   its settings, a config Section
    __init__(options, rank)   rank (L + 1,): labels from frequent to rare, <eos> last
    policy                    name of the rollout policy that chooses its sequences, see `decoding/rollout`
    rank                      (L + 1,) the order a teacher follows
    teacher_ratio(done)       share of steps fed what the policy chose, when `done` (0 … 1) of training is done;
                              the others are fed what the model samples itself (scheduled sampling)
    step_losses(logits, rollout, targets) -> (B, K), loss of every step; the caller leaves out inactive ones
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from torch import Tensor

from ..config import Section
from ..registry import Registry
from ..types import Rollout


class SequenceObjective(Protocol):
    Options: ClassVar[type[Section]]
    policy: str
    rank: Tensor

    def teacher_ratio(self, done: float) -> float: ...

    def step_losses(self, logits: Tensor, rollout: Rollout, targets: Tensor) -> Tensor: ...


objectives: Registry[type] = Registry("objective")

from . import ocd, teacher_forcing  # noqa: E402, F401  (each registers itself)
