"""The fuzzers of benchmarks/reliability find what they are there for: each is shown a fault, and some cases without."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz_predictions
import fuzz_readers
import fuzz_sizes
import numpy as np
import pytest
from bounded import Bounds, outcomes
from heavy_requests import LARGEST_BODY, heavy_body

from orderfree import evaluation, inference
from orderfree.data.readers import arrays
from orderfree.data.writers import WRITERS

SMALL = Bounds(megabytes=64, processor_seconds=2, seconds=60)


def spin() -> str:
    while True:
        pass


def look_up() -> str:
    with contextlib.suppress(OSError):
        socket.getaddrinfo("example.org", 443)
    return "refused"


def take_memory() -> str:
    """Pages of its own: an array might get memory that was freed before and is resident already."""
    np.frombuffer(mmap.mmap(-1, 160 << 20), dtype=np.uint8).fill(1)
    return "read"


FAULTS: dict[str, tuple[Callable[[], str], str]] = {
    "memory": (take_memory, "WRONG: took 16"),
    "time": (spin, "WRONG: takes too long"),
    "crash": (lambda: str(os.kill(os.getpid(), signal.SIGKILL)), "WRONG: crash (-9)"),
    "escaped": (lambda: str(1 / 0), "WRONG: crash (70)"),
    "network": (look_up, "WRONG: asked the network for ('example.org', 443)"),
}


def test_who_waits_for_ever_is_ended() -> None:
    assert outcomes([0], lambda _: time.sleep(600) or "", Bounds(seconds=1)) == ["WRONG: takes too long"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_and_the_next_case_goes_on(fault: str) -> None:
    attempts = {0: lambda: "fine", 1: FAULTS[fault][0], 2: lambda: "fine again"}
    first, wrong, last = outcomes([0, 1, 2], lambda case: attempts[case](), SMALL)
    assert (first, last) == ("fine", "fine again")
    assert wrong.startswith(FAULTS[fault][1])


def test_small_files_of_large_sizes() -> None:
    """One case of every kind."""
    assert fuzz_sizes.fuzz(len(fuzz_sizes.KINDS), seed=1)["wrong"] == {}


def test_a_reader_without_limits_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    pytest.importorskip("h5py")
    import h5py

    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("X", shape=(4, 1 << 26), chunks=(1, 1 << 16), dtype="f4")
    assert outcomes([path], lambda path: fuzz_sizes.tried("hdf5", path), SMALL) == ["refused"]
    monkeypatch.setattr(arrays, "BYTES_AT_ONCE", 1 << 40)
    monkeypatch.setattr(arrays, "LARGEST_RATIO", 1 << 60)
    (told,) = outcomes([path], lambda path: fuzz_sizes.tried("hdf5", path), SMALL)
    assert told.startswith("WRONG: ")


def test_readers_begin_with_a_good_file_of_every_format_that_is_written(tmp_path: Path) -> None:
    fuzz_readers.good_files(tmp_path)
    for format in WRITERS:
        assert (tmp_path / format / "text_good").read_bytes().startswith(b"\1")


CASES = 8


def wrong_predictions() -> str:
    return str([told for case in range(CASES) if (told := fuzz_predictions.tried(case, 3)).startswith("WRONG")])


def test_predictions_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_predictions, "KINDS", {"sparse": {}, "dense": {}, "linear": {}})
    assert wrong_predictions() == "[]"


def test_predictions_that_depend_on_the_batch_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_predictions, "KINDS", {"sparse": {}, "dense": {}, "linear": {}})
    plain = inference.step_marginals
    monkeypatch.setattr(inference, "step_marginals", lambda *args: plain(*args) / plain(*args).max())
    assert "alone and among others" in wrong_predictions()


def test_unknown_labels_that_count_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_predictions, "KINDS", {"sparse": {}, "dense": {}, "linear": {}})
    monkeypatch.setattr(evaluation, "_without", lambda row, places: row)
    assert "depends on what is said of unknown labels" in wrong_predictions()


def test_heavy_bodies_fit_and_differ() -> None:
    import random

    bodies = [heavy_body(random.Random(number)) for number in range(40)]
    assert max(map(len, bodies)) <= LARGEST_BODY
    assert max(map(len, bodies)) > LARGEST_BODY / 10
    assert len({body[:60] for body in bodies}) > 20
