"""How the process uses the machine. Called by the command line; a library does not change its host's settings."""

from __future__ import annotations

import ctypes
import os

# glibc's malloc.h
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
KEPT = 1 << 30  # bytes: blocks smaller than this are kept for the next update


def keep_freed_memory() -> bool:
    """Asks glibc not to hand freed blocks back to the system. True: it will not.

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
