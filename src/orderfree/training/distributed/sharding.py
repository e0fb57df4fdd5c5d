"""Sharding (FSDP) of an encoder whose weights, gradients and moments are too large for every process.

`ACCELERATE_USE_FSDP=true torchrun … -m orderfree train …`, or an accelerate config with FSDP. The weights of a layer
are gathered while it runs and sharded again afterwards; gradients are summed in the backward pass, and each process
gets its shard. The decoders are small, and every process holds them whole. States and models on disk are whole and do
not depend on the number of processes.

The imports from torch take a second, so they are inside the functions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn


def shard(encoder: nn.Module, processes: int, device: torch.device) -> nn.Module:
    """Leaves this process its shard of the encoder's weights; returns a copy without weights, used after training."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    # the warning is about writing into views; nothing writes into the output of an encoder
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
    bare = deepcopy(encoder)
    for module in bare.modules():
        for name, weights in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(weights.detach().to("meta"), weights.requires_grad))
    mesh = init_device_mesh(device.type, (processes,))
    layers = [layer for module in encoder.modules() if isinstance(module, nn.ModuleList) for layer in module]
    for part in (*layers, encoder):  # the encoder gathers the weights outside its layers for its whole run
        parted = fully_shard(part, mesh=mesh, reshard_after_forward=True)
        parted.set_gradient_divide_factor(1.0)  # a sum: losses are already weighted shares of the batch's mean
        parted.set_force_sum_reduction_for_comms(True)  # gloo supports no other
    return bare


@contextmanager
def gathered(network: nn.Module) -> Iterator[None]:
    """Keeps all weights whole, so that processes may run the network a different number of times."""
    parts: list[Any] = [part for part in network.modules() if hasattr(part, "unshard")]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.set_reshard_after_forward(True, recurse=False)
            part.reshard()


def is_part(values: Tensor) -> bool:
    return hasattr(values, "full_tensor")


def local_part(values: Any) -> Tensor:
    """This process's shard of a tensor, or the tensor if it is not sharded."""
    return values.to_local() if is_part(values) else values


def whole(values: Any) -> Tensor:
    """The whole tensor; if it is sharded, all processes must call this."""
    return values.full_tensor() if is_part(values) else values


def placed(values: Tensor, like: Any) -> Tensor:
    """This process's shard of a tensor that every process holds whole."""
    if not is_part(like):
        return values
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(values.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def clip(parameters: Iterable[nn.Parameter], largest: float) -> Tensor:
    """Scales all gradients so that their norm is at most `largest`; returns the norm before."""
    grads = [weights.grad for weights in parameters if weights.grad is not None]
    norm = torch.stack([whole(grad.norm()) for grad in grads]).norm()
    factor = (largest / (norm + 1e-6)).clamp(max=1)
    for grad in grads:
        local_part(grad).mul_(factor)
    return norm
