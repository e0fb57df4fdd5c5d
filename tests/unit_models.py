"""A model with random weights, small enough to look at all its sets."""

from __future__ import annotations

import torch

from orderfree.build import build_network, complete_config, encoder_options, featurizer_class
from orderfree.checkpoint import TrainedModel
from orderfree.data.labels import LabelVocabulary
from orderfree.testing.contracts import example_inputs


def made_model(seed: int, sequence: str | None = "ocd") -> TrainedModel:
    raw = {
        "model": {"label_embedding": 5, "decoder_hidden": 6, "br_hidden": 7, "encoder_options": {"hidden": 8}},
        "objective": {"sequence": sequence},
    }
    config = complete_config(raw, "a test")
    torch.manual_seed(seed)
    featurizer = featurizer_class(config).fit(example_inputs("bag"), config.data, encoder_options(config))
    labels = LabelVocabulary.count([("a", "b", "c", "d"), ("a", "b"), ("a",), ()], "a test")
    network = build_network(config, featurizer.input_size, len(labels))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    return TrainedModel(config, labels, featurizer, network)
