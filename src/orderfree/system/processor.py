"""How the process uses the machine: its memory, its threads, its instructions."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from .precision import FLOAT32, INSTRUCTIONS, processor_instructions

# glibc's malloc.h
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
KEPT = 1 << 30  # bytes: blocks smaller than this are kept for the next update


def keep_freed_memory() -> bool:
    """Asks glibc not to hand freed blocks back to the system. True: it will not. Called by the command line only: a
    library leaves its host's memory alone.

    Every update frees its activations and asks for nearly the same amount again. Handed back, each page has to be
    mapped and cleared anew: a quarter of the time an update of the paper's model took. Nothing is done where the C
    library is another one, or where the user has set glibc's own variables."""
    if any(name in os.environ for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  (musl and macOS have none)
        return all(library.mallopt(option, KEPT) == 1 for option in (TRIM_THRESHOLD, MMAP_THRESHOLD))
    except (AttributeError, OSError, TypeError):
        return False


# oneDNN makes a kernel for every size of matrices and keeps it: texts are of a thousand lengths, kernels of a megabyte
KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
KERNELS_KEPT = "32"


def products() -> str | None:
    """How exact torch's products are; None: the host has set that in ways this question has no answer to."""
    import torch

    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


# instructions up to those for bfloat16: without them oneDNN has nothing to round with
LARGEST, WITHOUT_BFLOAT16 = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_VNNI"


def use_processor(threads: int, precision: str = FLOAT32) -> None:
    """This many threads, and the faster of torch's two ways to multiply float32 matrices where both are exact.

    MKL, torch's usual way, leaves the widest instructions of a processor that is not Intel's unused; oneDNN does not
    (2.2 times as fast on an AMD EPYC). torch asks oneDNN only if told that bfloat16 is good enough; a processor
    without instructions for bfloat16 computes in float32 all the same. One that has them is told not to use them,
    unless `precision` is bfloat16, which needs them: this works until oneDNN has made its first product. A product
    whose factors bfloat16 cannot hold tells whether all went well; if not, MKL multiplies. With a GPU the setting would
    mean other things as well, so it is left alone."""
    for name in KERNEL_CACHES:
        os.environ.setdefault(name, KERNELS_KEPT)
    if precision == FLOAT32 and (processor_instructions() or set()) & INSTRUCTIONS:
        os.environ.setdefault(LARGEST, WITHOUT_BFLOAT16)
    import torch  # not at the top: --help reads this module and must be quick

    torch.set_num_threads(threads)
    if torch.cuda.is_available() or products() != "highest":
        return
    torch.set_float32_matmul_precision("medium")
    if not exact(torch.matmul):
        torch.set_float32_matmul_precision("highest")


def exact(multiply: Callable[[Any, Any], Any]) -> bool:
    """Whether a product keeps digits that bfloat16 cannot hold."""
    import torch

    fine = torch.full((128, 128), 1 + 2.0**-20)
    return torch.equal(multiply(fine, torch.eye(128)), fine)
