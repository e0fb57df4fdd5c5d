"""Likely label errors: planted ones are found, what is not known is not judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cleanlab.multilabel_classification import get_label_quality_scores
from scipy import sparse

from orderfree.data.labels import LabelVocabulary
from orderfree.data.writers import write_records
from orderfree.errors import ConfigError
from orderfree.tools.audit import (
    FEWEST,
    Opinion,
    Suspect,
    audit_config,
    contradictions,
    out_of_fold,
    rare_labels,
    suspects,
)

TOPICS = ("wheat", "oil", "ships", "gold")
WORDS = {"wheat": "grain harvest farm", "oil": "barrel crude well", "ships": "port cargo sea", "gold": "mine ounce bar"}


def silent(_: str) -> None:
    pass


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def audited(path: Path, folds: int = 5, top: int = 10) -> list[Suspect]:
    config = audit_config([], None, folds)
    opinion = out_of_fold(config, path, silent)
    return suspects(opinion, contradictions(opinion), path, config, top)


def easy_rows(examples: int) -> list[dict[str, object]]:
    """Each text names all words of its labels: only a planted error can be wrong."""
    rng = np.random.default_rng(1)
    rows: list[dict[str, object]] = []
    for number in range(examples):
        labels = [topic for topic in TOPICS if rng.random() < 0.4]
        words = " ".join(WORDS[label] for label in labels)
        rows.append({"id": f"n{number}", "text": f"report number {number} says {words}", "labels": labels})
    return rows


def test_most_of_the_worst_suspects_are_the_planted_errors(tmp_path: Path) -> None:
    """Of one example in twenty, a label is turned round: taken away where it was, given where it was not."""
    rng, rows = np.random.default_rng(7), easy_rows(400)
    planted = rng.choice(len(rows), len(rows) // 20, replace=False)
    for place in planted:
        labels, label = rows[place]["labels"], str(rng.choice(TOPICS))
        assert isinstance(labels, list)
        labels.remove(label) if label in labels else labels.append(label)
    found = audited(write(tmp_path / "train.jsonl", rows), top=len(planted))
    hits = {suspect.position - 1 for suspect in found} & {int(place) for place in planted}
    assert len(hits) >= 0.8 * len(planted), len(hits)  # by chance it would be 1 in 20


def test_what_is_said_of_a_suspect(tmp_path: Path) -> None:
    rows = easy_rows(200)
    rows[30] = {"id": "wrong", "text": "says barrel crude well", "labels": ["oil", "gold"]}
    rows[60] = {"id": "missing", "text": "says barrel crude well and mine ounce bar", "labels": ["oil"]}
    found = audited(write(tmp_path / "train.jsonl", rows))
    assert len(found) == 2
    by_id = {suspect.id: suspect for suspect in found}
    wrong, missing = by_id["wrong"], by_id["missing"]
    assert (wrong.position, missing.position) == (31, 61)
    assert list(wrong.wrong) == ["gold"]
    assert wrong.missing == {}
    assert wrong.wrong["gold"] < 0.5 < missing.missing["gold"]
    assert (missing.wrong, missing.labels, missing.text) == ({}, ["oil"], rows[60]["text"])
    assert found[0].score <= found[1].score


def test_what_is_not_known_is_not_judged(tmp_path: Path) -> None:
    rows = easy_rows(200)
    rows[30] = {"text": "says barrel crude well", "labels": None}
    rows[60] = {"text": "says mine ounce bar", "labels": ["gold", "oil"]}
    rows[90] = {"text": "says mine ounce bar", "labels": ["gold"], "unknown": ["oil"]}
    config, path = audit_config([], None, 5), write(tmp_path / "train.jsonl", rows)
    opinion = out_of_fold(config, path, silent)
    assert opinion.targets.shape[0] == 199
    assert opinion.unknown[89, opinion.labels.ids["oil"]]
    found = suspects(opinion, contradictions(opinion), path, config, 10)
    assert [suspect.position for suspect in found] == [61], "positions count the example without labels, too"


def test_the_same_contradiction_counts_only_where_the_file_says_something() -> None:
    targets = np.arange(100)[:, None] % 2 == [[0, 1]]
    probs = np.where(targets, 0.9, 0.1)
    probs[[4, 8], 0] = 0.01
    unknown = np.zeros(targets.shape, dtype=bool)
    unknown[8, 0] = True
    found = contradictions(opinion_of(targets, probs, unknown))
    assert found.rows.tolist() == [4]
    assert not found.issues.toarray()[8].any()
    assert found.scores[8] == pytest.approx(0.9), "of what is left"


def opinion_of(targets: np.ndarray, probs: np.ndarray, unknown: np.ndarray | None = None) -> Opinion:
    names = tuple("abcdefgh"[: targets.shape[1]])
    labels = LabelVocabulary(names, tuple(targets.sum(axis=0).tolist()), {(0,): 1})
    unknown = np.zeros(targets.shape, dtype=bool) if unknown is None else unknown
    return Opinion(labels, sparse.csc_array(targets), sparse.csc_array(probs), sparse.csc_array(unknown))


def test_scores_are_those_of_cleanlab() -> None:
    """Its exponential moving average with α = 1 is the least credible label."""
    rng = np.random.default_rng(5)
    targets, probs = rng.random((200, 5)) < 0.3, rng.random((200, 5))
    given = [np.flatnonzero(row).tolist() for row in targets]
    least = {"method": "exponential_moving_average", "alpha": 1.0}
    expected = get_label_quality_scores(given, probs, aggregator_kwargs=least)
    assert contradictions(opinion_of(targets, probs)).scores == pytest.approx(expected)


def test_a_label_with_few_examples_accuses_nobody() -> None:
    targets = np.zeros((100, 2), dtype=bool)
    targets[:50, 0] = True
    targets[: FEWEST - 1, 1] = True
    probs = np.where(targets, 0.95, 0.05)
    probs[3, :] = 0.05  # both given, both unlikely
    opinion = opinion_of(targets, probs)
    found = contradictions(opinion)
    assert found.rows.tolist() == [3]
    assert found.issues.toarray()[3].tolist() == [True, False]
    assert found.errors.nonzero()[0].tolist() == [3]
    assert rare_labels(opinion) == ["b"]
    assert found.scores[3] == found.scores.min() == pytest.approx(0.05)


def test_permuted_labels_are_the_same_suspects() -> None:
    rng = np.random.default_rng(3)
    targets = rng.random((300, 4)) < 0.3
    probs = np.clip(np.where(targets, 0.9, 0.1) + rng.normal(0, 0.05, targets.shape), 0.01, 0.99)
    for row in range(0, 300, 25):
        probs[row, row % 4] = 1 - probs[row, row % 4]
    order = np.array([2, 0, 3, 1])
    found = contradictions(opinion_of(targets, probs))
    other = contradictions(opinion_of(targets[:, order], probs[:, order]))
    assert set(found.rows) == set(range(0, 300, 25))
    assert np.array_equal(found.rows, other.rows)
    assert np.array_equal(found.issues.toarray()[:, order], other.issues.toarray())
    assert np.array_equal(found.errors, other.errors)
    assert np.allclose(found.scores, other.scores)


def test_dense_features_and_frames_are_judged_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    targets = rng.random((120, 3)) < 0.5
    targets[0] = True
    features = (targets[:, None, :] * 2.0 + rng.normal(0, 0.1, (120, 4, 3))).astype(np.float32)
    said = targets.copy()
    said[10, 0] = not said[10, 0]
    path = tmp_path / "train.npz"
    np.savez(path, X=features, Y=said.astype(np.uint8), label_names=np.array(["a", "b", "c"]))
    found = audited(path, folds=4, top=1)
    assert [suspect.position for suspect in found] == [11]
    assert [*found[0].wrong, *found[0].missing] == ["a"]


@pytest.mark.parametrize("settings", [["training.epochs=3"], ["model.encoder=bilstm"], ["objective.br_weight=0"]])
def test_settings_that_change_nothing_are_refused(settings: list[str]) -> None:
    with pytest.raises(ConfigError, match="linear classifiers only"):
        audit_config(settings, None, 5)


def test_a_preset_without_linear_classifiers_is_refused() -> None:
    with pytest.raises(ConfigError, match="fast or best"):
        audit_config([], "paper", 5)


def test_a_table_of_suspects_runs_nothing(tmp_path: Path, read_csv: Callable[[Path], list[list[str]]]) -> None:
    write_records([{"position": 1, "id": "=1+1", "wrong": {"a": 0.5}}], tmp_path / "out.csv")
    assert read_csv(tmp_path / "out.csv") == [["position", "id", "wrong"], ["1", "'=1+1", '{"a": 0.5}']]


@pytest.fixture
def read_csv() -> Callable[[Path], list[list[str]]]:
    import csv

    def read(path: Path) -> list[list[str]]:
        with open(path, encoding="utf-8", newline="") as file:
            return list(csv.reader(file))

    return read
