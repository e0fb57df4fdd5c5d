"""Scores of the first k labels: by hand, against scikit-learn and a slow twin, dense and sparse alike."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import ndcg_score

from orderfree.cli.common import print_at_k
from orderfree.decisions.records import Decisions
from orderfree.evaluation import judge
from orderfree.inference import LabelSet, Prediction
from orderfree.metrics import at_k
from orderfree.metrics.at_k import MANY_LABELS, PLACES, inverse_propensities, scores_at_k, top_labels
from orderfree.types import Example


def matrix(rows: list[list[int]], labels: int) -> sparse.csr_array:
    pairs = [(row, label) for row, true in enumerate(rows) for label in true]
    row_of, label_of = np.array(pairs, dtype=int).reshape(-1, 2).T
    return sparse.csr_array((np.ones(len(pairs), dtype=bool), (row_of, label_of)), shape=(len(rows), labels))


def slow(ranking: np.ndarray, rows: list[list[int]], weights: np.ndarray, k: int) -> dict[str, float]:
    precision, recall, ndcg, gained, best = [], [], [], [], []
    for first, true in zip(ranking.tolist(), rows, strict=True):
        if not true:
            continue
        hits = [label for label in first[:k] if label in true]
        precision.append(len(hits) / k)
        recall.append(len(hits) / len(true))
        dcg = sum(1 / math.log2(place + 2) for place, label in enumerate(first[:k]) if label in true)
        ndcg.append(dcg / sum(1 / math.log2(place + 2) for place in range(min(k, len(true)))))
        gained.append(sum(weights[label] for label in hits))
        best.append(sum(sorted((weights[label] for label in true), reverse=True)[:k]))
    means = {"p": np.mean(precision), "r": np.mean(recall), "ndcg": np.mean(ndcg), "psp": sum(gained) / sum(best)}
    return {f"{name}@{k}": float(value) for name, value in means.items()}


def test_by_hand() -> None:
    # the first example: true, false, true; the second: its only label in the second place
    ranking, truth = np.array([[4, 1, 0], [2, 3, 1]]), matrix([[0, 4], [3]], 5)
    found = scores_at_k(ranking, truth, np.array([5.0, 1.0, 1.0, 2.0, 1.0]))
    assert found["p@1"] == 1 / 2
    assert found["p@3"] == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert found["p@10"] == pytest.approx((2 / 10 + 1 / 10) / 2)
    assert (found["r@1"], found["r@3"]) == (pytest.approx(1 / 4), 1.0)
    assert found["ndcg@1"] == 1 / 2
    assert found["ndcg@3"] == pytest.approx(((1 + 1 / 2) / (1 + 1 / math.log2(3)) + 1 / math.log2(3)) / 2)
    assert found["psp@1"] == pytest.approx((1 + 0) / (5 + 2))  # the rarest true label first would be best
    assert found["psp@3"] == 1.0
    assert list(found)[:5] == ["p@1", "p@3", "p@5", "p@10", "r@1"]


def test_propensities_by_hand() -> None:
    """Jain et al.: p = 1 / (1 + C exp(-A log(n + B))) with C = (log N - 1) (B + 1)^A."""
    c = (math.log(1000) - 1) * 2.5**0.55
    expected = [1 + c * math.exp(-0.55 * math.log(n + 1.5)) for n in (0, 1, 100)]
    assert inverse_propensities(np.array([0, 1, 100]), 1000) == pytest.approx(expected)
    assert inverse_propensities(np.array([1, 2]), 2).tolist() == [1, 1]  # too few examples to say anything


cases = st.integers(0, 10_000).map(np.random.default_rng)


@given(cases)
def test_as_the_slow_twin(generator: np.random.Generator) -> None:
    labels = int(generator.integers(3, 30))
    probs = generator.random((12, labels)).round(1)  # rounded: some are equal
    targets = generator.random(probs.shape) < 0.2
    targets[0, 0] = True
    rows = [np.flatnonzero(row).tolist() for row in targets]
    weights = inverse_propensities(generator.integers(0, 50, labels), 500)
    found = scores_at_k(top_labels(probs), sparse.csr_array(targets), weights)
    ranking = np.argsort(-probs, axis=1, kind="stable")
    for k in PLACES:
        for name, value in slow(ranking, rows, weights, k).items():
            assert found[name] == pytest.approx(value), name


def test_ndcg_as_scikit_learn() -> None:
    generator = np.random.default_rng(3)
    probs, targets = generator.random((50, 40)), generator.random((50, 40)) < 0.1
    targets[np.arange(50), np.arange(50) % 40] = True
    found = scores_at_k(top_labels(probs), sparse.csr_array(targets), np.ones(40))
    for k in PLACES:
        assert found[f"ndcg@{k}"] == pytest.approx(ndcg_score(targets, probs, k=k))


@given(cases)
def test_rankings_of_dense_and_sparse_scores_agree(generator: np.random.Generator) -> None:
    scores = generator.random((9, 15)).round(1) + 0.01
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    assert (top_labels(scores) == expected).all()
    assert (top_labels(sparse.csr_array(scores)) == expected).all()


def test_rows_are_ranked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(4).random((31, 20))
    whole = top_labels(scores, 3)
    monkeypatch.setattr(at_k, "CELLS_AT_ONCE", 50)
    assert (top_labels(scores, 3) == whole).all()
    assert top_labels(scores[:0], 3).shape == (0, 3)


def test_a_short_list_leaves_places_empty() -> None:
    scores = sparse.csr_array(([0.2, 0.9], ([0, 0], [7, 3])), shape=(2, 9))
    ranking = top_labels(scores, 3)
    assert ranking.tolist() == [[3, 7, -1], [-1, -1, -1]]
    found = scores_at_k(ranking, matrix([[8], [3]], 9), np.ones(9))  # -1 is not the last label
    assert set(found.values()) == {0.0}


def test_examples_without_labels_are_left_out() -> None:
    ranking = np.array([[0, 1], [0, 1]])
    assert scores_at_k(ranking, matrix([[0], []], 2), np.ones(2))["p@1"] == 1.0
    assert scores_at_k(ranking, matrix([[], []], 2), np.ones(2))["p@1"] == 0.0


def test_as_many_rows_are_needed() -> None:
    with pytest.raises(ValueError, match="expected as many"):
        scores_at_k(np.zeros((1, 2), dtype=int), matrix([[0], [0]], 2), np.ones(2))


def judged(labels: int) -> Any:
    """Of two examples, by a model that has seen its first label in 4 of 5 training examples and no other one."""
    names = [f"l{n}" for n in range(labels)]
    predictor = SimpleNamespace(
        labels=SimpleNamespace(names=names, counts=[4, *[0] * (labels - 1)], combinations={(0,): 4, (): 1}),
        trained=SimpleNamespace(decisions=Decisions()),
        set_prob=lambda decoder, found: 1.0,
        default_decoder="br",
        decision=Decisions().look_up,
    )
    probs = np.linspace(0.9, 0.1, labels)  # (L,)
    predictions = [
        Prediction(Example(id=str(n), text="", labels=true), {"br": LabelSet(("l0",), 0.0, ())}, probs, False)
        for n, true in enumerate([("l0", "new"), ("l2",)])
    ]
    return judge(cast(Any, predictor), predictions, ["br"])["at_k"]


def test_an_evaluation_has_them_where_labels_are_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert judged(MANY_LABELS) == {}
    found = judged(MANY_LABELS + 1)
    assert list(found) == ["br"]
    assert (found["br"]["p@1"], found["br"]["r@3"]) == (1 / 2, 3 / 4)  # the label nobody knows is missed
    frequent, rare = inverse_propensities(np.array([4, 0]), 5)
    assert found["br"]["psp@1"] == pytest.approx(frequent / (2 * rare))
    print_at_k(found)
    shown = capsys.readouterr().out
    assert "k = 10" in shown
    assert [line.split()[-4] for line in shown.splitlines() if "recall" in line] == ["0.2500"]
    print_at_k({})
    assert capsys.readouterr().out == ""
