"""Which examples go together: batches of similar length in random order, a function of seed and epoch alone."""

from __future__ import annotations

import numpy as np

BATCHES_PER_BUCKET = 50


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
    return [batches[place] for place in generator.permutation(len(batches))]
