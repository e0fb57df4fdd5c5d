"""A model with random weights, small enough to look at all its sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from orderfree.build import build_network, complete_config, encoder_options, featurizer_class, input_kind
from orderfree.checkpoint import TrainedModel
from orderfree.data.labels import LabelVocabulary
from orderfree.testing.contracts import example_inputs
from orderfree.types import Example

WORDS = ("red", "fish", "blue", "pond", "big", "swim")

SIZES: dict[str, dict[str, Any]] = {
    "sparse": {"hidden": 8},
    "bilstm": {"hidden": 4, "embedding": 6, "layers": 1},
    "linear": {"leads": [2]},
    "hybrid": {"parts": {"linear": {}, "bilstm": {"hidden": 4, "embedding": 6, "layers": 1}}, "hidden": 8},
    "dense": {},
    "transformer": {},
}


def made_model(
    seed: int,
    sequence: str | None = "ocd",
    encoder: str = "sparse",
    labels: tuple[str, ...] = ("a", "b", "c", "d"),
    **changes: Any,
) -> TrainedModel:
    """`changes`: settings of `model`."""
    sizes = {"label_embedding": 5, "decoder_hidden": 6, "br_hidden": 7}
    raw = {
        "model": {"encoder": encoder, "encoder_options": SIZES[encoder], **sizes, **changes},
        "objective": {"sequence": sequence},
    }
    config = complete_config(raw, "a test")
    torch.manual_seed(seed)
    featurizer = featurizer_class(config).fit(example_inputs(input_kind(config)), config.data, encoder_options(config))
    known = LabelVocabulary.count([labels, labels[:2], labels[:1], ()], "a test")
    network = build_network(config, featurizer.input_size, len(known))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    return TrainedModel(config, known, featurizer, network)


def labelled_texts(count: int, seed: int) -> list[Example]:
    """Random texts with random labels of `made_model`."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(1, 9))) for _ in range(count)]
    kinds = [tuple(name for name in "abcd" if rng.random() < 0.4) for _ in texts]
    return [Example(str(n), text=text, labels=kind) for n, (text, kind) in enumerate(zip(texts, kinds, strict=True))]
