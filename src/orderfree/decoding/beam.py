"""Beam search over label sequences, for all inputs at once. It knows no model: a step function and a state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..types import DecoderState, Hypotheses, Step

MERGE_FROM = 3  # candidates looked at for each hypothesis kept, where sets are merged


@dataclass(frozen=True, slots=True)
class Limits:
    """How a prediction is searched for."""

    width: int = 6
    min_labels: int = 0
    max_labels: int = 25
    renormalise: bool = True  # True: softmax(o_t + M_t), Eq. 4; False: softmax(o_t), Eq. 3
    br_power: float = 1.0  # alpha of P_path * P_br^alpha, where a search combines the two; 1 is Eq. 16
    merge_sets: bool = False  # True: hypotheses that hold the same labels become one, their probabilities added


@dataclass(frozen=True, slots=True)
class _Beam:
    """w hypotheses for each of A inputs still searched."""

    sequences: Tensor  # (A, w, K) int64, <eos> where nothing is written yet
    scores: Tensor  # (A, w)
    log_probs: Tensor  # (A, w) log P_path so far
    taken: Tensor  # (A, w, L + 1) bool
    ended: Tensor  # (A, w) bool

    def at(self, inputs: Tensor) -> _Beam:
        return _Beam(
            self.sequences[inputs], self.scores[inputs], self.log_probs[inputs], self.taken[inputs], self.ended[inputs]
        )


def beam_search(step: Step, state: DecoderState, num_labels: int, limits: Limits, bonus: Tensor | None) -> Hypotheses:
    """The `width` best label sequences of every input.

    Every step keeps the best `width` of all continuations of all running hypotheses and of those that have ended,
    so that width 1 is greedy search and a width no smaller than the number of sequences is exhaustive.
    bonus (B, L): added to the score of a hypothesis with each label (the log-odds of Eq. 16); <eos> gets 0.
    """
    inputs = state.mask.shape[0]
    max_labels = min(limits.max_labels, num_labels)
    device = state.mask.device
    if bonus is None:
        bonus = torch.zeros(inputs, num_labels, device=device)
    bonus = torch.cat([bonus, bonus.new_zeros(inputs, 1)], dim=1)  # (B, L + 1)

    beam = _start(inputs, num_labels, max_labels + 1, device)
    searched = torch.arange(inputs, device=device)  # (A,) inputs still in the batch
    previous = torch.full((inputs,), num_labels, device=device)  # (A * w,) the start symbol
    done: list[tuple[Tensor, _Beam]] = []
    for t in range(max_labels + 1):
        logits, state = step(previous, state)  # (A * w, L + 1)
        log_probs = _step_log_probs(logits.view(*beam.ended.shape, -1), beam, t, max_labels, limits)
        parents, labels, beam = _advance(beam, log_probs, bonus[searched], t, limits)
        if t == max_labels:
            break
        running = (~beam.ended).any(dim=1)  # (A,)
        alive = int(running.sum())
        if alive == 0:
            break
        rows = _rows(parents, logits.shape[0] // len(searched))
        if 2 * alive <= len(searched):  # inputs whose hypotheses have all ended leave the batch
            left, kept = (~running).nonzero()[:, 0], running.nonzero()[:, 0]
            done.append((searched[left], beam.at(left)))
            beam, searched, labels, rows = beam.at(kept), searched[kept], labels[kept], rows[kept]
            state = state.select(rows.flatten(), kept)
        else:
            state = state.select(rows.flatten())
        previous = labels.flatten()
    done.append((searched, beam))
    return _collect(done, inputs)


def _start(inputs: int, num_labels: int, steps: int, device: torch.device) -> _Beam:
    return _Beam(
        torch.full((inputs, 1, steps), num_labels, device=device),
        torch.zeros(inputs, 1, device=device),
        torch.zeros(inputs, 1, device=device),
        torch.zeros(inputs, 1, num_labels + 1, dtype=torch.bool, device=device),
        torch.zeros(inputs, 1, dtype=torch.bool, device=device),
    )


def _step_log_probs(logits: Tensor, beam: _Beam, t: int, max_labels: int, limits: Limits) -> Tensor:
    """log-probability of every continuation (A, w, L + 1), -inf where it is not allowed."""
    eos = logits.shape[-1] - 1
    if limits.renormalise:
        logits = logits.masked_fill(beam.taken, float("-inf"))
    log_probs = logits.float().log_softmax(dim=-1).masked_fill(beam.taken, float("-inf"))
    # min_labels and max_labels are the caller's wish, not the model's belief: they forbid, and nothing is renormalised
    if t < limits.min_labels and t < max_labels:
        log_probs[..., eos] = float("-inf")
    if t == max_labels:
        log_probs[..., :eos] = float("-inf")
    # an ended hypothesis goes on as itself, at no cost
    log_probs = log_probs.masked_fill(beam.ended[..., None], float("-inf"))
    log_probs[..., eos] = log_probs[..., eos].masked_fill(beam.ended, 0.0)
    return log_probs


def _advance(beam: _Beam, log_probs: Tensor, bonus: Tensor, t: int, limits: Limits) -> tuple[Tensor, Tensor, _Beam]:
    """The best continuations: their parents (A, w'), their labels (A, w') and the beam they make."""
    inputs, _, actions = log_probs.shape
    eos = actions - 1
    totals = (beam.scores[..., None] + log_probs + bonus[:, None]).view(inputs, -1)  # (A, w * (L + 1))
    candidates = limits.width * (MERGE_FROM if limits.merge_sets else 1)
    scores, best = totals.topk(min(candidates, totals.shape[1]), dim=1)  # (A, w')
    # two hypotheses, three actions: continuation 4 is action 1 of hypothesis 1
    parents, labels = best // actions, best % actions  # (A, w')
    path = (beam.log_probs[..., None] + log_probs).view(inputs, -1).gather(1, best)  # (A, w')

    def follow(values: Tensor) -> Tensor:
        return values.gather(1, parents[..., None].expand(-1, -1, values.shape[-1]))

    taken = follow(beam.taken).scatter(2, labels[..., None], True)  # (A, w', L + 1)
    taken[..., eos] = False
    ended = labels == eos
    if limits.merge_sets:
        scores, path, kept = _merge(scores, path, taken, ended, limits.width)
        parents, labels, ended = parents.gather(1, kept), labels.gather(1, kept), ended.gather(1, kept)
        taken = taken.gather(1, kept[..., None].expand(-1, -1, actions))
    sequences = follow(beam.sequences)
    sequences[:, :, t] = labels
    return parents, labels, _Beam(sequences, scores, path, taken, ended | (scores == float("-inf")))


def _merge(scores: Tensor, path: Tensor, taken: Tensor, ended: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Adds up hypotheses (A, w') that hold the same set and have both ended or both not; the best of each stays.

    An order-free model spreads the probability of a set over its permutations; added up, they are the set's again.
    The state that goes on is that of the most probable permutation. Returns scores, log-probabilities, places (A, W).
    """
    marks = torch.cat([taken[..., :-1], ended[..., None]], dim=-1).float()  # (A, w', L + 1)
    # two sets are equal where they share as many labels as each of them has
    size = marks.sum(dim=-1)  # (A, w')
    same = (marks @ marks.transpose(1, 2) == size[..., None]) & (size[..., None] == size[:, None])  # (A, w', w')
    first = ~same.tril(diagonal=-1).any(dim=-1)  # (A, w'): candidates come best first

    def added(values: Tensor) -> Tensor:
        everyone = values[:, None].expand_as(same).masked_fill(~same, float("-inf"))  # (A, w', w')
        return everyone.logsumexp(dim=-1).masked_fill(~first, float("-inf"))  # (A, w')

    merged, kept = added(scores).topk(min(width, scores.shape[1]), dim=1)  # (A, W)
    return merged, added(path).gather(1, kept), kept


def _rows(parents: Tensor, width: int) -> Tensor:
    """Decoder rows of the parents: input 2 of width 3, parent 1 -> row 7."""
    first = torch.arange(len(parents), device=parents.device)[:, None] * width  # (A, 1)
    return first + parents  # (A, w')


def _collect(done: list[tuple[Tensor, _Beam]], inputs: int) -> Hypotheses:
    """Beams of inputs that left the search at different steps, put back in the order of the inputs."""
    width = max(beam.scores.shape[1] for _, beam in done)
    steps = done[0][1].sequences.shape[2]
    eos = done[0][1].taken.shape[2] - 1
    device = done[0][1].scores.device
    sequences = torch.full((inputs, width, steps), eos, device=device)
    scores = torch.full((inputs, width), float("-inf"), device=device)
    log_probs = scores.clone()
    for places, beam in done:
        found = beam.scores.shape[1]
        sequences[places, :found] = beam.sequences
        scores[places, :found] = beam.scores
        log_probs[places, :found] = beam.log_probs
    return Hypotheses(sequences, scores, log_probs)
