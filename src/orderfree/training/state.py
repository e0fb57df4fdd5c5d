"""The state of a run, saved so that a killed run can be resumed exactly.

    training/run.json            the request: config, files and their fingerprints, number of threads
    training/data/*.arrow        encoded corpora, written again by every process
    training/data/solved/        solved encoders
    training/state-<update>/     weights, optimiser, random state, progress, best weights so far, checksums

A state directory appears whole or not at all (written aside, synced, renamed). The newest two are kept: if the last one
is damaged on disk, the run continues from the one before it, with the same result.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file
from torch import Tensor

from ..errors import ModelDirectoryError
from ..system.files import damage, write_checksums, writing_directory
from ..system.tensors import save_tensors
from .distributed.sharding import placed, whole

KEPT = 2  # states


@dataclass
class Progress:
    """The position of a run. A new run starts at zero."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    update: int = 0
    best_score: float | None = None
    best_update: int = 0
    worse_validations: int = 0  # since the best one
    loss_sums: dict[str, float] = field(default_factory=dict)  # since the last validation
    loss_count: int = 0
    finished: bool = False
    pieces: int = 1  # a batch is computed in so many, if memory does not suffice for all of it


Snapshot = dict[str, dict[str, Tensor]]  # file name -> its tensors


def snapshot(network: torch.nn.Module, optimizer: Any, best: dict[str, Tensor] | None) -> Snapshot:
    """The tensors to be saved, whole; if processes hold shards of the encoder, all of them must call this."""
    files = {
        "weights": on_host(network.state_dict()),
        "optimizer": on_host(_named_moments(network, optimizer)),
        "random": _random_state(),
    }
    return files if best is None else files | {"best": best}


def save_state(directory: Path, progress: Progress, files: Snapshot) -> None:
    before = _states(directory)
    target = directory / f"state-{progress.update:09d}"
    with writing_directory(target) as aside:
        for name, tensors in files.items():
            save_tensors(tensors, aside / f"{name}.safetensors")
        (aside / "progress.json").write_text(json.dumps(asdict(progress)), encoding="utf-8")
        write_checksums(aside)
    for state in before[: 1 - KEPT]:
        shutil.rmtree(state)


Resumed = tuple[Progress, dict[str, Tensor] | None]


def load_state(
    directory: Path, network: torch.nn.Module, optimizer: Any, say: Callable[[str], None] = lambda _: None
) -> Resumed | None:
    """Loads the newest undamaged state into network, optimiser and random generator; None if none has been saved."""
    damaged: list[tuple[Path, str]] = []
    for state in reversed(_states(directory)):
        wrong = damage(state)
        if wrong is None:
            for other, file in damaged:
                say(f"{other}: is damaged ({file}); continuing from {state.name} instead")
                shutil.rmtree(other)
            return _load(state, network, optimizer)
        damaged.append((state, wrong))
    if damaged:
        newest, wrong = damaged[0]
        raise ModelDirectoryError(
            f"{newest}: this saved state is damaged ({wrong}), and there is no other; start again with --overwrite."
        )
    return None


def _load(state: Path, network: torch.nn.Module, optimizer: Any) -> Resumed:
    try:
        progress = Progress(**json.loads((state / "progress.json").read_text(encoding="utf-8")))
        saved, current = load_file(state / "weights.safetensors"), network.state_dict()
        network.load_state_dict({name: placed(value, current.get(name)) for name, value in saved.items()})
        _load_optimizer(network, optimizer, load_file(state / "optimizer.safetensors"))
        random_states = load_file(state / "random.safetensors")
        best_file = state / "best.safetensors"
        best = load_file(best_file) if best_file.exists() else None
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, safetensors.SafetensorError) as error:
        raise ModelDirectoryError(
            f"{state}: does not fit this version or config ({error}); start again with --overwrite."
        ) from None
    torch.set_rng_state(random_states["torch"])
    if "cuda" in random_states and torch.cuda.is_available():
        torch.cuda.set_rng_state(random_states["cuda"])
    return progress, best


def _states(directory: Path) -> list[Path]:
    """Complete states, oldest first."""
    return sorted(path for path in directory.glob("state-*") if path.is_dir())


def _random_state() -> dict[str, Tensor]:
    states = {"torch": torch.get_rng_state()}
    return states | {"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else states


def on_host(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: whole(tensor.detach()).cpu().clone().contiguous() for name, tensor in tensors.items()}


def _named_moments(network: torch.nn.Module, optimizer: Any) -> dict[str, Tensor]:
    """Adam's moments and step counts, named after their parameter."""
    names = [name for name, _ in network.named_parameters()]
    state = optimizer.state_dict()["state"]
    return {f"{names[index]}|{key}": value for index, entries in state.items() for key, value in entries.items()}


def _load_optimizer(network: torch.nn.Module, optimizer: Any, tensors: dict[str, Tensor]) -> None:
    parameters = {name: (index, weights) for index, (name, weights) in enumerate(network.named_parameters())}
    content = optimizer.state_dict()
    content["state"] = {}
    for key, value in tensors.items():
        name, entry = key.rsplit("|", 1)
        index, weights = parameters[name]
        moments = value if value.dim() == 0 else placed(value, weights)  # a count of steps is not sharded
        content["state"].setdefault(index, {})[entry] = moments
    optimizer.load_state_dict(content)
