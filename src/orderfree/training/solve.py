"""What an encoder needs before the first update: to be solved at once, or its pretrained weights."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from ..data.corpus import Corpus
from ..files import damage, write_checksums, writing_directory
from ..nn.br_decoder import Calibration
from ..nn.model import OrderFreeModel

SOLVED = "solved"  # a folder of the cache


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
    folder = cache / SOLVED
    path = folder / "linear.safetensors"
    if folder.exists() and damage(folder) is not None:
        say(f"{folder}: is damaged; solving again")
        shutil.rmtree(folder)
    if not folder.exists():
        say(f"solving {network.num_labels:,} linear classifiers")
        descends = any(weights.requires_grad for weights in network.parameters())  # only then are scores trained on
        scores = encoder.solve(train.bag_matrix(encoder.terms.shape[0]), train.targets(), seed, out_of_fold=descends)
        kept = {f"encoder.{name}": values.numpy() for name, values in encoder.state_dict().items()}
        with writing_directory(folder) as aside:
            content = {**kept, **({} if scores is None else {"scores": scores}), "c": np.array(encoder.c)}
            save_file(content, aside / path.name)
            write_checksums(aside)
    content = load_file(path)
    encoder.c = float(content.pop("c", encoder.c or 0))
    say(f"solved with C = {encoder.c:g}")
    train.scores = content.pop("scores", None)
    if train.scores is not None:
        scores, targets = torch.from_numpy(train.scores), torch.from_numpy(train.targets())
        for module in network.modules():
            if isinstance(module, Calibration):
                module.fit(scores, targets)
    encoder.load_state_dict(
        {name.removeprefix("encoder."): torch.from_numpy(np.array(v)) for name, v in content.items()}
    )
