"""Starting from an earlier model, whose labels are among the new ones: its rows are kept, new labels get new rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch import Tensor, nn

from ..build import complete_config
from ..checkpoint import TrainedModel, check_directory
from ..config import Config
from ..errors import ConfigError, OrderfreeError
from ..nn.br_decoder import Calibration
from ..nn.encoders.linear import LinearEncoder
from ..nn.graphs import ENCODER
from ..nn.model import OrderFreeModel
from ..system.listed import MANIFEST
from ..system.raw_config import apply_setting

WARM = "warm"  # a copy of the earlier model in the training state: a resumed run needs nothing else
# what the earlier model has learned with, besides everything under `model`
FIXED = {f"data.{key}" for key in ("max_words", "vocabulary_size", "min_count", "lowercase")}


def warm_config(earlier: Config, settings: list[str]) -> Config:
    """The config of the earlier model with settings over it that change none of its weights' shapes."""
    raw = earlier.model_dump()
    raw["data"]["format"] = "auto"  # that of the earlier training file says nothing about this one
    for setting in settings:
        key = setting.partition("=")[0].strip()
        if key in FIXED or (key.startswith("model.") and key != "model.dropout"):
            raise ConfigError(f"--set {setting!r}: with --warm-start, this is what the earlier model has.")
        apply_setting(raw, setting)
    config = complete_config(raw, "the configuration")
    for part in ("sequence", "br_weight"):
        before, now = (bool(getattr(one.objective, part)) for one in (earlier, config))
        if before != now:
            raise ConfigError(f"objective.{part}: with --warm-start, the model keeps the decoders it has.")
    return config


def copy_model(directory: Path, target: Path) -> None:
    """All that `load_model` reads."""
    files = check_directory(directory)
    if ENCODER in files:
        raise OrderfreeError(f"{directory}: is an exported model, which cannot be trained; start from the run itself.")
    target.mkdir()
    for name in (*files.names, MANIFEST):
        shutil.copyfile(directory / name, target / name)


def adopt_weights(network: OrderFreeModel, earlier: TrainedModel) -> None:
    """Puts the weights of the earlier model into a new network, whose vocabulary begins with its labels.

    What was just solved or fitted on the new data (linear classifiers, their calibration) stays as it is."""
    before, after = len(earlier.labels), network.num_labels
    fresh, old = _fresh(network), earlier.network.state_dict()
    with torch.no_grad():
        for name, weights in network.state_dict().items():
            if name in fresh:
                continue
            sizes = zip(old[name].shape, weights.shape, strict=True)
            places = [_kept(name, was, now, before, after) for was, now in sizes]
            if places:
                weights[torch.meshgrid(*places, indexing="ij")] = old[name]
            else:  # a single number, as batch normalisation counts
                weights.copy_(old[name])


def _kept(name: str, was: int, now: int, before: int, after: int) -> Tensor:
    """Where along an axis of a weight the entries of the earlier model go. From 3 labels to 5, of an axis of

    labels                        0 1 2
    labels and <eos>, or start    0 1 2 and 5
    twice the labels              0 1 2 and 5 6 7    (an encoder whose states are label scores, read twice)
    labels, then 2 others         0 1 2 and 5 6      (`combine` reads context, then hidden state)
    2 others, then labels         0 1 2 3 4
    """
    first = torch.arange(before)
    if was == now:
        return torch.arange(was)
    if (was, now) == (before, after):
        return first
    if (was, now) == (before + 1, after + 1):
        return torch.cat([first, torch.tensor([after])])
    if (was, now) == (2 * before, 2 * after):
        return torch.cat([first, after + first])
    if now - was != after - before:
        raise OrderfreeError(f"the earlier model has {name} of another size; train without --warm-start.")
    return torch.cat([first, torch.arange(after, now)]) if name.endswith("combine.weight") else torch.arange(was)


def _fresh(network: nn.Module) -> set[str]:
    names: set[str] = set()
    for prefix, module in network.named_modules():
        if isinstance(module, LinearEncoder | Calibration):
            names |= {f"{prefix}.{name}" for name in module.state_dict()}
    return names
