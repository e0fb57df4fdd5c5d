"""A few examples without labels must not make many predictions empty."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from orderfree.build import complete_config, load_config, search_limits
from orderfree.data.labels import LabelVocabulary
from orderfree.decisions.finding import Decoded, find_decisions
from orderfree.decisions.records import BEST, Decision, Decisions
from orderfree.decoding.beam import Limits
from orderfree.inference import Predictor
from orderfree.testing.toy import toy_corpus
from orderfree.training.run import train
from orderfree.types import Example

BLANK = 50  # every 50th row has an empty cell: 2 %


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Predictor, list[str], list[Example]]:
    """Words that say little: most labels of a text are in doubt."""
    corpus = toy_corpus(3, train=300, test=300)
    rows = [replace(e, labels=()) if place % BLANK == 0 else e for place, e in enumerate(corpus.train)]
    settings = ["data.max_words=9", "training.epochs=2", "model.encoder_options.folds=2", "training.tensorboard=false"]
    said: list[str] = []
    run = tmp_path_factory.mktemp("blank") / "run"
    model = train(load_config(None, settings), rows, None, run, say=said.append, progress=False)
    return Predictor(model), said, corpus.test


def test_two_percent_of_blanks_leave_at_most_four_percent_empty(
    trained: tuple[Predictor, list[str], list[Example]],
) -> None:
    predictor, _, texts = trained
    decoders = [*predictor.decoders, *(BEST + metric for metric in predictor.trained.decisions.best)]
    predictions = list(predictor.predict(texts, decoders))
    for decoder in decoders:
        empty = np.mean([not prediction.label_sets[decoder].labels for prediction in predictions])
        assert empty <= 1 / BLANK + 0.02, decoder


def test_training_says_what_it_makes_of_examples_without_labels(
    trained: tuple[Predictor, list[str], list[Example]],
) -> None:
    told = next(line for line in trained[1] if "have no label" in line)
    assert told.startswith("6 of 300 examples have no label: learned as 'none'")
    assert "decoding.min_labels=0" in told
    assert "--set data.empty=unknown" in told


def test_examples_without_labels_can_be_left_out(tmp_path: Path) -> None:
    rows = [Example(str(i), text=f"word{i % 3} text", labels=(f"l{i % 3}",) if i % 4 else ()) for i in range(40)]
    tiny = {"model": {"encoder": "sparse", "encoder_options": {"hidden": 8}}, "training": {"epochs": 1}}
    config = complete_config({**tiny, "data": {"empty": "unknown"}}, "the test")
    said: list[str] = []
    model = train(config, rows, rows, tmp_path / "run", say=said.append, progress=False)
    assert model.provenance["train_examples"] == 30
    assert () not in model.labels.combinations
    assert "20 examples have no known labels (empty or null) and will be ignored" in said


@pytest.mark.parametrize(("empty", "fewest"), [(0, 1), (4, 1), (5, 0), (50, 0)])
def test_empty_sets_are_allowed_where_training_has_a_real_share_of_them(empty: int, fewest: int) -> None:
    labels = LabelVocabulary.count([*[("a",), ("b",)] * ((100 - empty) // 2), *[()] * (empty + empty % 2)], "x")
    config = complete_config({"decoding": {"min_labels": None}}, "x")
    assert search_limits(config, labels).min_labels == fewest


def _decoded(targets: np.ndarray, sets: np.ndarray, fewest: int) -> Decoded:
    return Decoded(Limits(min_labels=fewest), targets, {"greedy": torch.from_numpy(sets)})


def _sets(without: int, of: int = 100) -> np.ndarray:
    sets = np.zeros((of, 2), dtype=bool)
    sets[without:, 0] = True
    return sets


def test_validation_chooses_whether_a_set_may_be_empty() -> None:
    targets, forced = _sets(20), np.ones((100, 2), dtype=bool) & [True, False]
    right = find_decisions([_decoded(targets, _sets(20), 0), _decoded(targets, forced, 1)]).decisions
    assert right.look_up("greedy").min_labels == right.best["micro_f1"].min_labels == 0
    full = _sets(0)
    better = find_decisions([_decoded(full, _sets(1), 0), _decoded(full, full, 1)]).decisions
    assert better.look_up("greedy").min_labels == better.best["subset_accuracy"].min_labels == 1


def test_more_empty_predictions_than_there_are_is_no_choice() -> None:
    """The labels of those that are left are all right: every metric but recall would prefer it."""
    targets = _sets(20)
    wrong = np.zeros((100, 2), dtype=bool)
    wrong[:, 1] = True
    chosen = find_decisions([_decoded(targets, _sets(40), 0), _decoded(targets, wrong, 1)])
    assert chosen.decisions.look_up("greedy").min_labels == 1
    assert chosen.scores["greedy"]["micro_f1"] == 0


def test_the_chosen_number_of_labels_is_stored() -> None:
    best = {"micro_f1": Decision("greedy", min_labels=1), "macro_f1": Decision("greedy", min_labels=0)}
    decisions = Decisions(best=best, fewest={"greedy": 1})
    assert Decisions.from_json(decisions.to_json(), {}, 4, ["greedy"]) == decisions
    content = decisions.to_json()
    content["min_labels"]["decoders"]["greedy"] = 9
    with pytest.raises(ValueError, match="min_labels in thresholds"):
        Decisions.from_json(content, {}, 4, ["greedy"])
