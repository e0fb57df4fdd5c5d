"""Encoders: they turn an input into the states that both decoders read. Add one by registering a class here.

An encoder is a module with
    Options          its settings, a config Section
    input_kind       kind of its input: a name from `data/featurizers`; or a property of this name in Options
    __init__(options, input_size, dropout, num_labels)    input_size: vocabulary size, or features per frame
    output_size      H
    forward(inputs) -> EncoderOutput
and optionally
    scores_labels = True         its EncoderOutput has `scores`; or a property of this name in Options
    br_decoder = "output"        the binary-relevance decoder if the config names none; by default `mlp`
    normalises_batches = True    it cannot be trained on a batch of one example
An encoder that is solved before training, not trained by gradient descent, also has
    solve(features, targets, seed, out_of_fold, weights) -> (N, L) scores to train the decoders on, see `linear`
and an encoder that starts from pretrained weights
    load_pretrained()    called before the first update, see `transformer`
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from ...config import Section
from ...system.registry import Registry
from ...types import EncoderOutput


class Encoder(Protocol):
    Options: ClassVar[type[Section]]
    input_kind: ClassVar[str]
    output_size: int

    def __call__(self, inputs: Any) -> EncoderOutput: ...


encoders: Registry[type] = Registry("encoder")

from . import audio, bilstm, dense, hybrid, linear, sparse, transformer  # noqa: E402, F401  (each registers itself)
