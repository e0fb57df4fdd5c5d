"""Dividing a corpus so that every part has its share of every label.

Iterative stratification (Sechidis, Tsoumakas, Vlahavas 2011): the label with the fewest examples left is dealt out
first, because it has the fewest chances to come out even. The paper leaves the sizes of the parts to chance; here
the rows whose move costs the labels least are moved afterwards until every size is right."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterable, Sequence

import numpy as np

MOST_SWAPS = 200  # bounds the time on large corpora, where dealing alone is already nearly even


def stratified_split(label_sets: Sequence[Sequence[int]], fractions: Sequence[float], seed: int) -> list[np.ndarray]:
    """Row numbers of each part, sorted; together every row once. The same seed gives the same parts.

    A label that occurs once goes to the largest part, so that no other part asks for what it cannot teach."""
    if not fractions or min(fractions) <= 0 or not math.isclose(sum(fractions), 1, abs_tol=1e-6):
        raise ValueError(f"fractions must be positive and sum to 1, but are {list(fractions)}")
    rng = random.Random(seed)
    sets = [tuple(dict.fromkeys(labels)) for labels in label_sets]
    sizes = part_sizes(len(sets), fractions)
    part_of, desire = _deal(sets, fractions, sizes, rng)
    exchange = _Exchange(part_of, desire, sets)
    _even_out(exchange, sizes)
    _swap(exchange, len(fractions))
    return [np.flatnonzero(part_of == part) for part in range(len(fractions))]


def part_of_each(label_sets: Iterable[Sequence[str]], fractions: Sequence[float], seed: int) -> np.ndarray:
    """The part (N,) of every example of a corpus, by its labels' names."""
    ids: dict[str, int] = {}
    numbered = [[ids.setdefault(label, len(ids)) for label in labels] for labels in label_sets]
    part_of = np.zeros(len(numbered), dtype=np.int16)
    for part, rows in enumerate(stratified_split(numbered, fractions, seed)):
        part_of[rows] = part
    return part_of


def part_sizes(count: int, fractions: Sequence[float]) -> list[int]:
    """fraction x count, rounded so that the sizes add up: the largest remainders are rounded up."""
    exact = [fraction * count for fraction in fractions]
    sizes = [math.floor(size + 1e-9) for size in exact]
    order = sorted(range(len(sizes)), key=lambda part: sizes[part] - exact[part])
    for part in order[: count - sum(sizes)]:
        sizes[part] += 1
    return sizes


def _deal(
    sets: list[tuple[int, ...]], fractions: Sequence[float], sizes: list[int], rng: random.Random
) -> tuple[np.ndarray, np.ndarray]:
    """The part of every row (N,), and how much of each label each part still lacks (labels, parts)."""
    rows_of, unlabelled = _rows_by_label(sets, rng)
    left = [len(rows) for rows in rows_of]
    desire = [[fraction * count for fraction in fractions] for count in left]  # [label][part]
    room = list(sizes)
    largest = max(range(len(sizes)), key=lambda part: fractions[part])
    part_of = [-1] * len(sets)
    # Counts only fall, and each fall pushes a new entry: an entry that is not the present count is out of date.
    queue = [(count, label) for label, count in enumerate(left) if count]
    heapq.heapify(queue)
    while queue:
        count, label = heapq.heappop(queue)
        if count != left[label] or not count:
            continue
        for row in rows_of[label]:
            if part_of[row] >= 0:
                continue
            part = largest if len(rows_of[label]) == 1 else _most_wanting(desire[label], room, rng)
            part_of[row] = part
            room[part] -= 1
            for other in sets[row]:
                desire[other][part] -= 1
                left[other] -= 1
                heapq.heappush(queue, (left[other], other))
    for row in unlabelled:
        part_of[row] = part = _most_wanting([0.0] * len(room), room, rng)
        room[part] -= 1
    return np.array(part_of, dtype=np.int64), np.array(desire).reshape(len(left), len(sizes))


