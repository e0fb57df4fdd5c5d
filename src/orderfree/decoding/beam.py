"""Beam search over label sequences, for all inputs at once. It needs only a step function and a state, no model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..types import DecodeInput, DecoderState, Hypotheses, Step

MERGE_FROM = 3  # candidates per hypothesis kept, when hypotheses of one set are merged


@dataclass(frozen=True, slots=True)
class Limits:
    """Parameters of a search."""

    width: int = 6
    min_labels: int = 0
    max_labels: int = 25
    renormalise: bool = True  # True: softmax(o_t + M_t), Eq. 4; False: softmax(o_t), Eq. 3
    br_power: float = 1.0  # alpha in P_path * P_br^alpha, for searches that combine the two; 1 is Eq. 16
    merge_sets: bool = False  # True: hypotheses with the same labels are merged, their probabilities added


@dataclass(frozen=True, slots=True)
class _Beam:
    """w hypotheses for each of the A inputs still searched. Its size does not depend on the number of labels."""

    sequences: Tensor  # (A, w, K) int64, filled with <eos> beyond the labels written so far
    scores: Tensor  # (A, w)
    log_probs: Tensor  # (A, w) log P_path so far
    ended: Tensor  # (A, w) bool

    def at(self, inputs: Tensor) -> _Beam:
        return _Beam(self.sequences[inputs], self.scores[inputs], self.log_probs[inputs], self.ended[inputs])


def search_beam(decode_input: DecodeInput, limits: Limits, bonus: Tensor | None = None) -> Hypotheses:
    """`beam_search` with the label decoder of a model."""
    assert decode_input.step is not None, "beam search needs a label decoder, and the model has none"
    assert decode_input.state is not None, "a label decoder needs a start state"
    return beam_search(decode_input.step, decode_input.state, decode_input.num_labels, limits, bonus)


def beam_search(step: Step, state: DecoderState, num_labels: int, limits: Limits, bonus: Tensor | None) -> Hypotheses:
    """The `width` best label sequences of every input.

    Every step keeps the best `width` among all continuations of the running hypotheses and the hypotheses that have
    ended. Width 1 is therefore greedy search, and a width of at least the number of sequences is exhaustive search.
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
    """Log-probability of every continuation (A, w, L + 1), -inf if it is not allowed."""
    eos = logits.shape[-1] - 1
    taken = beam.sequences[..., :t]  # (A, w, t): masked by M_t of Eq. 4; hypotheses that have ended are handled below
    if limits.renormalise:
        log_probs = logits.float().scatter(-1, taken, float("-inf")).log_softmax(dim=-1)
    else:
        log_probs = logits.float().log_softmax(dim=-1).scatter_(-1, taken, float("-inf"))
    # min_labels and max_labels come from the caller, not from the model: they mask actions without renormalising
    if t < limits.min_labels and t < max_labels:
        log_probs[..., eos] = float("-inf")
    if t == max_labels:
        log_probs[..., :eos] = float("-inf")
    # a hypothesis that has ended has one continuation: itself, at no cost
    log_probs.masked_fill_(beam.ended[..., None], float("-inf"))
    log_probs[..., eos].masked_fill_(beam.ended, 0.0)
    return log_probs


def _advance(
    beam: _Beam, log_probs: Tensor, bonus: Tensor | None, keys: Tensor | None, t: int, limits: Limits
) -> tuple[Tensor, Tensor, _Beam]:
    """The best continuations: their parents (A, w'), their labels (A, w') and the new beam."""
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


def _follow(sequences: Tensor, parents: Tensor) -> Tensor:
    """sequences (A, w, K), parents (A, w') with indices below w -> (A, w', K)."""
    return sequences.gather(1, parents[..., None].expand(-1, -1, sequences.shape[-1]))


def _label_keys(num_labels: int) -> Tensor:
    """(L + 1,) a random number for each label and one for <eos>; the seed is fixed."""
    generator = torch.Generator().manual_seed(num_labels)
    return torch.randint(-(2**62), 2**62, (num_labels + 1,), generator=generator)


def _set_keys(sequences: Tensor, ended: Tensor, keys: Tensor) -> Tensor:
    """One number for each hypothesis (A, w'): the sum of its labels' keys, which does not depend on their order.
    Two different sets have the same number with a probability of about 10^-18."""
    eos = len(keys) - 1
    return keys[sequences].masked_fill(sequences == eos, 0).sum(dim=-1) + ended * keys[eos]


def _merge(scores: Tensor, path: Tensor, sets: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Merges hypotheses (A, w') of the same set that have all ended or are all running, and keeps the best of each.

    An order-free model spreads the probability of a set over its permutations; their sum is the probability of the set.
    The search continues from the state of the most probable permutation. Returns scores, log-probabilities and the
    indices of the hypotheses kept, (A, W) each.
    """
    same = sets[..., None] == sets[:, None]  # (A, w', w')
    first = ~same.tril(diagonal=-1).any(dim=-1)  # (A, w'): candidates are sorted, the best first

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
    """Beams of inputs that left the search at different steps, restored to the order of the inputs."""
    width = max(beam.scores.shape[1] for _, beam in done)
    steps = done[0][1].sequences.shape[2]
    device = done[0][1].scores.device
    sequences = torch.full((inputs, width, steps), eos, device=device)
    scores = torch.full((inputs, width), float("-inf"), device=device)
    log_probs = scores.clone()
    for rows, beam in done:
        kept = beam.scores.shape[1]
        sequences[rows, :kept] = beam.sequences
        scores[rows, :kept] = beam.scores
        log_probs[rows, :kept] = beam.log_probs
    return Hypotheses(sequences, scores, log_probs)
