"""Which examples go together: batches of similar length in random order, or balanced over labels.

Both are functions of seed and epoch alone: a resumed run draws what the run that was not cut would have drawn."""

from __future__ import annotations

import numpy as np

BATCHES_PER_BUCKET = 50


def batches_per_epoch(examples: int, batch_size: int) -> int:
    """How many batches `length_bucketed` and `label_balanced` make."""
    lone = examples % batch_size == 1 and examples > batch_size
    return -(-examples // batch_size) - lone


def length_bucketed(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Rows of every batch of one epoch.

    All rows are shuffled; each run of 50 batches' worth of them is sorted by length and cut into batches; the batches
    are shuffled. Nothing is carried over between epochs, so a run can be taken up at any batch of any epoch.
    """
    generator = np.random.default_rng((seed, epoch))
    order = generator.permutation(len(lengths))
    batches: list[np.ndarray] = []
    bucket = BATCHES_PER_BUCKET * batch_size
    for start in range(0, len(order), bucket):
        rows = order[start : start + bucket]
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        batches += [rows[place : place + batch_size] for place in range(0, len(rows), batch_size)]
    if len(batches) > batches_per_epoch(len(lengths), batch_size):  # a batch of one has no spread to normalise by
        alone = batches.pop()
        batches[-1] = np.concatenate([batches[-1], alone])
    return [batches[place] for place in generator.permutation(len(batches))]


def label_balanced(
    labels: np.ndarray, rows: np.ndarray, examples: int, batch_size: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """Rows of every batch of one epoch, drawn so that each label has its turn equally often (Kong et al. 2018).

    labels (P,) and rows (P,): every label of every example. Labels come round in random order, all of them before any
    comes again; each brings the next of its own examples, in random order, all of them before any comes again. Examples
    without labels count as one label more. An epoch has as many draws as there are examples: frequent labels' examples
    are not all seen in it, rare labels' several times.
    """
    generator = np.random.default_rng((seed, epoch))
    unlabelled = np.setdiff1d(np.arange(examples), rows)
    extra = np.full(len(unlabelled), labels.max(initial=-1) + 1)
    rows_of = _groups(np.concatenate([labels, extra]), np.concatenate([rows, unlabelled]))
    turns = _rounds(np.arange(len(rows_of)), examples, generator)  # (N,) whose turn it is
    drawn = np.empty(examples, dtype=np.int64)
    for place, turn in zip(_groups(turns, np.arange(examples)), np.unique(turns), strict=True):
        drawn[place] = _rounds(rows_of[turn], len(place), generator)
    count = batches_per_epoch(examples, batch_size)
    return np.split(drawn, np.arange(1, count) * batch_size)


def _groups(keys: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
    """The values of each key, by rising key."""
    order = np.argsort(keys, kind="stable")
    return np.split(values[order], np.flatnonzero(np.diff(keys[order])) + 1)


def _rounds(values: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """So many of the values: all in random order, then all in another, …"""
    rounds = [generator.permutation(values) for _ in range(-(-count // len(values)))]
    return np.concatenate(rounds)[:count]
