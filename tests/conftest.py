"""Results made up by hand: what a run would have written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from orderfree.experiments.result_files import Result

# How long an example takes says something about the machine, not about the code. The examples of `make test` are the
# same every time; those of `--hypothesis-profile=thorough` (`make fuzz`) are many and new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=3000)
settings.load_profile("repeatable")

METRICS = ("macro_f1", "micro_f1", "example_f1", "subset_accuracy", "hamming_accuracy", "average")


def scores(value: float) -> dict[str, float]:
    return dict.fromkeys(METRICS, value)


def make(method: str = "ocd", decoders: tuple[str, ...] = ("beam",), value: float = 0.5, **changes: Any) -> Result:
    content = {
        "corpus": "reuters",
        "method": method,
        "variant": "paper-small",
        "seed": 1,
        "config": {"seed": 1},
        "versions": {"orderfree": "0"},
        "commit": "0" * 40,
        "command": "orderfree train",
        "seconds": {"train": 2.0, "test": 1.0},
        "updates": 10,
        "flattened": True,
        "cut_short": False,
        "parameters": 3,
        "truncated": 0,
        "test": {decoder: scores(value) for decoder in decoders},
    }
    return Result.model_validate({**content, **changes})


@pytest.fixture
def make_result() -> Callable[..., Result]:
    return make
