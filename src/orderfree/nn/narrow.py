"""A label decoder restricted to a sample of the labels, for one batch of training (sampled softmax)."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..types import Candidates
from .label_decoder import LabelDecoder


def narrowed(decoder: LabelDecoder, candidates: Candidates) -> LabelDecoder:
    """The same decoder over C of its L labels, numbered 0 … C - 1, and <eos>. It shares the decoder's weights:
    its gradient is the decoder's gradient, on the rows of the remaining labels."""
    end = torch.tensor([decoder.num_labels], device=candidates.labels.device)  # start symbol and <eos>
    rows = torch.cat([candidates.labels, end])  # (C + 1,)
    view = copy.copy(decoder)
    view._modules = dict(decoder._modules)  # a shallow copy would share this dictionary
    view.num_labels = len(candidates.labels)
    view._modules["embed"] = _SomeRows(decoder.embed, rows)
    view._modules["output"] = _SomeOutputs(decoder.output, rows, F.pad(candidates.stands_for.log(), (0, 1)))
    return view


class _SomeRows(nn.Module):
    def __init__(self, embed: nn.Embedding, rows: Tensor) -> None:
        super().__init__()
        self.embed, self.rows = embed, rows

    def forward(self, ids: Tensor) -> Tensor:
        return self.embed(self.rows[ids])


class _SomeOutputs(nn.Module):
    """A label that stands for n others counts n times in the softmax: log n is added to its logit."""

    def __init__(self, output: nn.Linear, rows: Tensor, log_count: Tensor) -> None:
        super().__init__()
        self.weight = output.weight.index_select(0, rows)  # (C + 1, D)
        self.bias = output.bias.index_select(0, rows) + log_count  # (C + 1,)

    def forward(self, combined: Tensor) -> Tensor:
        return F.linear(combined, self.weight, self.bias)
