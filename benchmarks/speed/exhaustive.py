"""Slow and simple reference searches: all label sequences of a small problem, and a beam in plain Python."""

from __future__ import annotations

from itertools import permutations

import torch
from torch import Tensor

from orderfree.decoding.beam import Limits
from orderfree.types import DecoderState, Step


def all_sequences(num_labels: int, limits: Limits) -> list[tuple[int, ...]]:
    """Every sequence without repeats of an allowed length, without <eos>."""
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


def loop_beam(
    step: Step, state: DecoderState, num_labels: int, limits: Limits, bonus: Tensor | None = None
) -> list[tuple[tuple[int, ...], float, float]]:
    """(sequence, score, log P_path) of the best hypotheses of one input, best first: beam search that expands one
    hypothesis at a time. It does not merge hypotheses of the same set."""
    most = min(limits.max_labels, num_labels)
    running: list[tuple[tuple[int, ...], float, float, DecoderState]] = [((), 0.0, 0.0, state)]
    ended = running[:0]
    for t in range(most + 1):
        candidates = list(ended)
        for labels, score, path, before in running:
            logits, after = step(torch.tensor([labels[-1] if labels else num_labels]), before)
            log_probs = _allowed_log_probs(logits[0], labels, limits.renormalise)
            for action, log_prob in enumerate(log_probs):
                too_soon = action == num_labels and t < limits.min_labels and t < most
                if action in labels or too_soon or (action < num_labels and t == most):
                    continue
                gain = 0.0 if bonus is None or action == num_labels else float(bonus[action])
                candidates.append(((*labels, action), score + log_prob + gain, path + log_prob, after))
        candidates.sort(key=lambda hypothesis: -hypothesis[1])
        kept = candidates[: limits.width]
        ended = [hypothesis for hypothesis in kept if hypothesis[0][-1] == num_labels]
        running = [hypothesis for hypothesis in kept if hypothesis[0][-1] != num_labels]
        if not running:
            break
    ended.sort(key=lambda hypothesis: -hypothesis[1])
    return [(labels[:-1], score, path) for labels, score, path, _ in ended]


def _allowed_log_probs(logits: Tensor, taken: tuple[int, ...], renormalise: bool) -> list[float]:
    logits = logits.float().clone()
    if renormalise:
        logits[list(taken)] = float("-inf")
    values: list[float] = logits.log_softmax(dim=-1).tolist()
    return values
