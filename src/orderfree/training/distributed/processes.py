"""Several processes that train one model: `torchrun --nproc_per_node 2 -m orderfree train …`, or `accelerate launch`.

Every process holds all weights, or a part of the encoder's (sharding.py), and takes its own rows of every batch. What
they found is added up: the gradient is that of the whole batch, as with one process, whatever each of them unrolled and
for how many steps. (DDP averages the means of processes, and waits for parameters that one of them may not have used.)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from ...errors import OrderfreeError, TrainingError, out_of_memory
from .sharding import is_part

# Processes wait for one another while the first one solves or saves; one that has died is noticed by torchrun.
PATIENCE = timedelta(days=7)


@dataclass(frozen=True)
class Team:
    rank: int = 0
    size: int = 1
    shards: bool = False  # each keeps a part of the encoder: sharding.py

    @classmethod
    def join(cls) -> Team:
        """The processes that torchrun or accelerate has started; this one alone where it was started by neither."""
        processes = os.environ.get("WORLD_SIZE", "1")
        if processes == "1":
            return cls()
        if _asked_for("ACCELERATE_USE_DEEPSPEED"):
            raise OrderfreeError(
                "the accelerate config asks for DeepSpeed; choose FSDP, which shares out the encoder as well, "
                "or plain multi-CPU or multi-GPU."
            )
        if not dist.is_initialized():
            known = all(name in os.environ for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"))
            if not known or not processes.isdecimal():
                raise OrderfreeError(
                    f"WORLD_SIZE is {processes!r} in the environment, and torchrun has not set it; start several "
                    "processes with torchrun, or unset it."
                )
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)
        return cls(dist.get_rank(), dist.get_world_size(), _asked_for("ACCELERATE_USE_FSDP"))

    @property
    def leads(self) -> bool:
        """Whether this process writes, locks and speaks for all."""
        return self.rank == 0

    def wait(self) -> None:
        """Until all have come here."""
        if self.size > 1:
            with _together():
                dist.barrier()

    def share_of(self, rows: np.ndarray) -> tuple[np.ndarray, float]:
        """This process's rows of a batch, and how much of the batch's mean their mean is. Where there would be no two
        for each, all take all of them: a batch of one has no spread to normalise by."""
        if len(rows) < 2 * self.size:
            return rows, 1 / self.size
        own = rows[self.rank :: self.size]
        return own, len(own) / len(rows)

    def seed(self, seed: int, update: int) -> None:
        """Labels and dropout of each process at each update are drawn anew, so that a run can go on with another number
        of processes. One alone goes on with the generator it has."""
        if self.size > 1:
            drawn = np.random.SeedSequence((seed, update, self.rank)).generate_state(1, np.uint64)[0]
            torch.manual_seed(int(drawn))

    def added(self, values: Tensor) -> Tensor:
        """The sum over all processes; of truths, whether any of them says so."""
        if self.size == 1:
            return values
        summed = values.to(torch.uint8) if values.dtype == torch.bool else values.clone()
        with _together():
            dist.all_reduce(summed)
        return summed.to(values.dtype)

    def add_gradients(self, parameters: Iterable[nn.Parameter], others: list[float]) -> list[float]:
        """Puts the sum of all processes' gradients into every one; returns the sums of other numbers.

        A parameter that none of them used stays without a gradient; parts of one were added up on the way back."""
        if self.size == 1:
            return others
        trained = [weights for weights in parameters if weights.requires_grad and not is_part(weights)]
        used = [float(weights.grad is not None) for weights in trained]
        grads = [(torch.zeros_like(w) if w.grad is None else w.grad).flatten() for w in trained]
        counts = self.added(torch.tensor([*used, *others], dtype=torch.float64))
        flat = self.added(torch.cat(grads)) if grads else torch.empty(0)
        start = 0
        for weights, users in zip(trained, counts.tolist(), strict=False):
            weights.grad = flat[start : start + weights.numel()].view_as(weights) if users else None
            start += weights.numel()
        return counts[len(trained) :].tolist()

    def average_statistics(self, network: nn.Module) -> None:
        """What batch normalisation has seen: each process has seen its own rows."""
        for module in network.modules() if self.size > 1 else ():
            if isinstance(module, nn.BatchNorm1d):
                for seen in (module.running_mean, module.running_var):
                    assert seen is not None
                    seen.copy_(self.added(seen) / self.size)


ALONE = Team()


def _asked_for(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("true", "1")


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if out_of_memory(error):
            raise
        raise TrainingError(
            "another process of this run has ended; the last saved state is kept, and --resume goes on from it, with "
            "any number of processes."
        ) from None
