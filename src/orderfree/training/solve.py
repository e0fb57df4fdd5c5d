"""What an encoder needs before the first update: to be solved at once, or its pretrained weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from ..data.corpus import Corpus
from ..files import writing_aside
from ..nn.br_decoder import Calibration
from ..nn.model import OrderFreeModel

SOLVED = "linear.safetensors"


def start_encoder(network: OrderFreeModel, train: Corpus, cache: Path, seed: int, say: Callable[[str], None]) -> None:
    """Loads pretrained weights, where there are any. Solves the encoder, where it is one that is solved, and gives the
    corpus the scores to train decoders on; a resumed run finds both in its cache."""
    parts: list[Any] = list(network.encoder.modules())
    for part in parts:
        if hasattr(part, "load_pretrained"):
            part.load_pretrained()
    encoder = next((part for part in parts if hasattr(part, "solve")), None)
    if encoder is None:
        return
    path = cache / SOLVED
    if not path.exists():
        say(f"solving {network.num_labels:,} linear classifiers")
        descends = any(weights.requires_grad for weights in network.parameters())  # only then are scores trained on
        bags = train.bag_matrix(encoder.terms.shape[0])
        scores = encoder.solve(bags, train.targets(), seed, out_of_fold=descends, weights=train.weights)
        kept = {f"encoder.{name}": values.numpy() for name, values in encoder.state_dict().items()}
        with writing_aside(path) as aside:
            save_file({**kept, **({} if scores is None else {"scores": scores}), "c": np.array(encoder.c)}, aside)
    content = load_file(path)
    encoder.c = float(content.pop("c", encoder.c or 0))
    say(f"solved with C = {encoder.c:g}")
    train.scores = content.pop("scores", None)
    if train.scores is not None:
        scores, targets = torch.from_numpy(train.scores), torch.from_numpy(train.targets())
        counted = None if train.weights is None else torch.from_numpy(train.weights)[:, None]
        for module in network.modules():
            if isinstance(module, Calibration):
                module.fit(scores, targets, counted)
    encoder.load_state_dict(
        {name.removeprefix("encoder."): torch.from_numpy(np.array(v)) for name, v in content.items()}
    )
