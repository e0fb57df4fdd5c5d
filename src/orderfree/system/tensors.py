"""Weights on disk, as safetensors files: they contain no code, and a header that does not fit is refused before memory
is allocated for it."""

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
    """A weights file that does not fit its network."""


def write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """A safetensors file that appears only when complete."""
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing_aside(path) as aside:
        save_tensors(flat, aside)


def save_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """safetensors' `save_file`; an error of the file system is raised as an OSError."""
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        if (code := re.search(r"os error (\d+)", str(error))) is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error


def with_weights(build: Callable[[], Network], path: Path) -> Network:
    """The network that `build` returns, with the weights of this file.

    It is first built on the meta device, where tensors have shapes but no memory: a config that needs a terabyte is
    refused there, unless the file holds a terabyte of weights."""
    try:
        with safe_open(path, "pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118  no mapping
        with torch.device("meta"):
            expected = {name: tuple(values.shape) for name, values in build().state_dict().items()}
        wrong = sorted(name for name in expected.keys() | shapes.keys() if expected.get(name) != shapes.get(name))
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
