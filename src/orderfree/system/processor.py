"""How the process uses memory, threads and instructions of the machine."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from .precision import FLOAT32, INSTRUCTIONS, LARGEST, WITHOUT_BFLOAT16, processor_instructions

# glibc's malloc.h
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
KEPT = (1 << 31) - 1  # bytes of freed memory, as many as mallopt can express
LARGEST_BLOCK = 1 << 30  # bytes: larger blocks are returned to the system when they are freed


def keep_freed_memory() -> bool:
    """Asks glibc not to return freed blocks to the system; True: it agreed. Only the command line calls this: a library
    must not change the memory management of its host.

    Every update frees its activations and allocates nearly the same amount again. Pages that were returned must be
    mapped and cleared again, which took a quarter of an update of the paper's model, and half of an update with texts
    of 500 words when only 1 GB was kept. Without any limit, a training of that model grew from 3 to 7 GB. Nothing is
    done with another C library, or if the user has set glibc's variables."""
    if any(name in os.environ for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  (musl and macOS have none)
        return library.mallopt(TRIM_THRESHOLD, KEPT) == 1 and library.mallopt(MMAP_THRESHOLD, LARGEST_BLOCK) == 1
    except (AttributeError, OSError, TypeError):
        return False


# oneDNN compiles and caches a kernel for every matrix size: texts have a thousand lengths, a kernel takes a megabyte
KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
KERNELS_KEPT = "32"


def products() -> str | None:
    """torch's precision of float32 products; None: the host uses settings that this function cannot express."""
    import torch

    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def use_processor(threads: int, precision: str = FLOAT32) -> None:
    """Sets the number of threads, and selects the faster of torch's two libraries for float32 products.

    MKL, torch's default, does not use the widest instructions of processors by other makers than Intel; oneDNN does
    (2.2 times as fast on an AMD EPYC). torch uses oneDNN only if bfloat16 is declared precise enough; a processor
    without bfloat16 instructions still computes in float32. On a processor with them they are disabled, unless
    `precision` is bfloat16; this has an effect only before oneDNN's first product. A product of factors that bfloat16
    cannot represent checks the result; if it is not exact, MKL is used. With a GPU nothing is changed, because the
    setting has further effects there."""
    for name in KERNEL_CACHES:
        os.environ.setdefault(name, KERNELS_KEPT)
    if precision == FLOAT32 and (processor_instructions() or set()) & INSTRUCTIONS:
        os.environ.setdefault(LARGEST, WITHOUT_BFLOAT16)
    import torch  # not at the top: --help imports this module and must be fast

    torch.set_num_threads(threads)
    if torch.cuda.is_available() or products() != "highest":
        return
    torch.set_float32_matmul_precision("medium")
    if not exact(torch.matmul):
        torch.set_float32_matmul_precision("highest")


def exact(multiply: Callable[[Any, Any], Any]) -> bool:
    """Whether a product keeps digits that bfloat16 cannot represent."""
    import torch

    fine = torch.full((128, 128), 1 + 2.0**-20)
    return torch.equal(multiply(fine, torch.eye(128)), fine)


def default_threads() -> int:
    """OMP_NUM_THREADS where it is set, else the cores this process may use."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > 0:
        return int(threads)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
