import numpy as np
import pytest
from iterstrat.ml_stratifiers import MultilabelStratifiedShuffleSplit

from orderfree.data.splits import part_of_each, part_sizes, stratified_split


def random_sets(rows, labels, per_row, skew, seed, empty=False):
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, labels + 1) ** skew
    weights /= weights.sum()
    sizes = rng.integers(0 if empty else 1, 2 * per_row, size=rows)
    return [sorted(set(rng.choice(labels, size=size, p=weights).tolist())) for size in sizes]


def indicator(label_sets, labels):
    matrix = np.zeros((len(label_sets), labels), dtype=int)
    for row, names in enumerate(label_sets):
        matrix[row, names] = 1
    return matrix


def deviation(matrix, parts, fractions):
    """Mean over labels and parts of |share of the label in the part - share of the part|."""
    matrix = matrix[:, matrix.any(axis=0)]
    shares = [matrix[part].sum(axis=0) / matrix.sum(axis=0) for part in parts]
    return np.mean([np.abs(share - fraction).mean() for share, fraction in zip(shares, fractions, strict=True)])


@pytest.mark.parametrize("test_fraction", [0.1, 0.25, 0.5])
@pytest.mark.parametrize(
    ("rows", "labels", "per_row", "skew", "empty"),
    [
        (200, 5, 2, 0, False),
        (300, 8, 4, 0, False),
        (1000, 20, 3, 1, False),
        (500, 100, 3, 1, False),
        (3000, 10, 3, 0.5, True),
        (2000, 50, 2, 1.5, True),
    ],
)
def test_as_even_as_the_reference_implementation_with_exact_sizes(rows, labels, per_row, skew, empty, test_fraction):
    fractions = [1 - test_fraction, test_fraction]
    ours, reference = [], []
    for seed in range(4):
        label_sets = random_sets(rows, labels, per_row, skew, seed, empty)
        matrix = indicator(label_sets, labels)
        parts = stratified_split(label_sets, fractions, seed)
        assert [len(part) for part in parts] == [round(fraction * rows) for fraction in fractions]
        splitter = MultilabelStratifiedShuffleSplit(n_splits=1, test_size=test_fraction, random_state=seed)
        ours.append(deviation(matrix, parts, fractions))
        reference.append(deviation(matrix, next(splitter.split(matrix, matrix)), fractions))
    assert np.mean(ours) <= 1.1 * np.mean(reference) + 1e-4


def test_a_case_to_check_by_hand():
    """Four of a, four of b, four of both: halves hold two of each kind."""
    label_sets = [[0]] * 4 + [[1]] * 4 + [[0, 1]] * 4
    for seed in range(5):
        first, second = stratified_split(label_sets, [0.5, 0.5], seed)
        matrix = indicator(label_sets, 2)
        assert matrix[first].sum(axis=0).tolist() == matrix[second].sum(axis=0).tolist() == [4, 4]
        assert len(first) == len(second) == 6


@pytest.mark.parametrize("fractions", [[0.9, 0.1], [0.5, 0.5], [0.6, 0.2, 0.2]])
def test_labels_that_occur_once_are_in_the_largest_part(fractions):
    rare = [[0, 100 + i] for i in range(10)]
    label_sets = rare + [[i % 5] for i in range(90)]
    for seed in range(5):
        largest = stratified_split(label_sets, fractions, seed)[0]
        assert set(range(10)) <= set(largest.tolist())


def test_sizes_are_made_right_without_taking_away_labels_that_occur_once():
    """Forty such rows in one half leave it ten of the sixty others, however uneven that makes their label."""
    largest, other = stratified_split([[1 + i] for i in range(40)] + [[0]] * 60, [0.5, 0.5], seed=1)
    assert len(largest) == len(other) == 50
    assert largest[:40].tolist() == list(range(40))


@pytest.mark.parametrize("seed", range(3))
def test_no_small_part_has_a_label_the_largest_lacks(seed):
    label_sets = random_sets(2000, 300, 3, 1.2, seed)
    largest, *others = stratified_split(label_sets, [0.8, 0.1, 0.1], seed)
    known = {label for row in largest for label in label_sets[row]}
    assert {label for part in others for row in part for label in label_sets[row]} <= known


def test_where_all_labels_occur_once_the_sizes_still_hold():
    parts = stratified_split([[i] for i in range(50)], [0.9, 0.1], seed=1)
    assert [len(part) for part in parts] == [45, 5]


def test_seeds_differ():
    label_sets = random_sets(200, 5, 2, 0, seed=0)
    first, second = (stratified_split(label_sets, [0.9, 0.1], seed)[1].tolist() for seed in (1, 2))
    assert first != second


@pytest.mark.parametrize(
    ("label_sets", "sizes"), [([], [0, 0]), ([[]], [1, 0]), ([[3]], [1, 0]), ([[], [], [], [], []], [4, 1])]
)
def test_small_corpora(label_sets, sizes):
    parts = stratified_split(label_sets, [0.8, 0.2], seed=1)
    assert [len(part) for part in parts] == sizes


@pytest.mark.parametrize(
    ("count", "fractions", "sizes"),
    [
        (10, [0.9, 0.1], [9, 1]),
        (7769, [0.9, 0.1], [6992, 777]),
        (10, [1 / 3, 1 / 3, 1 / 3], [4, 3, 3]),
        (1000, [0.7, 0.2, 0.1], [700, 200, 100]),
    ],
)
def test_sizes(count, fractions, sizes):
    assert part_sizes(count, fractions) == sizes


@pytest.mark.parametrize("fractions", [[], [0.5, 0.6], [1.0, 0.0], [1.2, -0.2]])
def test_fractions_must_be_shares(fractions):
    with pytest.raises(ValueError, match="fractions must be positive and sum to 1"):
        stratified_split([[0]], fractions, seed=1)


def test_the_part_of_each_example() -> None:
    part_of = part_of_each([("a",), ("b",), ("a", "b"), ()] * 25, [0.8, 0.2], seed=1)
    assert part_of.shape == (100,)
    assert (part_of == 1).sum() == 20
