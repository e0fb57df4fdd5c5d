"""Weights on disk, as safetensors files: nothing in them runs, and a header that does not fit is refused before memory
is taken for what it promises."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from .files import writing_aside

Network = TypeVar("Network", bound=torch.nn.Module)


class Misfit(ValueError):
    """A weights file that does not belong to the network it is said to be of."""


def write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """A safetensors file that appears only when complete."""
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing_aside(path) as aside:
        save_tensors(flat, aside)


def save_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """safetensors' own `save_file`; what the disk refuses is raised as the OSError it is."""
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        if (code := re.search(r"os error (\d+)", str(error))) is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error


def with_weights(build: Callable[[], Network], path: Path) -> Network:
    """The network that `build` makes, with the weights of this file.

    It is first built on the meta device, where tensors have shapes and no memory: a config that asks for a terabyte
    does not get further than that, unless it comes with a terabyte of weights."""
    try:
        with safe_open(path, "pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118  no mapping
        with torch.device("meta"):
            expected = {name: tuple(values.shape) for name, values in build().state_dict().items()}
        wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        if wrong:
            raise Misfit(f"was made for other labels or another config ({wrong[0]} does not fit)")
        weights = load_file(path)
        if strange := next((n for n, w in weights.items() if w.is_floating_point() and not w.isfinite().all()), None):
            raise Misfit(f"holds weights that are not finite ({strange})")
        network = build()
        network.load_state_dict(weights)
    except (SafetensorError, OSError) as error:
        raise Misfit(f"cannot be read ({error})") from None
    return network
