"""The probability of every label under the label decoder: what ranks labels where a sequence only names a few."""

from __future__ import annotations

import torch
from torch import Tensor

from ..types import DecodeInput
from .beam import Limits

ENDED = 1e-4  # an input that goes on with a smaller probability is left alone: no label can gain more


def label_marginals(given: DecodeInput, limits: Limits) -> Tensor:
    """P(label in the set | x) (B, L), for all labels at once.

    A label is in the set if some step says it, and no step repeats one: P = Σ_t Σ_prefix P(prefix) p_t(label | prefix)
    over all prefixes. Here the `width` most probable prefixes of each length stand for all of that length: they are
    given the whole probability of not having ended before. Exact where the width is no smaller than the number of
    prefixes. Unlike shares of the sets a beam holds, no label is left at zero."""
    assert given.step is not None, "marginals drive the label decoder, and the model has none"
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
