"""Every label sequence of a small problem, scored one by one: slow, obvious, the reference for the searches."""

from __future__ import annotations

from itertools import permutations

import torch
from torch import Tensor

from ..types import DecoderState, Step
from .beam import Limits


def all_sequences(num_labels: int, limits: Limits) -> list[tuple[int, ...]]:
    """Every sequence without repeats whose length is allowed; <eos> is not written."""
    most = min(limits.max_labels, num_labels)
    return [s for n in range(min(limits.min_labels, most), most + 1) for s in permutations(range(num_labels), n)]


def path_log_prob(
    step: Step, state: DecoderState, sequence: tuple[int, ...], num_labels: int, renormalise: bool
) -> float:
    """log P_path of one sequence and its <eos> (Eq. 14), for a state of one row."""
    total, previous = 0.0, num_labels
    taken: list[int] = []
    for label in (*sequence, num_labels):
        logits, state = step(torch.tensor([previous]), state)
        logits = logits[0].clone()
        if renormalise:
            logits[taken] = float("-inf")
        total += float(logits.log_softmax(dim=-1)[label])
        taken.append(label)
        previous = label
    return total


def exhaustive_search(
    step: Step, state: DecoderState, num_labels: int, limits: Limits, bonus: Tensor | None = None
) -> list[tuple[tuple[int, ...], float]]:
    """(sequence, score) of every sequence of one input, best first; bonus (L,) is added with each label."""
    scored = []
    for sequence in all_sequences(num_labels, limits):
        score = path_log_prob(step, state, sequence, num_labels, limits.renormalise)
        if bonus is not None:
            score += sum(float(bonus[label]) for label in sequence)
        scored.append((sequence, score))
    return sorted(scored, key=lambda pair: -pair[1])
