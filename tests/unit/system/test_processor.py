"""Memory that is kept between updates: fewer pages are mapped anew. Products that are faster, and as exact."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from orderfree.system import processor
from orderfree.system.processor import exact, use_processor

# frees and asks for {blocks} x 64 MiB again and again: returned each time, every page must be mapped again
FAULTS = """
import resource
from orderfree.system.processor import keep_freed_memory
print(keep_freed_memory() if {kept} else None)
import numpy as np
for turn in range(6):
    blocks = [np.empty(64 << 20, np.uint8) for _ in range({blocks})]
    for block in blocks:
        block[::4096] = 1
    del block, blocks
    if turn == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def answers(kept: bool, blocks: int = 1, **environment: str) -> tuple[str, int]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS.format(kept=kept, blocks=blocks)],
        capture_output=True, text=True, check=True, env={**plain, **environment},
    )  # fmt: skip
    said, faults = done.stdout.split()
    return said, int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
def test_pages_are_not_mapped_again() -> None:
    said, faults = answers(kept=True)
    assert said == "True"
    assert faults < answers(kept=False)[1] / 2


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
def test_more_than_a_gigabyte_is_kept_too() -> None:
    _, faults = answers(kept=True, blocks=18)
    assert faults < 18 * (64 << 20) / 4096 / 2  # pages of half a turn, of four that are counted


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


def rounded(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """As a processor with matrix units multiplies."""
    return (left.bfloat16() @ right.bfloat16()).float()


@pytest.mark.usefixtures("untouched")
def test_rounded_products_are_recognised() -> None:
    assert exact(torch.matmul)
    assert not exact(rounded)


@pytest.mark.usefixtures("untouched")
@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU products are left alone")
@pytest.mark.parametrize(("is_exact", "precision"), [(True, "medium"), (False, "highest")])
def test_rounded_products_are_not_taken(monkeypatch: pytest.MonkeyPatch, is_exact: bool, precision: str) -> None:
    monkeypatch.setattr(processor, "exact", lambda multiply: is_exact)
    use_processor(1)
    assert torch.get_float32_matmul_precision() == precision


@pytest.mark.usefixtures("untouched")
def test_a_host_that_answers_no_such_question_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise RuntimeError("mixed")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: pytest.fail("was set"))
    use_processor(1)


KERNELS = """
import os, sys
from orderfree.system import processor
real, seen = __import__, {}
def watched(name, *rest):
    if name == "torch" and not seen:
        seen.update((key, os.environ.get(key)) for key in processor.KERNEL_CACHES)
    return real(name, *rest)
__builtins__.__import__ = watched
processor.use_processor(1)
print(*seen.values())
"""


@pytest.mark.parametrize(("environment", "expected"), [({}, ["32", "32"]), ({"LRU_CACHE_CAPACITY": "7"}, ["32", "7"])])
def test_few_kernels_are_kept_and_torch_knows_it_when_it_starts(environment: dict, expected: list[str]) -> None:
    plain = {name: value for name, value in os.environ.items() if name not in processor.KERNEL_CACHES}
    command = [sys.executable, "-c", KERNELS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**plain, **environment})
    assert done.stdout.split() == expected


@pytest.mark.usefixtures("untouched")
def test_products_the_user_has_chosen_stay() -> None:
    torch.set_float32_matmul_precision("high")
    use_processor(1)
    assert torch.get_float32_matmul_precision() == "high"
