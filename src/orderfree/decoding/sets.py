"""Sets of labels and their probabilities: one function for each definition.

    P_br(set)          set_log_prob_br    binary relevance: the product over labels (Eq. 13)
    P(set)             set_log_prob       label decoder: the sum over all orders of the set
    sets of a beam     merged_sets        label decoder: the sum over the orders in a beam, a lower bound of P(set)
    plain sets         plain_sets         distribution over the sets of a wide beam of the label decoder
    weighted sets      weighted_sets      the same, each set weighted by the odds of its labels under binary relevance

The probability of a label is its share of plain or of weighted sets (`label_shares`), or the sum of the
probabilities of the steps that may generate it (`step_marginals`). docs/how_to/decode.md says where each is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..types import DecodeInput
from .beam import Limits, search_beam


def membership(sequences: Tensor, num_labels: int) -> Tensor:
    """sequences (…, K) -> their sets of labels (…, L) bool."""
    present = torch.zeros(*sequences.shape[:-1], num_labels + 1, dtype=torch.bool, device=sequences.device)
    return present.scatter(-1, sequences, True)[..., :num_labels]


def set_log_prob_br(logits: Tensor, chosen: Tensor) -> Tensor:
    """log P_br of sets (Eq. 13): logits (…, L), chosen (…, L) bool -> (…)."""
    return torch.where(chosen, F.logsigmoid(logits), F.logsigmoid(-logits)).sum(dim=-1)


ORDERS = 120  # all orders of five labels; of a larger set, only the most probable orders
WITHIN = 1e4  # larger than any log-probability: every label of the set is generated before <eos>


def set_log_prob(decode_input: DecodeInput, sets: Tensor, limits: Limits) -> Tensor:
    """log P(set | x) of the label decoder (B,): the sum of the probabilities of all orders of the set.

    sets (B, L) bool. Exact for up to five labels; for larger sets a lower bound from the most probable orders."""
    sizes = sets.sum(dim=1)
    most = max(int(sizes.max()), 1) if len(sets) else 1
    bonus = torch.where(sets, WITHIN, float("-inf"))  # (B, L)
    allowed = replace(
        limits, width=ORDERS, min_labels=0, max_labels=min(most, decode_input.num_labels), merge_sets=False
    )
    hypotheses = search_beam(decode_input, allowed, bonus)
    whole = membership(hypotheses.sequences, decode_input.num_labels).sum(dim=-1) == sizes[:, None]  # (B, W)
    whole &= hypotheses.scores > float("-inf")
    return hypotheses.log_probs.masked_fill(~whole, float("-inf")).logsumexp(dim=1)


def merged_sets(sequences: Iterable[list[int]], log_probs: Iterable[float], eos: int) -> list[tuple[list[int], float]]:
    """The sets of the hypotheses of one input, in the order of the beam. Permutations of a set are merged: their
    probabilities are added, and the first permutation gives the order of the labels."""
    merged: dict[frozenset[int], tuple[list[int], float]] = {}
    for sequence, log_prob in zip(sequences, log_probs, strict=True):
        if log_prob == float("-inf"):  # no such hypothesis
            continue
        labels = [label for label in sequence if label != eos]
        first, total = merged.get(frozenset(labels), (labels, float("-inf")))
        merged[frozenset(labels)] = (first, float(np.logaddexp(total, log_prob)))
    return list(merged.values())


WIDTH = 12  # hypotheses that approximate the distribution over sets, unless the beam is wider


def plain_sets(decode_input: DecodeInput, limits: Limits) -> tuple[Tensor, Tensor]:
    """Sets of the label decoder (B, W, L) bool and their probabilities (B, W), as found by a beam over sets.

    Probabilities are normalised over the sets in the beam. They are exact for a wide beam and a model for which the
    order of labels makes no difference; otherwise only the most probable order of a set is continued."""
    return _set_distribution(decode_input, limits, None)


def weighted_sets(decode_input: DecodeInput, limits: Limits) -> tuple[Tensor, Tensor]:
    """As `plain_sets`, but each set is weighted by the odds of its labels under binary relevance to the power
    `br_power` (Eq. 16) before normalisation. Without a binary-relevance decoder these are the plain sets."""
    odds = decode_input.br_logits
    return _set_distribution(decode_input, limits, None if odds is None else limits.br_power * odds)


def _set_distribution(decode_input: DecodeInput, limits: Limits, bonus: Tensor | None) -> tuple[Tensor, Tensor]:
    wide = replace(limits, width=max(limits.width, WIDTH), merge_sets=True)
    hypotheses = search_beam(decode_input, wide, bonus)
    return membership(hypotheses.sequences, decode_input.num_labels), hypotheses.scores.softmax(dim=1)


def label_shares(sets: Tensor, probs: Tensor) -> Tensor:
    """(B, L) the total probability of the sets that contain each label: sets (B, W, L) bool, probs (B, W)."""
    return (probs[..., None] * sets).sum(dim=1)


ENDED = 1e-4  # an input that continues with a smaller probability is dropped: no label could gain more


def step_marginals(decode_input: DecodeInput, limits: Limits) -> Tensor:
    """P(label in the set | x) (B, L): the sum over steps of the probability that the step generates the label.

    A label is in the set if some step generates it, and no step repeats a label. Therefore
    P = Σ_t Σ_prefix P(prefix) p_t(label | prefix) over all prefixes. Here the `width` most probable prefixes of each
    length stand for all prefixes of that length and share the probability that the sequence has not ended. Exact if
    the width is at least the number of prefixes. Unlike its share of the sets in a beam, no label's value is zero."""
    assert decode_input.step is not None, "step marginals need a label decoder, and the model has none"
    assert decode_input.state is not None, "a label decoder needs a start state"
    state, eos = decode_input.state, decode_input.num_labels
    inputs, device = state.mask.shape[0], state.mask.device
    marginals = torch.zeros(inputs, eos, device=device)
    rows = torch.arange(inputs, device=device)  # (R,) the inputs that have not ended; at first all of them
    taken = torch.zeros(inputs, 1, eos, dtype=torch.bool, device=device)  # (R, w, L)
    share = torch.ones(inputs, 1, device=device)  # (R, w) probability of each prefix among those kept
    running = torch.ones(inputs, 1, device=device)  # (R, 1) probability of not having ended yet
    previous = torch.full((inputs,), eos, device=device)  # (R * w,) the start symbol
    for t in range(min(limits.max_labels, eos)):
        width = share.shape[1]
        logits, state = decode_input.step(previous, state)  # (R * w, L + 1)
        logits = logits.view(len(rows), width, -1).float()
        masked = torch.cat([taken, torch.full_like(taken[..., :1], t < limits.min_labels)], dim=-1)  # (R, w, L + 1)
        probs = logits.masked_fill(masked, float("-inf")).softmax(dim=-1)[..., :eos]  # (R, w, L)
        paths = share[..., None] * probs  # (R, w, L)
        marginals[rows] += running * paths.sum(dim=1)
        running = running * paths.sum(dim=(1, 2))[:, None]
        alive = (running[:, 0] >= ENDED).nonzero()[:, 0]  # (R',)
        if not len(alive):
            break
        rows, running, paths = rows[alive], running[alive], paths[alive]
        kept, best = paths.flatten(1).topk(min(limits.width, width * (eos - t)), dim=1)  # (R', w')
        share = kept / kept.sum(dim=1, keepdim=True).clamp(min=1e-30)
        parents, previous = best // eos, (best % eos)  # (R', w')
        of_parents = (alive[:, None] * width + parents).flatten()  # (R' * w',)
        state = state.select(of_parents, alive if len(alive) < len(taken) else None)
        taken = taken[alive].gather(1, parents[..., None].expand(-1, -1, eos)).scatter(2, previous[..., None], True)
        previous = previous.flatten()
    return marginals.clamp(max=1.0)
