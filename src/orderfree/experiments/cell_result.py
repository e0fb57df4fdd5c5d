"""The content of a result file: scores of both searches, outcomes of every test document, how the cell was trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from ..checkpoint import versions
from ..config import DataConfig
from ..data.readers import read_examples
from ..decoding.search import searches
from ..evaluation import judge, known_parts
from ..inference import Prediction, Predictor
from ..training.listeners import read_history
from ..types import Example
from .analyses import example_f1_by_frequency
from .result_files import FORMAT

EXAMPLES_KEPT = 50
SEEN, UNSEEN = "test_seen", "test_unseen"


@dataclass(frozen=True)
class Tested:
    """A model and its predictions for the test part, by the search that the paper defines."""

    predictor: Predictor
    decoders: list[str]
    predictions: list[Prediction]

    def scores(self, predictions: Sequence[Prediction], decoders: Sequence[str] | None = None) -> dict[str, Any]:
        by_decoder: dict[str, Any] = judge(self.predictor, predictions, decoders or self.decoders)["decoders"]
        return by_decoder

    def outcomes(self, predictions: Sequence[Prediction]) -> dict[str, str]:
        """True positives, false positives and false negatives of every document, by decoder."""
        known = known_parts(self.predictor, predictions)
        return {decoder: packed(_outcome(prediction, decoder) for prediction in known) for decoder in self.decoders}


def decode_test(predictor: Predictor, path: Path) -> Tested:
    """Decodes a test file with the paper's decoders, p_rnn = softmax(o) masked without renormalising (Eq. 3, 14)."""
    decoders = [d for d in predictor.decoders if d != "greedy" and not searches[d].over_sets]
    as_printed = searching(predictor, renormalise=False)
    return Tested(as_printed, decoders, list(as_printed.predict(_examples(path), decoders, marginals=True)))


def searching(predictor: Predictor, renormalise: bool) -> Predictor:
    """The same model with either definition of the search."""
    other = copy(predictor)
    other.limits = replace(predictor.limits, renormalise=renormalise)
    return other


def measured(tested: Tested, files: Mapping[str, Path]) -> dict[str, Any]:
    """The measurements from which tables, figures and verdicts are made."""
    predictor, decoders, predictions = tested.predictor, tested.decoders, tested.predictions
    judged = judge(predictor, predictions, decoders)
    targets = [prediction.example.labels or () for prediction in predictions]
    parts = _parts(tested, files)
    ordered = [decoder for decoder in decoders if searches[decoder].has_order]
    sequential = [decoder for decoder in decoders if searches[decoder].needs_sequence]
    return {
        "truncated": judged["truncated"],
        "test": judged["decoders"],
        "ranking": judged["ranking"],
        "parts": {part: tested.scores(chosen) for part, chosen in parts.items()},
        "outcomes": tested.outcomes(predictions),
        "part_outcomes": {part: tested.outcomes(parts[part]) for part in (SEEN, UNSEEN) if part in parts},
        **_other_search(tested, sequential, files),
        "combinations": judged["combinations"],
        "position_accuracy": judged["position_accuracy"],
        "pair_orders": {d: count_pairs(prediction.label_sets[d].labels for prediction in predictions) for d in ordered},
        "per_label": judged["per_label"],
        "confused_pairs": judged["confused_pairs"],
        "by_frequency": {
            d: example_f1_by_frequency(targets, [p.label_sets[d].labels for p in predictions], _seen_sets(predictor))
            for d in decoders
        },
        "examples": [_shown(prediction, decoders) for prediction in predictions[:EXAMPLES_KEPT]],
    }