def _rows_by_label(sets: list[tuple[int, ...]], rng: random.Random) -> tuple[list[list[int]], list[int]]:
    """The rows of each label and the rows of none, in random order."""
    rows_of: list[list[int]] = [[] for _ in range(1 + max((max(labels) for labels in sets if labels), default=-1))]
    order = rng.sample(range(len(sets)), len(sets))
    for row in order:
        for label in sets[row]:
            rows_of[label].append(row)
    return rows_of, [row for row in order if not sets[row]]


def _most_wanting(desire: list[float], room: list[int], rng: random.Random) -> int:
    """The part that lacks most of the label; of several, the one with most room; of several, any."""
    wishes = list(zip(desire, room, strict=True))
    best = max(wishes)
    ties = [part for part, wish in enumerate(wishes) if wish == best]
    return ties[0] if len(ties) == 1 else rng.choice(ties)


class _Exchange:
    """Moves single rows between parts, always the one that serves the labels best.

    What is minimised is the sum over labels and parts of (share lacking)²."""

    def __init__(self, part_of: np.ndarray, desire: np.ndarray, sets: list[tuple[int, ...]]) -> None:
        self.part_of, self.desire = part_of, desire
        self.start = np.cumsum([0, *(len(labels) for labels in sets)])  # (N + 1,)
        self.labels = np.array([label for labels in sets for label in labels], dtype=np.int64)  # all rows, end to end
        self.row_of = np.repeat(np.arange(len(sets)), np.diff(self.start))
        counts = np.bincount(self.labels, minlength=len(desire))
        self.weight = 1.0 / np.maximum(counts, 1) ** 2
        # A row that alone has some label stays where it was put, unless the sizes leave no choice.
        alone = (counts == 1)[self.labels]
        self.reluctance = np.bincount(self.row_of, alone * float(len(sets)), minlength=len(sets))  # (N,)

    def move(self, giver: int, taker: int, number: int = 1) -> tuple[np.ndarray, float]:
        """Moves the best rows; returns them and the change of the sum."""
        # (d + 1)² - d² + (e - 1)² - e² = 2 (d - e + 1), for a label the giver lacks d of and the taker e.
        cost = 2 * self.weight * (self.desire[:, giver] - self.desire[:, taker] + 1)  # (labels,)
        candidates = np.flatnonzero(self.part_of == giver)
        row_cost = np.bincount(self.row_of, cost[self.labels], minlength=len(self.part_of)) + self.reluctance  # (N,)
        row_cost = row_cost[candidates]
        best = [row_cost.argmin()] if number == 1 else np.argsort(row_cost, kind="stable")[:number]
        self.put(candidates[best], giver, taker)
        return candidates[best], float(row_cost[best].sum())

    def put(self, rows: np.ndarray, giver: int, taker: int) -> None:
        self.part_of[rows] = taker
        for row in rows:
            labels = self.labels[self.start[row] : self.start[row + 1]]
            self.desire[labels, giver] += 1
            self.desire[labels, taker] -= 1


def _even_out(exchange: _Exchange, sizes: list[int]) -> None:
    """Moves rows out of parts that are too large until every size is right."""
    while True:
        surplus = np.bincount(exchange.part_of, minlength=len(sizes)) - sizes  # (parts,)
        giver, taker = int(surplus.argmax()), int(surplus.argmin())
        excess = min(surplus[giver], -surplus[taker])
        if excess == 0:
            return
        exchange.move(giver, taker, number=max(1, excess // 16))  # many at a time while far from the goal


def _swap(exchange: _Exchange, parts: int) -> None:
    """Exchanges rows between two parts for as long as the labels gain by it."""
    swaps = 0
    pairs = [(one, other) for one in range(parts) for other in range(parts) if one != other]
    for one, other in pairs:
        while swaps < MOST_SWAPS and (exchange.part_of == one).any():
            there, cost = exchange.move(one, other)
            back, gain = exchange.move(other, one)
            if cost + gain > -1e-12:
                exchange.put(back, one, other)
                exchange.put(there, other, one)
                break
            swaps += 1
