"""Which labels a batch is trained on, where there are too many to train on all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from ..types import Candidates


def draw_candidates(targets: Tensor, others: int) -> Candidates | None:
    """Every target of the batch and `others` labels besides, drawn at random; None where that would be all labels.

    targets (B, L) bool. A label drawn for (L - P) / others, P of them being targets, stands for as many: the sum of the
    softmax is right on average, and so is the chance that a sampled sequence leaves the targets (Jean et al., 2015).
    """
    wanted = targets.any(dim=0)  # (L,)
    absent = (~wanted).nonzero()[:, 0]  # (L - P,)
    if len(absent) <= others:
        return None
    drawn = absent[torch.randperm(len(absent), device=absent.device)[:others]]  # (others,)
    labels = torch.cat([wanted.nonzero()[:, 0], drawn]).sort().values  # (C,)
    stands_for = torch.where(wanted[labels], 1.0, len(absent) / others)  # (C,)
    return Candidates(labels, stands_for)
