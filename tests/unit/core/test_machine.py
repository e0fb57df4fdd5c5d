"""Memory that is kept between updates: fewer pages are mapped anew."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# frees and asks for 64 MiB again and again: handed back each time, every page of it is mapped anew
FAULTS = """
import resource
from orderfree.machine import keep_freed_memory
print(keep_freed_memory() if {kept} else None)
import numpy as np
for turn in range(12):
    np.ones(8 << 20)
    if turn == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def answers(kept: bool, **environment: str) -> tuple[str, int]:
    import os

    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS.format(kept=kept)],
        capture_output=True, text=True, check=True, env={**plain, **environment},
    )  # fmt: skip
    said, faults = done.stdout.split()
    return said, int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
def test_pages_are_not_mapped_again() -> None:
    said, faults = answers(kept=True)
    assert said == "True"
    assert faults < answers(kept=False)[1] / 2


def test_what_the_user_has_set_stays() -> None:
    assert answers(kept=True, MALLOC_TRIM_THRESHOLD_="65536")[0] == "False"
