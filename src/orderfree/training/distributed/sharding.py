"""An encoder too large for every process to hold with its gradients and moments: each keeps a part of them (FSDP).

`ACCELERATE_USE_FSDP=true torchrun … -m orderfree train …`, or an accelerate config that says so. Weights of a layer are
whole while it runs and apart again after it; gradients are added up as they come, each process getting its part. The
decoders are small and stay whole in all processes. States and models on disk are whole: nothing there says how many
processes wrote them.

torch's part of it takes a second to import, so that only those who shard do.
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
    """Leaves this process its part of the encoder's weights; returns the same encoder without any, for the end."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    # of views that someone might write into: nobody writes into what an encoder returns
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
    bare = deepcopy(encoder)
    for module in bare.modules():
        for name, weights in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(weights.detach().to("meta"), weights.requires_grad))
    mesh = init_device_mesh(device.type, (processes,))
    layers = [layer for module in encoder.modules() if isinstance(module, nn.ModuleList) for layer in module]
    for part in (*layers, encoder):  # what no layer holds, the encoder gathers for all of its run
        parted = fully_shard(part, mesh=mesh, reshard_after_forward=True)
        parted.set_gradient_divide_factor(1.0)  # a sum: losses are already shares of the batch's mean
        parted.set_force_sum_reduction_for_comms(True)  # all that gloo knows
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


def own(values: Any) -> Tensor:
    """What this process holds of a tensor."""
    return values.to_local() if is_part(values) else values


def whole(values: Any) -> Tensor:
    """All of a tensor; where it is shared out, all processes must ask for it."""
    return values.full_tensor() if is_part(values) else values


def placed(values: Tensor, like: Any) -> Tensor:
    """This process's part of a whole tensor that all of them have."""
    if not is_part(like):
        return values
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(values.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def clip(parameters: Iterable[nn.Parameter], largest: float) -> Tensor:
    """Scales all gradients so that their norm is at most `largest`; returns the norm they had."""
    grads = [weights.grad for weights in parameters if weights.grad is not None]
    norm = torch.stack([whole(grad.norm()) for grad in grads]).norm()
    factor = (largest / (norm + 1e-6)).clamp(max=1)
    for grad in grads:
        own(grad).mul_(factor)
    return norm
