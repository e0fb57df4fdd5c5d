"""Batches of one epoch: how many, and never one example alone."""

from __future__ import annotations

import numpy as np
import pytest

from orderfree.data.batching import batches_per_epoch, length_bucketed


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
@pytest.mark.parametrize("examples", [1, 2, 3, 7, 8, 15, 351])
def test_the_number_of_batches_is_known_beforehand_and_no_example_stands_alone(examples: int, batch_size: int) -> None:
    lengths = np.random.default_rng(1).integers(1, 50, examples)
    batches = length_bucketed(lengths, batch_size, seed=1, epoch=0)
    assert len(batches) == batches_per_epoch(examples, batch_size)
    assert sorted(np.concatenate(batches)) == list(range(examples))
    if batch_size > 1 and examples > 1:
        assert min(len(batch) for batch in batches) > 1
