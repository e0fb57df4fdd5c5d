"""Which examples go together: batches of similar length in random order, a function of seed and epoch alone."""

from __future__ import annotations

import numpy as np

BATCHES_PER_BUCKET = 50


def batches_per_epoch(examples: int, batch_size: int) -> int:
    """How many batches `length_bucketed` makes."""
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
