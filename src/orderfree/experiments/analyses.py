"""Two analyses of the paper: example-F1 by the frequency of the label set in training, and average ranks of methods."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
from scipy.stats import rankdata

# Bins of the number of training examples with a label set: first and last count; the last bin is open.
FREQUENCY_BINS: tuple[tuple[int, int | None], ...] = ((0, 0), (1, 1), (2, 5), (6, 20), (21, 100), (101, None))

RowT = TypeVar("RowT", bound=Hashable)
Value = float | Decimal | None


def example_f1_by_frequency(
    targets: Sequence[Collection[str]],
    predictions: Sequence[Collection[str]],
    training_counts: Mapping[frozenset[str], int],
) -> list[dict[str, Any]]:
    """Mean example-F1 by the number of training examples with the same label set, one entry per bin.

    `example_f1` is None where a bin has no example."""
    by_bin: list[list[float]] = [[] for _ in FREQUENCY_BINS]
    for target, predicted in zip(targets, predictions, strict=True):
        by_bin[_bin(training_counts.get(frozenset(target), 0))].append(_example_f1(set(target), set(predicted)))
    return [
        {"times": name, "examples": len(values), "example_f1": float(np.mean(values)) if values else None}
        for name, values in zip(bin_names(), by_bin, strict=True)
    ]


def bin_names() -> list[str]:
    """0, 1, 2-5, …, >100."""
    return [
        f">{first - 1}" if last is None else f"{first}" if first == last else f"{first}-{last}"
        for first, last in FREQUENCY_BINS
    ]


def _bin(times: int) -> int:
    return max(index for index, (first, _) in enumerate(FREQUENCY_BINS) if times >= first)


def _example_f1(target: set[str], predicted: set[str]) -> float:
    both = len(target) + len(predicted)
    return 2 * len(target & predicted) / both if both else 1.0  # both sets are empty: correct


def average_ranks(
    tables: Sequence[Mapping[RowT, Mapping[str, Value]]], metrics: Sequence[str]
) -> dict[RowT, dict[str, float]]:
    """Rank of every row in each metric, averaged over the tables, and the mean of these ("average").

    1 is the highest value; equal values share the mean of their ranks. Rows without a value in some table are left out
    of all tables, because ranks among different numbers of rows are not comparable."""
    rows = [row for row in (tables[0] if tables else ()) if all(_complete(table.get(row), metrics) for table in tables)]
    if not rows:
        return {}
    values = np.array([[[table[row][metric] for row in rows] for metric in metrics] for table in tables], dtype=float)
    ranks = rankdata(-values, axis=2).mean(axis=0)  # (tables, metrics, rows) -> (metrics, rows)
    return {
        row: dict(zip((*metrics, "average"), [*ranks[:, column].tolist(), float(ranks[:, column].mean())], strict=True))
        for column, row in enumerate(rows)
    }


def _complete(scores: Mapping[str, Value] | None, metrics: Sequence[str]) -> bool:
    return scores is not None and all(scores.get(metric) is not None for metric in metrics)
