"""Memory that is kept between updates: fewer pages are mapped anew. Products that are faster, and as exact."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from orderfree.system.processor import use_processor

# frees and asks for 64 MiB again and again: handed back each time, every page of it is mapped anew
FAULTS = """
import resource
from orderfree.system.processor import keep_freed_memory
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


@pytest.fixture
def untouched() -> Iterator[None]:
    """Threads and products as they are at the start of a program; afterwards as they were before."""
    threads, products = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(products)


@pytest.mark.usefixtures("untouched")
def test_products_stay_exact_whoever_computes_them() -> None:
    use_processor(1)
    assert torch.get_num_threads() == 1
    left, right = torch.randn(300, 512), torch.randn(512, 200)
    wanted = left.double() @ right.double()
    error = ((left @ right).double() - wanted).abs().max()
    rounded = (left.bfloat16().double() @ right.bfloat16().double() - wanted).abs().max()
    assert error < rounded / 100


@pytest.mark.usefixtures("untouched")
def test_rounded_products_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "equal", lambda *_: False)  # as a processor with matrix units would answer
    use_processor(1)
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.usefixtures("untouched")
def test_a_host_that_answers_no_such_question_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise RuntimeError("mixed")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: pytest.fail("was set"))
    use_processor(1)


GROWTH = """
import sys
from orderfree.system.processor import use_processor
if sys.argv[1] == "ours":
    use_processor(1)
import resource
import torch
torch.set_num_threads(1)
right = torch.randn(128, 512)
for rows in range(8, 608):
    torch.randn(rows, 128) @ right
    if rows == 107:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_every_size_of_matrices() -> None:
    command = [sys.executable, "-c", GROWTH]
    grown = [int(subprocess.run([*command, who], capture_output=True, check=True).stdout) for who in ("ours", "torch")]
    assert grown[0] < grown[1] + 100 * 1024  # KiB; 300,000 and more with a kernel kept for each


@pytest.mark.usefixtures("untouched")
def test_products_the_user_has_chosen_stay() -> None:
    torch.set_float32_matmul_precision("high")
    use_processor(1)
    assert torch.get_float32_matmul_precision() == "high"
