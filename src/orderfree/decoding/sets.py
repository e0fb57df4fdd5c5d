"""Sets of labels and their probabilities: one function for each definition.

    P_br(set)          set_log_prob_br    binary relevance: every label on its own (Eq. 13)
    P(set)             set_log_prob       label decoder: the sum over all orders of the set
    sets of a beam     merged_sets        label decoder: the sum over the orders in a beam, a lower bound of P(set)
    plain sets         plain_sets         distribution of the sets of a wide beam of the label decoder
    weighted sets      weighted_sets      the same, every set weighed with the odds of its labels under binary relevance

The probability of a label is its share of plain or of weighted sets (`label_shares`), or the sum of the probabilities
of the steps that may generate it (`step_marginals`). docs/how_to/decode.md says where each of them is used.
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
    """sequences (…, K) -> the sets they hold (…, L) bool."""
    present = torch.zeros(*sequences.shape[:-1], num_labels + 1, dtype=torch.bool, device=sequences.device)
    return present.scatter(-1, sequences, True)[..., :num_labels]


def set_log_prob_br(logits: Tensor, chosen: Tensor) -> Tensor:
    """log P_br of sets (Eq. 13): logits (…, L), chosen (…, L) bool -> (…)."""
    return torch.where(chosen, F.logsigmoid(logits), F.logsigmoid(-logits)).sum(dim=-1)


ORDERS = 120  # of five labels; of larger sets the most probable ones stand for all
WITHIN = 1e4  # larger than any log-probability: all labels of the set before <eos>


def set_log_prob(given: DecodeInput, sets: Tensor, limits: Limits) -> Tensor:
    """log P(set | x) of the label decoder (B,): the probabilities of all orders of the set, added up.

    sets (B, L) bool. Exact for up to five labels; beyond, a lower bound from the most probable orders."""
    sizes = sets.sum(dim=1)
    most = max(int(sizes.max()), 1) if len(sets) else 1
    bonus = torch.where(sets, WITHIN, float("-inf"))  # (B, L)
    allowed = replace(limits, width=ORDERS, min_labels=0, max_labels=min(most, given.num_labels), merge_sets=False)
    found = search_beam(given, allowed, bonus)
    whole = membership(found.sequences, given.num_labels).sum(dim=-1) == sizes[:, None]  # (B, W)
    whole &= found.scores > float("-inf")
    return found.log_probs.masked_fill(~whole, float("-inf")).logsumexp(dim=1)


def merged_sets(sequences: Iterable[list[int]], log_probs: Iterable[float], eos: int) -> list[tuple[list[int], float]]:
    """The sets among the hypotheses of one input, in the order of the beam. Permutations of a set become one: their
    probabilities are added up, and the first one gives the order of the labels."""
    merged: dict[frozenset[int], tuple[list[int], float]] = {}
    for sequence, log_prob in zip(sequences, log_probs, strict=True):
        if log_prob == float("-inf"):  # no such hypothesis
            continue
        labels = [label for label in sequence if label != eos]
        first, total = merged.get(frozenset(labels), (labels, float("-inf")))
        merged[frozenset(labels)] = (first, float(np.logaddexp(total, log_prob)))
    return list(merged.values())


WIDTH = 12  # hypotheses that stand for all sets, where more were not asked for


def plain_sets(given: DecodeInput, limits: Limits) -> tuple[Tensor, Tensor]:
    """Sets of the label decoder (B, W, L) bool and their probabilities (B, W), as far as a beam over sets finds them.

    The mass that the beam does not find is shared out in proportion. Exact for a wide beam over a model that does not
    mind the order of labels; else the continuations of a set are those of its most probable order."""
    return _set_distribution(given, limits, None)


def weighted_sets(given: DecodeInput, limits: Limits) -> tuple[Tensor, Tensor]:
    """As `plain_sets`, every set weighed with the odds of its labels under binary relevance to the power `br_power`
    (Eq. 16), before probabilities are normalised. Without a binary-relevance decoder these are the plain sets."""
    odds = given.br_logits
    return _set_distribution(given, limits, None if odds is None else limits.br_power * odds)


def _set_distribution(given: DecodeInput, limits: Limits, bonus: Tensor | None) -> tuple[Tensor, Tensor]:
    wide = replace(limits, width=max(limits.width, WIDTH), merge_sets=True)
    hypotheses = search_beam(given, wide, bonus)
    return membership(hypotheses.sequences, given.num_labels), hypotheses.scores.softmax(dim=1)


def label_shares(sets: Tensor, probs: Tensor) -> Tensor:
    """(B, L) the probability of the sets that hold each label: sets (B, W, L) bool, probs (B, W)."""
    return (probs[..., None] * sets).sum(dim=1)


ENDED = 1e-4  # an input that goes on with a smaller probability is left alone: no label can gain more


def step_marginals(given: DecodeInput, limits: Limits) -> Tensor:
    """P(label in the set | x) (B, L): the sum over steps of the probability that the step generates the label.

    A label is in the set if some step says it, and no step repeats one: P = Σ_t Σ_prefix P(prefix) p_t(label | prefix)
    over all prefixes. Here the `width` most probable prefixes of each length stand for all of that length: they are
    given the whole probability of not having ended before. Exact where the width is no smaller than the number of
    prefixes. Unlike shares of the sets a beam holds, no label is left at zero."""
    assert given.step is not None, "step marginals drive the label decoder, and the model has none"
    assert given.state is not None, "a label decoder starts from a state"
    state, eos = given.state, given.num_labels
    inputs, device = state.mask.shape[0], state.mask.device
    marginals = torch.zeros(inputs, eos, device=device)
    rows = torch.arange(inputs, device=device)  # (R,) the inputs that have not ended: all at first, then ever fewer
    taken = torch.zeros(inputs, 1, eos, dtype=torch.bool, device=device)  # (R, w, L)
    share = torch.ones(inputs, 1, device=device)  # (R, w) of each prefix among those kept
    running = torch.ones(inputs, 1, device=device)  # (R, 1) probability of not having ended yet
    previous = torch.full((inputs,), eos, device=device)  # (R * w,) the start symbol
    for t in range(min(limits.max_labels, eos)):
        width = share.shape[1]
        logits, state = given.step(previous, state)  # (R * w, L + 1)
        logits = logits.view(len(rows), width, -1).float()
        said = torch.cat([taken, torch.full_like(taken[..., :1], t < limits.min_labels)], dim=-1)  # (R, w, L + 1)
        probs = logits.masked_fill(said, float("-inf")).softmax(dim=-1)[..., :eos]  # (R, w, L)
        paths = share[..., None] * probs  # (R, w, L)
        marginals[rows] += running * paths.sum(dim=1)
        running = running * paths.sum(dim=(1, 2))[:, None]
        on = (running[:, 0] >= ENDED).nonzero()[:, 0]  # (R',)
        if not len(on):
            break
        rows, running, paths = rows[on], running[on], paths[on]
        kept, best = paths.flatten(1).topk(min(limits.width, width * (eos - t)), dim=1)  # (R', w')
        share = kept / kept.sum(dim=1, keepdim=True).clamp(min=1e-30)
        parents, previous = best // eos, (best % eos)  # (R', w')
        of_parents = (on[:, None] * width + parents).flatten()  # (R' * w',)
        state = state.select(of_parents, on if len(on) < len(taken) else None)
        taken = taken[on].gather(1, parents[..., None].expand(-1, -1, eos)).scatter(2, previous[..., None], True)
        previous = previous.flatten()
    return marginals.clamp(max=1.0)
