"""Two questions the paper asks of finished predictions: does a label set that training rarely showed come out worse,
and which method is ahead over many columns at once?"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
from scipy.stats import rankdata

# How often a label set occurs in training: first and last count of each bin; the last bin is open.
FREQUENCY_BINS: tuple[tuple[int, int | None], ...] = ((0, 0), (1, 1), (2, 5), (6, 20), (21, 100), (101, None))

RowT = TypeVar("RowT", bound=Hashable)
Value = float | Decimal | None


def example_f1_by_frequency(
    targets: Sequence[Collection[str]],
    predictions: Sequence[Collection[str]],
    training_counts: Mapping[frozenset[str], int],
) -> list[dict[str, Any]]:
    """Mean example-F1 of the examples whose true label set training showed so often, one entry per bin.

    `example_f1` is None where a bin has no example."""
    found: list[list[float]] = [[] for _ in FREQUENCY_BINS]
    for target, predicted in zip(targets, predictions, strict=True):
        found[_bin(training_counts.get(frozenset(target), 0))].append(_example_f1(set(target), set(predicted)))
    return [
        {"times": name, "examples": len(values), "example_f1": float(np.mean(values)) if values else None}
        for name, values in zip(bin_names(), found, strict=True)
    ]


def bin_names() -> list[str]:
    """0, 1, 2-5, …, >100."""
    return [
        f">{first - 1}" if last is None else f"{first}" if first == last else f"{first}-{last}"
        for first, last in FREQUENCY_BINS
    ]


def _bin(times: int) -> int:
    return max(place for place, (first, _) in enumerate(FREQUENCY_BINS) if times >= first)


def _example_f1(target: set[str], predicted: set[str]) -> float:
    both = len(target) + len(predicted)
    return 2 * len(target & predicted) / both if both else 1.0  # nothing to find, nothing given: right


def average_ranks(
    tables: Sequence[Mapping[RowT, Mapping[str, Value]]], metrics: Sequence[str]
) -> dict[RowT, dict[str, float]]:
    """Rank of every row in each metric, averaged over the tables, and the mean of these ("average").

    1 is the highest value; equal values share the mean of their ranks. Rows that lack a value in any table are left out
    of all: a rank among fewer rivals is another number."""
    rows = [row for row in (tables[0] if tables else ()) if all(_complete(table.get(row), metrics) for table in tables)]
    if not rows:
        return {}
    values = np.array([[[table[row][metric] for row in rows] for metric in metrics] for table in tables], dtype=float)
    ranks = rankdata(-values, axis=2).mean(axis=0)  # (tables, metrics, rows) -> (metrics, rows)
    return {
        row: dict(zip((*metrics, "average"), [*ranks[:, place].tolist(), float(ranks[:, place].mean())], strict=True))
        for place, row in enumerate(rows)
    }


def _complete(scores: Mapping[str, Value] | None, metrics: Sequence[str]) -> bool:
    return scores is not None and all(scores.get(metric) is not None for metric in metrics)
