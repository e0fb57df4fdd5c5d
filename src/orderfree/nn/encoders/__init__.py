"""Encoders: what turns an input into the states both decoders read. Add one by registering a class here.

An encoder is a module with
    Options          its settings, a config Section
    input_kind       what it is fed: a name from `data/featurizers`; Options may have a property of this name instead
    __init__(options, input_size, dropout, num_labels)    input_size: vocabulary size, or features per frame
    output_size      H
    forward(inputs) -> EncoderOutput
and, where it is so,
    scores_labels = True         its EncoderOutput has `scores`; Options may have a property of this name instead
    br_decoder = "output"        the binary-relevance decoder where the config names none; by default `mlp`
    normalises_batches = True    a batch of one example cannot train it
One that is solved before training instead of descended to has besides
    solve(features, targets, seed, out_of_fold, weights) -> (N, L) scores to train the decoders on, see `linear`
and one that begins with weights made elsewhere
    load_pretrained()    called before the first update, see `transformer`
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from ...config import Section
from ...registry import Registry
from ...types import EncoderOutput


class Encoder(Protocol):
    Options: ClassVar[type[Section]]
    input_kind: ClassVar[str]
    output_size: int

    def __call__(self, inputs: Any) -> EncoderOutput: ...


encoders: Registry[type] = Registry("encoder")

from . import audio, bilstm, dense, hybrid, linear, sparse, transformer  # noqa: E402, F401  (each registers itself)
