import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from orderfree.data.splits import part_sizes, stratified_split

corpora = st.lists(st.lists(st.integers(0, 8), unique=True, max_size=4), max_size=40)
shares = st.sampled_from([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.6, 0.3, 0.1], [0.25] * 4, [1.0]])
seeds = st.integers(0, 2**32)


def is_partition(parts, rows, fractions):
    together = np.concatenate(parts)
    sizes = [len(part) for part in parts]
    rising = all((np.diff(part) > 0).all() for part in parts)
    return sorted(together.tolist()) == list(range(rows)) and sizes == part_sizes(rows, fractions) and rising


@settings(deadline=None)
@given(corpora, shares, seeds)
def test_the_parts_hold_every_row_once_and_have_their_sizes(label_sets, fractions, seed):
    assert is_partition(stratified_split(label_sets, fractions, seed), len(label_sets), fractions)


@settings(deadline=None)
@given(corpora, shares, seeds)
def test_the_same_seed_gives_the_same_parts(label_sets, fractions, seed):
    once, again = (stratified_split(label_sets, fractions, seed) for _ in range(2))
    assert [part.tolist() for part in once] == [part.tolist() for part in again]


@settings(deadline=None)
@given(corpora, shares, seeds, st.permutations(range(9)))
def test_other_numbers_for_the_labels_give_a_valid_split(label_sets, fractions, seed, numbers):
    renumbered = [[numbers[label] for label in labels] for labels in label_sets]
    assert is_partition(stratified_split(renumbered, fractions, seed), len(label_sets), fractions)


@settings(deadline=None)
@given(st.integers(0, 10_000), shares)
def test_sizes_add_up_and_are_off_by_less_than_one(count, fractions):
    sizes = part_sizes(count, fractions)
    assert sum(sizes) == count
    assert all(abs(size - fraction * count) < 1 for size, fraction in zip(sizes, fractions, strict=True))