def trained_how(predictor: Predictor, run: Path) -> dict[str, Any]:
    """The course of training, and what ended it."""
    trained = predictor.trained
    history = read_history(run / "history.jsonl")
    updates, kept = trained.metrics["updates"], trained.metrics["update"]
    planned = history[-1].get("total_updates", updates) if history else updates
    worse = sum(row["update"] > kept for row in history)
    ended_by = what_ended(updates, planned, worse, trained.config.training.patience)
    return {
        "format": FORMAT,
        "config": trained.config.model_dump(),
        "versions": versions(),
        "precision": trained.config.training.precision,
        "updates": updates,
        "kept_update": kept,
        "ended_by": ended_by,
        # three validations after the best one were no better, or there was nothing to train by gradient descent
        "flattened": worse >= 3 or ended_by in ("patience", "nothing to descend"),
        "cut_short": ended_by == "budget",
        "parameters": trained.network.parameter_count(),
        "train_examples": trained.provenance["train_examples"],
        "curve": [{"update": row["update"], "validation": row["validation"]} for row in history],
    }


def what_ended(updates: int, planned: int, worse: int, patience: int | None) -> str:
    if planned == 0:
        return "nothing to descend"
    if patience is not None and worse >= patience:
        return "patience"
    return "cap" if updates >= planned else "budget"


def _examples(path: Path) -> list[Example]:
    return list(read_examples(path, DataConfig(), labelled=True))


def _seen_sets(predictor: Predictor) -> Counter[frozenset[str]]:
    """The number of training examples with each label set."""
    names = predictor.labels.names
    return Counter({frozenset(names[i] for i in ids): times for ids, times in predictor.labels.combinations.items()})


def _parts(tested: Tested, files: Mapping[str, Path]) -> dict[str, list[Prediction]]:
    """Predictions by part of the test documents: the parts of the corpus, and seen and unseen label sets."""
    made = {prediction.example.id: prediction for prediction in tested.predictions}
    parts = {}
    for part in sorted(files.keys() - {"train", "valid", "test"}):
        parts[part] = [made[example.id] for example in _examples(files[part])]
    if SEEN not in parts:
        seen = _seen_sets(tested.predictor)
        for part, wanted in ((SEEN, True), (UNSEEN, False)):
            parts[part] = [p for p in tested.predictions if (frozenset(p.example.labels or ()) in seen) == wanted]
    return {part: chosen for part, chosen in parts.items() if chosen}


def _other_search(tested: Tested, decoders: Sequence[str], files: Mapping[str, Path]) -> dict[str, Any]:
    """Scores of the test part with the renormalising search, and of the validation part with both searches."""
    if not decoders:
        return {}
    ways = {way: searching(tested.predictor, way == "renormalised") for way in ("as_in_the_paper", "renormalised")}
    test = [prediction.example for prediction in tested.predictions]
    valid = _examples(files["valid"])
    return {
        "renormalised": tested.scores(list(ways["renormalised"].predict(test, decoders)), decoders),
        "validation_by_search": {
            way: tested.scores(list(predictor.predict(valid, decoders)), decoders) for way, predictor in ways.items()
        },
    }


def _outcome(prediction: Prediction, decoder: str) -> tuple[int, int, int]:
    true, chosen = set(prediction.example.labels or ()), set(prediction.label_sets[decoder].labels)
    return len(true & chosen), len(chosen - true), len(true - chosen)


def _shown(prediction: Prediction, decoders: Sequence[str]) -> dict[str, Any]:
    return {
        "id": prediction.example.id,
        "target": list(prediction.example.labels or ()),
        "predicted": {decoder: list(prediction.label_sets[decoder].labels) for decoder in decoders},
    }


def packed(counts: Iterable[Iterable[int]]) -> str:
    """Outcomes in the format of result files: `1,0,0 0,1,2`, one group per document."""
    return " ".join(",".join(str(count) for count in document) for document in counts)


def count_pairs(sequences: Iterable[Sequence[str]]) -> tuple[int, int]:
    """Pairs of labels that occur in more than one sequence, and how many pairs occur in both orders."""
    ordered = Counter(pair for labels in sequences for pair in combinations(labels, 2))
    pairs = {frozenset(pair): (ordered[pair], ordered[pair[::-1]]) for pair in ordered}
    return sum(sum(times) > 1 for times in pairs.values()), sum(min(times) > 0 for times in pairs.values())
