"""Measuring by turns: every figure is a ratio of things done one after another in one run, repeated."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

ALLOWED = 0.15  # a ratio may be worse by this share before it is called a regression


def alternate(work: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each piece of work in every round, one after the other; a first round warms up. CPU time, because
    whoever else uses the machine must not count; with several threads it counts all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(rounds + 1):
        for name, run in work.items():
            began = time.process_time()
            run()
            if turn:
                seconds[name].append(time.process_time() - began)
    return seconds


def ratio(ones: list[float], others: list[float]) -> dict[str, Any]:
    """How many times the others, turn by turn."""
    found = [one / other for one, other in zip(ones, others, strict=True)]
    return {"median": statistics.median(found), "lowest": min(found), "highest": max(found), "turns": found}


def worse(now: dict[str, dict[str, Any]], baseline: dict[str, dict[str, Any]]) -> list[str]:
    """Figures of both whose median got worse by more than is allowed."""
    found = []
    for name in sorted(now.keys() & baseline.keys()):
        one, other = now[name]["median"], baseline[name]["median"]
        lower = now[name].get("better") == "lower"
        if (one > other * (1 + ALLOWED)) if lower else (one < other * (1 - ALLOWED)):
            found.append(f"{name}: {one:.3g} instead of {other:.3g}")
    return found
