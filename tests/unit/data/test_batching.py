"""Batches of one epoch: how many, and never one example alone."""

from __future__ import annotations

import numpy as np
import pytest

from orderfree.data.batching import batches_per_epoch, label_balanced, length_bucketed


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
@pytest.mark.parametrize("examples", [1, 2, 3, 7, 8, 15, 351])
def test_the_number_of_batches_is_known_beforehand_and_no_example_stands_alone(examples: int, batch_size: int) -> None:
    lengths = np.random.default_rng(1).integers(1, 50, examples)
    batches = length_bucketed(lengths, batch_size, seed=1, epoch=0)
    assert len(batches) == batches_per_epoch(examples, batch_size)
    assert sorted(np.concatenate(batches)) == list(range(examples))
    if batch_size > 1 and examples > 1:
        assert min(len(batch) for batch in batches) > 1


def drawn(epoch: int, seed: int = 1, batch_size: int = 50) -> list[np.ndarray]:
    """1,000 examples: all have label 0, one in ten label 1, five label 2; the last twenty have none."""
    labels = np.concatenate([np.zeros(980), np.ones(98), np.full(5, 2)]).astype(np.int32)
    rows = np.concatenate([np.arange(980), np.arange(0, 980, 10), np.arange(5) * 7])
    return label_balanced(labels, rows, 1000, batch_size, seed, epoch)


def test_every_label_has_its_turn_equally_often() -> None:
    batches = drawn(epoch=0)
    assert [len(batch) for batch in batches] == [50] * 20
    seen = np.bincount(np.concatenate(batches), minlength=1000)
    assert seen[np.arange(5) * 7].sum() >= 250  # a quarter of all draws for five examples: 50 each
    assert seen[980:].sum() == 250  # those without labels are a group like any label
    assert seen[980:].max() - seen[980:].min() <= 1  # all of a group before any comes again
    for batch in batches:  # and not only in the long run
        assert 12 <= (batch >= 980).sum() <= 13


def test_draws_are_a_function_of_seed_and_epoch() -> None:
    for first, second in zip(drawn(epoch=3), drawn(epoch=3), strict=True):
        assert (first == second).all()
    assert any((a != b).any() for a, b in zip(drawn(epoch=3), drawn(epoch=4), strict=True))
    assert any((a != b).any() for a, b in zip(drawn(epoch=3), drawn(epoch=3, seed=2), strict=True))


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
@pytest.mark.parametrize("examples", [1, 2, 3, 7, 8, 15])
def test_balanced_batches_are_as_many_as_others(examples: int, batch_size: int) -> None:
    batches = label_balanced(np.arange(examples) % 3, np.arange(examples), examples, batch_size, seed=1, epoch=0)
    assert len(batches) == batches_per_epoch(examples, batch_size)
    assert sum(map(len, batches)) == examples
    if batch_size > 1 and examples > 1:
        assert min(map(len, batches)) > 1
