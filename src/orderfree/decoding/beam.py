"""Beam search over label sequences, for all inputs at once. It knows no model: a step function and a state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..types import DecodeInput, DecoderState, Hypotheses, Step

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
    """w hypotheses for each of A inputs still searched. Nothing in it grows with the number of labels."""

    sequences: Tensor  # (A, w, K) int64, <eos> where nothing is written yet
    scores: Tensor  # (A, w)
    log_probs: Tensor  # (A, w) log P_path so far
    ended: Tensor  # (A, w) bool

    def at(self, inputs: Tensor) -> _Beam:
        return _Beam(self.sequences[inputs], self.scores[inputs], self.log_probs[inputs], self.ended[inputs])


def search_beam(given: DecodeInput, limits: Limits, bonus: Tensor | None = None) -> Hypotheses:
    """`beam_search` with the label decoder of a model."""
    assert given.step is not None, "a beam drives the label decoder, and the model has none"
    assert given.state is not None, "a label decoder starts from a state"
    return beam_search(given.step, given.state, given.num_labels, limits, bonus)


def beam_search(step: Step, state: DecoderState, num_labels: int, limits: Limits, bonus: Tensor | None) -> Hypotheses:
    """The `width` best label sequences of every input.

    Every step keeps the best `width` of all continuations of all running hypotheses and of those that have ended,
    so that width 1 is greedy search and a width no smaller than the number of sequences is exhaustive.
    bonus (B, L): added to the score of a hypothesis with each label (the log-odds of Eq. 16); <eos> gets 0.
    """
    inputs = state.mask.shape[0]
    max_labels = min(limits.max_labels, num_labels)
    device = state.mask.device
    if bonus is not None:
        bonus = torch.cat([bonus, bonus.new_zeros(inputs, 1)], dim=1)  # (B, L + 1)
    keys = _label_keys(num_labels).to(device) if limits.merge_sets else None  # (L + 1,)

    beam = _start(inputs, num_labels, max_labels + 1, device)
    searched = torch.arange(inputs, device=device)  # (A,) inputs still in the batch
    previous = torch.full((inputs,), num_labels, device=device)  # (A * w,) the start symbol
    done: list[tuple[Tensor, _Beam]] = []
    for t in range(max_labels + 1):
        logits, state = step(previous, state)  # (A * w, L + 1)
        log_probs = _step_log_probs(logits.view(*beam.ended.shape, -1), beam, t, max_labels, limits)
        parents, labels, beam = _advance(beam, log_probs, bonus, keys, t, limits)
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
            bonus = bonus[kept] if bonus is not None else None
            state = state.select(rows.flatten(), kept)
        else:
            state = state.select(rows.flatten())
        previous = labels.flatten()
    done.append((searched, beam))
    return _collect(done, inputs, num_labels)


def _start(inputs: int, num_labels: int, steps: int, device: torch.device) -> _Beam:
    return _Beam(
        torch.full((inputs, 1, steps), num_labels, device=device),
        torch.zeros(inputs, 1, device=device),
        torch.zeros(inputs, 1, device=device),
        torch.zeros(inputs, 1, dtype=torch.bool, device=device),
    )


def _step_log_probs(logits: Tensor, beam: _Beam, t: int, max_labels: int, limits: Limits) -> Tensor:
    """log-probability of every continuation (A, w, L + 1), -inf where it is not allowed."""
    eos = logits.shape[-1] - 1
    taken = beam.sequences[..., :t]  # (A, w, t): what M_t of Eq. 4 forbids; ended hypotheses are dealt with below
    if limits.renormalise:
        log_probs = logits.float().scatter(-1, taken, float("-inf")).log_softmax(dim=-1)
    else:
        log_probs = logits.float().log_softmax(dim=-1).scatter_(-1, taken, float("-inf"))
    # min_labels and max_labels are the caller's wish, not the model's belief: they forbid, and nothing is renormalised
    if t < limits.min_labels and t < max_labels:
        log_probs[..., eos] = float("-inf")
    if t == max_labels:
        log_probs[..., :eos] = float("-inf")
    # an ended hypothesis goes on as itself, at no cost
    log_probs.masked_fill_(beam.ended[..., None], float("-inf"))
    log_probs[..., eos].masked_fill_(beam.ended, 0.0)
    return log_probs


def _advance(
    beam: _Beam, log_probs: Tensor, bonus: Tensor | None, keys: Tensor | None, t: int, limits: Limits
) -> tuple[Tensor, Tensor, _Beam]:
    """The best continuations: their parents (A, w'), their labels (A, w') and the beam they make."""
    inputs, _, actions = log_probs.shape
    totals = beam.scores[..., None] + log_probs  # (A, w, L + 1)
    if bonus is not None:
        totals += bonus[:, None]
    totals = totals.view(inputs, -1)  # (A, w * (L + 1))
    candidates = limits.width * (MERGE_FROM if keys is not None else 1)
    scores, best = totals.topk(min(candidates, totals.shape[1]), dim=1)  # (A, w')
    # two hypotheses, three actions: continuation 4 is action 1 of hypothesis 1
    parents, labels = best // actions, best % actions  # (A, w')
    path = beam.log_probs.gather(1, parents) + log_probs.view(inputs, -1).gather(1, best)  # (A, w')
    sequences = _follow(beam.sequences, parents)  # (A, w', K)
    sequences[:, :, t] = labels
    ended = labels == actions - 1
    if keys is not None:
        scores, path, kept = _merge(scores, path, _set_keys(sequences, ended, keys), limits.width)
        parents, labels, ended = parents.gather(1, kept), labels.gather(1, kept), ended.gather(1, kept)
        sequences = _follow(sequences, kept)
    return parents, labels, _Beam(sequences, scores, path, ended | (scores == float("-inf")))


def _follow(sequences: Tensor, places: Tensor) -> Tensor:
    """sequences (A, w, K), places (A, w') among the w -> (A, w', K)."""
    return sequences.gather(1, places[..., None].expand(-1, -1, sequences.shape[-1]))


def _label_keys(num_labels: int) -> Tensor:
    """(L + 1,) a random number for each label, and one for having ended; the same ones always."""
    generator = torch.Generator().manual_seed(num_labels)
    return torch.randint(-(2**62), 2**62, (num_labels + 1,), generator=generator)


def _set_keys(sequences: Tensor, ended: Tensor, keys: Tensor) -> Tensor:
    """One number for each hypothesis (A, w'): the sum of its labels' keys, which the order of labels does not change.
    Of two different sets it is the same once in 10^18."""
    eos = len(keys) - 1
    return keys[sequences].masked_fill(sequences == eos, 0).sum(dim=-1) + ended * keys[eos]


def _merge(scores: Tensor, path: Tensor, sets: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Adds up hypotheses (A, w') that hold the same set and have both ended or both not; the best of each stays.

    An order-free model spreads the probability of a set over its permutations; added up, they are the set's again.
    The state that goes on is that of the most probable permutation. Returns scores, log-probabilities, places (A, W).
    """
    same = sets[..., None] == sets[:, None]  # (A, w', w')
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


def _collect(done: list[tuple[Tensor, _Beam]], inputs: int, eos: int) -> Hypotheses:
    """Beams of inputs that left the search at different steps, put back in the order of the inputs."""
    width = max(beam.scores.shape[1] for _, beam in done)
    steps = done[0][1].sequences.shape[2]
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
