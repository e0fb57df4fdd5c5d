"""Votes of similar training examples: by hand, against an obvious twin, and as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from orderfree.scoring import neighbours as module
from orderfree.scoring.neighbours import FILE, SHARPNESS, SOFTENED, Neighbours

BAGS = scipy.sparse.csr_matrix(np.array([[3.0, 0, 0, 0], [0, 2, 0, 0], [1, 1, 0, 0]]))
TARGETS = np.array([[True, False], [False, True], [False, False]])


def log_odds(share: float) -> float:
    return float(np.log((share + SOFTENED) / (1 - share + SOFTENED)))


def test_the_nearest_one_decides_alone() -> None:
    found, _ = Neighbours.remember(BAGS, TARGETS, nearest=1, seed=1)
    votes = found.votes(scipy.sparse.csr_matrix([[5.0, 0, 0, 0], [0, 1, 0, 0]]))
    assert votes == pytest.approx(np.array([[log_odds(1), log_odds(0)], [log_odds(0), log_odds(1)]]))


def test_nearer_ones_count_more() -> None:
    """(1, 0) is at cosine 1 from the first, 0 from the second, √½ from the third, which has no labels."""
    found, _ = Neighbours.remember(BAGS, TARGETS, nearest=3, seed=1)
    votes = found.votes(scipy.sparse.csr_matrix([[1.0, 0, 0, 0]]))
    weights = np.exp(SHARPNESS * np.array([1, 0, np.sqrt(0.5)]))
    assert votes[0, 0] == pytest.approx(log_odds(weights[0] / weights.sum()), abs=1e-2)  # kept in half precision


def test_an_example_has_no_vote_on_itself() -> None:
    found, place = Neighbours.remember(BAGS, TARGETS, nearest=1, seed=1)
    assert place.tolist() == [0, 1, 2]
    assert found.votes(BAGS[:2], place[:2]) == pytest.approx(np.full((2, 2), log_odds(0)))  # the third is the nearest


def test_what_is_like_nothing_gets_the_usual_shares() -> None:
    found, _ = Neighbours.remember(BAGS, TARGETS, nearest=2, seed=1)
    votes = found.votes(scipy.sparse.csr_matrix([[0.0, 0, 0, 0], [0, 0, 0, 7.0]]))
    assert votes == pytest.approx(np.full((2, 2), log_odds(1 / 3)))


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_as_the_definition_says(seed: int, nearest: int) -> None:
    draw = np.random.default_rng(seed)
    bags = draw.random((9, 6)) * (draw.random((9, 6)) < 0.6)
    targets = draw.random((9, 4)) < 0.4
    found, place = Neighbours.remember(scipy.sparse.csr_matrix(bags), targets, nearest, seed=1)
    votes = found.votes(scipy.sparse.csr_matrix(bags), place)
    kept = found.bags.toarray()
    for row, bag in enumerate(bags):
        length = np.linalg.norm(bag)
        others = [other for other in range(9) if other != row]
        cosines = {other: float(kept[other] @ bag / length) if length else 0.0 for other in others}
        ranked = sorted((other for other in others if cosines[other] > 0), key=lambda other: -cosines[other])
        near, behind = ranked[:nearest], ranked[nearest:]
        if not near or (behind and cosines[near[-1]] - cosines[behind[0]] < 1e-5):
            continue  # nobody is alike, or a tie: either may be taken
        weights = np.exp(SHARPNESS * np.array([cosines[other] for other in near]))
        shares = weights @ targets[near] / weights.sum()
        assert votes[row] == pytest.approx([log_odds(share) for share in shares], abs=1e-3)


def test_what_is_not_alike_at_all_has_no_vote() -> None:
    """One neighbour that shares a term, barely, and many that share none: it alone is asked."""
    bags = np.eye(9)
    targets = np.zeros((9, 2), dtype=bool)
    targets[0, 0], targets[1:, 1] = True, True
    found, _ = Neighbours.remember(scipy.sparse.csr_matrix(bags), targets, nearest=9, seed=1)
    asked = np.zeros((1, 9))
    asked[0, 0] = 0.1
    votes = found.votes(scipy.sparse.csr_matrix(asked))
    assert votes[0] == pytest.approx([log_odds(1), log_odds(0)], abs=1e-4)


def test_who_does_not_know_has_no_vote() -> None:
    """Three alike: one has the first label, of the others it is not known; of the second label nobody knows."""
    bags, targets = scipy.sparse.csr_matrix(np.ones((3, 2))), np.array([[True, False], [False, False], [False, False]])
    unknown = np.array([[False, True], [True, True], [True, True]])
    found, _ = Neighbours.remember(bags, targets, nearest=3, seed=1, unknown=unknown)
    for asked in (bags[:1], scipy.sparse.csr_matrix((1, 2))):
        assert found.votes(asked)[0] == pytest.approx([log_odds(1), log_odds(0.5)], abs=1e-3)


def test_of_very_many_some_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 4)
    bags, targets = scipy.sparse.csr_matrix(np.eye(9)), np.eye(9, dtype=bool)
    found, place = Neighbours.remember(bags, targets, nearest=2, seed=3)
    assert found.bags.shape == (4, 9)
    assert (place >= 0).sum() == 4
    assert (found.bags.toarray()[place[place >= 0]] == np.eye(9)[place >= 0]).all()
    assert np.isfinite(found.votes(bags, place)).all()


@pytest.mark.parametrize("unknown", [None, TARGETS[:, ::-1]])
def test_a_file_gives_back_the_same_votes(tmp_path: Path, unknown: np.ndarray | None) -> None:
    found, _ = Neighbours.remember(BAGS, TARGETS, nearest=2, seed=1, unknown=unknown)
    found.save(tmp_path)
    asked = scipy.sparse.csr_matrix([[1.0, 0.3, 0, 0], [0.1, 1, 0, 2]])
    assert (Neighbours.load(tmp_path, nearest=2, terms=4).votes(asked) == found.votes(asked)).all()


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("bags.terms", 0, 4),
        ("bags.terms", 1, -1),
        ("bags.ends", 1, 1000),
        ("bags.ends", 0, 1),
        ("labels.numbers", 0, 2),
        ("labels.ends", 1, 2**40),
        ("bags.weights", 0, np.nan),
    ],
)
def test_numbers_that_point_nowhere_are_refused(tmp_path: Path, name: str, place: int, value: float) -> None:
    found, _ = Neighbours.remember(BAGS, TARGETS, nearest=2, seed=1)
    found.save(tmp_path)
    arrays = {key: values.copy() for key, values in load_file(tmp_path / FILE).items()}
    arrays[name][place] = value
    save_file(arrays, tmp_path / FILE)
    with pytest.raises(ValueError):  # noqa: PT011  (SciPy's own words, or ours)
        Neighbours.load(tmp_path, nearest=2, terms=4)


@pytest.mark.parametrize("kind", ["many", "twice", "fractions"])
def test_what_remember_would_not_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    found, _ = Neighbours.remember(BAGS, TARGETS, nearest=2, seed=1)
    found.save(tmp_path)
    arrays = load_file(tmp_path / FILE)
    if kind == "many":
        monkeypatch.setattr(module, "MOST", 2)
    elif kind == "twice":
        arrays |= {"labels.numbers": np.zeros(3, np.int32), "labels.ends": np.array([0, 3, 3, 3])}
    else:
        arrays["bags.ends"] = arrays["bags.ends"].astype(np.float32)
    save_file(arrays, tmp_path / FILE)
    with pytest.raises(ValueError, match=r"does not hold|that are none"):
        Neighbours.load(tmp_path, nearest=2, terms=4)


def test_other_terms_are_refused(tmp_path: Path) -> None:
    found, _ = Neighbours.remember(BAGS, TARGETS, nearest=2, seed=1)
    found.save(tmp_path)
    with pytest.raises(ValueError):  # noqa: PT011
        Neighbours.load(tmp_path, nearest=2, terms=1)
