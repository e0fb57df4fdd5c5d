"""The precision of matrix products in training: bfloat16 if the processor or the GPU is faster with it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import OrderfreeError

if TYPE_CHECKING:
    import torch

FLOAT32, BFLOAT16 = "float32", "bfloat16"
INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}  # as Linux names them on x86
# the last instruction set before bfloat16: without bfloat16 oneDNN cannot round
LARGEST, WITHOUT_BFLOAT16 = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_VNNI"
SIZE, ROUNDS = 256, 4  # of the timed products, on systems that do not list instructions


def chosen_precision(setting: str) -> str:
    """The precision of a setting; `auto` is resolved for this machine."""
    if setting != "auto":
        return setting
    return BFLOAT16 if bfloat16_is_faster() else FLOAT32


def embedding_precision(setting: str) -> str:
    """As `chosen_precision`, for what is computed on the processor even where there is a GPU, and in a process that may
    have been told to leave the instructions for bfloat16 alone."""
    if setting != "auto":
        return setting
    unused = os.environ.get(LARGEST) == WITHOUT_BFLOAT16
    return BFLOAT16 if processor_is_faster() and not unused else FLOAT32


@lru_cache(maxsize=1)
def bfloat16_is_faster() -> bool:
    import torch

    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return processor_is_faster()


def processor_is_faster() -> bool:
    instructions = processor_instructions()
    return _times_faster() if instructions is None else bool(instructions & INSTRUCTIONS)


def processor_instructions(path: Path = Path("/proc/cpuinfo")) -> set[str] | None:
    """The instruction sets of an x86 processor, as Linux lists them; None: another system or another processor."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    named = [line.partition(":")[2].split() for line in lines if line.startswith("flags")]
    return set(named[0]) if named else None


def _times_faster() -> bool:
    """Compares the fastest of a few products in either precision."""
    import torch

    def fastest(dtype: torch.dtype) -> float:
        factor = torch.ones(SIZE, SIZE, dtype=dtype)  # (256, 256)
        seconds = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            factor @ factor
            seconds.append(time.perf_counter() - began)
        return min(seconds[1:])

    return fastest(torch.bfloat16) < 0.8 * fastest(torch.float32)


def refuse_unable(precision: str) -> str | None:
    """Refuses a GPU without bfloat16; returns a warning if bfloat16 works but is slow."""
    import torch

    if precision != BFLOAT16 or bfloat16_is_faster():
        return None
    if torch.cuda.is_available() and not torch.cuda.is_bf16_supported():
        raise OrderfreeError("this GPU has no bfloat16; start the training anew with training.precision=float32.")
    return (
        "training.precision is bfloat16, for which this machine has no instructions: it is slower than float32 here, "
        "and a run keeps the precision it was started with"
    )


@contextmanager
def multiplying_in_bfloat16(device_type: str) -> Iterator[None]:
    """Products and recurrent layers in bfloat16. If oneDNN has no such kernels for the processor, torch's are used."""
    import torch

    enabled = torch.backends.mkldnn.enabled
    if device_type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        with torch.autocast(device_type, torch.bfloat16):
            yield
    finally:
        torch.backends.mkldnn.enabled = enabled
