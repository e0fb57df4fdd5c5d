"""Several processes that train one model: `torchrun --nproc_per_node 2 -m orderfree train …`, or `accelerate launch`.

Every process holds all weights, or a shard of the encoder's (sharding.py), and computes its own rows of every batch.
Gradients are summed: the result is the gradient of the whole batch, as with one process, even if the processes unroll
different numbers of steps. (DDP averages the means of the processes and waits for parameters that one of them may not
have used.)
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

# Processes wait while the first one solves or saves; torchrun detects a process that has died.
PATIENCE = timedelta(days=7)


@dataclass(frozen=True)
class Team:
    rank: int = 0
    size: int = 1
    shards: bool = False  # each holds a shard of the encoder: sharding.py

    @classmethod
    def join(cls) -> Team:
        """The processes that torchrun or accelerate has started; without either, this process alone."""
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
        """Whether this process writes, locks and reports for all."""
        return self.rank == 0

    def wait(self) -> None:
        """Waits until all processes have called it."""
        if self.size > 1:
            with _together():
                dist.barrier()

    def share_of(self, rows: np.ndarray) -> tuple[np.ndarray, float]:
        """This process's rows of a batch, and the weight of their mean in the batch's mean. If there are fewer than two
        rows per process, every process takes all rows: batch normalisation needs more than one."""
        if len(rows) < 2 * self.size:
            return rows, 1 / self.size
        share = rows[self.rank :: self.size]
        return share, len(share) / len(rows)

    def seed(self, seed: int, update: int) -> None:
        """Seeds the generator of each process for each update, so that a run can be resumed with another number of
        processes. A single process keeps its generator."""
        if self.size > 1:
            drawn = np.random.SeedSequence((seed, update, self.rank)).generate_state(1, np.uint64)[0]
            torch.manual_seed(int(drawn))

    def added(self, values: Tensor) -> Tensor:
        """The sum over all processes; of booleans, their logical or."""
        if self.size == 1:
            return values
        summed = values.to(torch.uint8) if values.dtype == torch.bool else values.clone()
        with _together():
            dist.all_reduce(summed)
        return summed.to(values.dtype)

    def add_gradients(self, parameters: Iterable[nn.Parameter], others: list[float]) -> list[float]:
        """Replaces the gradients of every process by their sum over all processes; returns the sums of other numbers.

        A parameter that no process used keeps no gradient; gradients of shards are summed in the backward pass."""
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
        """Averages the running statistics of batch normalisation, which each process has of its own rows."""
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
