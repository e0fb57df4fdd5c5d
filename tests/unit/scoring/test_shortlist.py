"""Candidates of each example: against a dense twin, and on bad files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from orderfree.scoring.candidates import Proposed, Shortlists
from orderfree.scoring.hard_negatives import (
    Examples,
    label_centroids,
    largest_products,
    solve_classifiers,
)
from orderfree.scoring.shortlist import ShortlistScorer, fit_scorer

TERMS, LABELS = 60, 30


def examples(count: int, seed: int) -> Examples:
    """Term n stands for label n; other terms are noise."""
    drawn = np.random.default_rng(seed)
    targets = np.zeros((count, LABELS))
    targets[np.arange(count), drawn.integers(LABELS, size=count)] = 1
    noise = drawn.random((count, TERMS - LABELS)) * (drawn.random((count, TERMS - LABELS)) < 0.1)
    bags = np.concatenate([targets, noise], axis=1)
    bags /= np.linalg.norm(bags, axis=1, keepdims=True)
    return Examples(
        sparse.csr_matrix(bags, dtype=np.float32),
        sparse.csr_matrix(targets, dtype=np.float32),
        np.ones(count),
        sparse.csr_matrix((count, LABELS)),
    )


@pytest.fixture(scope="module")
def solved() -> tuple[ShortlistScorer, Shortlists, Examples]:
    known = examples(300, 1)
    scorer, rows, lists = fit_scorer(known, 5, 1, 1.0)
    return scorer, lists, known.at(rows)


def test_largest_products_are_those_of_the_dense_product() -> None:
    drawn = np.random.default_rng(3)
    left, right = (sparse.csr_matrix(drawn.standard_normal((7, 7))) for _ in range(2))
    dense = (left @ right).toarray()
    found = largest_products(left, right, 5)
    for row in range(7):
        np.testing.assert_allclose(np.sort(found[row].data), np.sort(dense[row])[-5:], rtol=1e-4)
    assert found.data.min() < 0, "negative products count too"


def test_every_true_label_is_a_candidate(solved: tuple[ShortlistScorer, Shortlists, Examples]) -> None:
    scorer, out_of_fold, known = solved
    assert out_of_fold.recall(known.targets) == 1.0
    new = examples(50, 2)
    lists = scorer.shortlists(new.bags)
    assert lists.recall(new.targets) == 1.0
    best = lists.labels[np.arange(50), lists.scores.argmax(axis=1)]
    assert (best == new.targets.toarray().argmax(axis=1)).mean() > 0.95


def test_each_row_names_different_labels_in_order(solved: tuple[ShortlistScorer, Shortlists, Examples]) -> None:
    scorer, _, _ = solved
    bags = sparse.vstack([examples(20, 4).bags, sparse.csr_matrix((1, TERMS))], format="csr")  # one without any term
    lists = scorer.shortlists(bags)
    assert lists.labels.shape == (21, 5)
    assert (np.diff(lists.labels, axis=1) > 0).all()
    assert np.isfinite(lists.scores).all()


def test_one_bag_alone_or_among_others(solved: tuple[ShortlistScorer, Shortlists, Examples]) -> None:
    scorer, _, _ = solved
    bags = examples(9, 5).bags
    together = scorer.shortlists(bags)
    for row in range(9):
        alone = scorer.shortlists(bags[[row]])
        np.testing.assert_array_equal(alone.labels[0], together.labels[row])
        np.testing.assert_allclose(alone.scores[0], together.scores[row], rtol=1e-5)


def test_an_example_does_not_vote_for_itself(solved: tuple[ShortlistScorer, Shortlists, Examples]) -> None:
    scorer, _, _ = solved
    only = examples(1, 6)
    alone = replace(scorer, remembered=only.bags, remembered_labels=only.targets, frequent=np.zeros(TERMS, bool))
    assert alone.similar(only.bags, None).sum() == pytest.approx(1.0)
    assert alone.similar(only.bags, np.array([0])).sum() == 0.0


def test_proposals_of_both_sides_are_joined() -> None:
    cosines = sparse.csr_matrix(np.array([[0.5, 0.0, 0.3, 0.0]]))  # labels 0 and 2
    shares = sparse.csr_matrix(np.array([[0.0, 0.8, 0.2, 0.0]]))  # labels 1 and 2
    margins = np.array([[-1.0, -2.0, 0.5, 9.0]])
    joined = Proposed.join(cosines, shares, margins, np.arange(4, dtype=np.float32))
    assert joined.labels.tolist() == [0, 1, 2]
    np.testing.assert_allclose(joined.features[:, 0], [-1.0, -2.0, 0.5], rtol=1e-6)
    np.testing.assert_allclose(joined.features[:, 1], [0.5, 0.0, 0.3], rtol=1e-6)
    np.testing.assert_allclose(joined.features[:, 2], np.log([0.01, 0.81, 0.21]), rtol=1e-5)
    best = joined.features[:, :3].max(axis=0)
    np.testing.assert_allclose(joined.features[:, 4:], joined.features[:, :3] - best)
    filled = joined.best(np.array([3.0, 1.0, 2.0], dtype=np.float32), 4)
    assert filled.labels.tolist() == [[0, 1, 2, 3]], "a label that nobody proposes fills the row"
    assert filled.scores[0, 3] < 1.0
    assert joined.best(np.array([3.0, 1.0, 2.0], dtype=np.float32), 2).labels.tolist() == [[0, 2]]


def test_unknown_and_weightless_examples_change_nothing() -> None:
    known = examples(200, 7)
    confused = largest_products(known.bags, label_centroids(known), 5)
    plain = solve_classifiers(known, confused, 1, 1.0)
    wrong = known.targets.tolil(copy=True)
    wrong[0] = 1 - wrong[0].toarray()
    unknown = sparse.lil_matrix(known.targets.shape)
    unknown[0] = 1
    spoiled = Examples(known.bags, wrong.tocsr(), known.weights, unknown.tocsr())
    without = Examples(known.bags, known.targets, known.weights, unknown.tocsr())
    solutions = [solve_classifiers(each, confused, 1, 1.0) for each in (spoiled, without)]
    assert (solutions[0] != solutions[1]).nnz == 0
    best = ((known.bags @ plain[:-1]).toarray() + plain[-1].toarray()).argmax(axis=1)
    assert (best == known.targets.toarray().argmax(axis=1)).all()


def test_read_as_it_was_written(solved: tuple[ShortlistScorer, Shortlists, Examples], tmp_path: Path) -> None:
    scorer, _, _ = solved
    scorer.save(tmp_path)
    again = ShortlistScorer.load(tmp_path, TERMS)
    bags = examples(30, 8).bags
    np.testing.assert_array_equal(again.shortlists(bags).labels, scorer.shortlists(bags).labels)
    np.testing.assert_array_equal(again.shortlists(bags).scores, scorer.shortlists(bags).scores)
    with pytest.raises(ValueError, match="other terms"):
        ShortlistScorer.load(tmp_path, TERMS + 1)


def test_an_index_that_points_nowhere_is_refused(
    solved: tuple[ShortlistScorer, Shortlists, Examples], tmp_path: Path
) -> None:
    from safetensors.numpy import load_file, save_file

    scorer, _, _ = solved
    scorer.save(tmp_path)
    for name in ("classifiers.columns", "centroids.columns", "remembered.columns", "remembered_labels.columns"):
        arrays = load_file(tmp_path / "shortlist.safetensors")
        arrays[name] = arrays[name].copy()
        arrays[name][0] = 10_000
        (tmp_path / name).mkdir()
        save_file(arrays, tmp_path / name / "shortlist.safetensors")
        with pytest.raises(ValueError, match="indices"):
            ShortlistScorer.load(tmp_path / name, TERMS)
