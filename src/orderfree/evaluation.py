"""How good a model is on labelled data, decoder by decoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch

from .checkpoint import Threshold
from .data.corpus import Corpus
from .data.hierarchy import Hierarchy
from .decoding.beam import Limits
from .decoding.search import LINEAR, MARGIN, POWERED, at_threshold, membership, searches
from .errors import DataError
from .inference import BEST, Prediction, Predictor
from .metrics.calibration import calibration
from .metrics.combinations import co_occurrence, combination_counts, position_accuracy, size_counts
from .metrics.ranking import ranking_scores
from .metrics.resampling import intervals
from .metrics.scores import evaluation_labels, per_label, scores, to_matrix
from .metrics.thresholds import (
    best_threshold,
    candidate_thresholds,
    label_thresholds,
    macro_threshold,
    precision_recall,
)
from .team import ALONE, Team
from .tracing import likeliest, trace
from .types import Example

TUNED = ("micro_f1", "macro_f1", "example_f1", "subset_accuracy", "hamming_accuracy")  # what decoding can be chosen for
EXAMPLES_SHOWN = 30
TEXT_SHOWN = 600  # characters
PAIRS_SHOWN = 20
CANDIDATES_SHOWN = 5  # at every step of an example


@dataclass(frozen=True, slots=True)
class Validation:
    scores: dict[str, dict[str, float]]  # decoder -> metric -> value
    threshold: float | None  # of binary relevance, tuned on this very data for micro-F1


def validate(predictor: Predictor, corpus: Corpus, decoders: Sequence[str], team: Team = ALONE) -> Validation:
    """Scores on an encoded corpus while training; labels are the model's own. Thresholds are tuned for micro-F1.
    Several processes share the work, and all come to the same scores."""
    targets, outputs = _decoded(predictor, corpus, decoders, team)
    threshold, found = None, {}
    for decoder in decoders:
        chosen = outputs[decoder]
        if searches[decoder].log_odds is not None:
            fixed = _fixed_threshold(predictor, decoder)
            best = fixed if fixed is not None else best_threshold(_probabilities(chosen), targets)[0]
            chosen = _at(chosen, best, predictor.limits)
            threshold = best if decoder == "br" else threshold
        found[decoder] = scores(targets, chosen.numpy())
    return Validation(found, threshold)


def _fixed_threshold(predictor: Predictor, decoder: str) -> float | None:
    """What the config says instead of a choice on validation."""
    return predictor.trained.config.decoding.br_threshold if decoder == "br" else None


@dataclass(frozen=True, slots=True)
class Decisions:
    """What validation says about decoding: chosen once, stored with the model."""

    scores: dict[str, dict[str, float]]  # decoder -> metric -> value, at the threshold for micro-F1
    thresholds: dict[str, dict[str, Threshold]]  # decoder -> metric it was tuned for -> threshold
    decoders: dict[str, str]  # metric -> the decoder that is best for it
    powers: dict[str, float]  # metric -> br_power, where joint decoding with that power is best for it
    values: dict[str, float]  # metric -> what all that reaches here


FEWEST = 5  # examples of a label, without which validation says next to nothing about its F1


def decide(predictor: Predictor, corpus: Corpus, decoders: Sequence[str], train: Corpus | None = None) -> Decisions:
    """For every metric, the best threshold of every decoder that has one, and the best of all decoders.

    Ties go to the first in the paper's order: what is simpler. Macro-F1 may have a threshold for each label: those of
    the linear classifiers are found on their out-of-fold scores of `train`, where that has any. Where more than half of
    the labels are too rare here for a choice by macro-F1, these are the choice."""
    targets, outputs = _decoded(predictor, corpus, decoders)
    found = _out_of_fold_thresholds(train, predictor.limits) if train is not None and LINEAR in decoders else None
    usual: dict[str, dict[str, float]] = {}
    thresholds: dict[str, dict[str, Threshold]] = {}
    best: dict[str, tuple[float, str]] = {}
    powers: dict[str, float] = {}
    rare, out_of_fold = found is not None and bool(2 * (targets.sum(axis=0) < FEWEST).sum() > targets.shape[1]), 0.0
    for decoder in decoders:
        output = outputs[decoder]
        if searches[decoder].log_odds is None:
            usual[decoder] = scores(targets, output.numpy())
            values = {metric: usual[decoder][metric] for metric in TUNED}
        else:
            fixed = _fixed_threshold(predictor, decoder)
            tried = candidate_thresholds(_probabilities(output), targets) if fixed is None else np.array([fixed])
            rows = [scores(targets, _at(output, float(t), predictor.limits).numpy()) for t in tried]
            choice = {metric: int(np.argmax([row[metric] for row in rows])) for metric in TUNED}
            thresholds[decoder] = {metric: float(tried[place]) for metric, place in choice.items()}
            usual[decoder] = rows[choice["micro_f1"]]
            values = {metric: rows[place][metric] for metric, place in choice.items()}
            if fixed is None:
                shared = float(tried[choice["macro_f1"]])
                own, value = _for_each_label(output, targets, shared, predictor.limits)
                if value > values["macro_f1"]:
                    thresholds[decoder]["macro_f1"], values["macro_f1"] = own, value
            if decoder == LINEAR and found is not None:
                out_of_fold = scores(targets, _at(output, np.array(found), predictor.limits).numpy())["macro_f1"]
                if out_of_fold > values["macro_f1"] or rare:
                    thresholds[decoder]["macro_f1"], values["macro_f1"] = found, out_of_fold
        for metric, value in values.items():
            if metric not in best or value > best[metric][0]:
                best[metric] = (value, decoder)
    if POWERED in decoders:
        for power, sets in _at_powers(predictor, corpus).items():
            for metric, value in scores(targets, sets.numpy()).items():
                if metric in best and value > best[metric][0]:
                    best[metric], powers[metric] = (value, POWERED), power
    if rare:
        best["macro_f1"] = (out_of_fold, LINEAR)
        powers.pop("macro_f1", None)
    chosen = {metric: decoder for metric, (_, decoder) in best.items()}
    return Decisions(usual, thresholds, chosen, powers, {metric: value for metric, (value, _) in best.items()})


MOST_SCORES = 100_000_000  # more would take minutes, and a corpus of that size has enough validation examples


def _out_of_fold_thresholds(train: Corpus, limits: Limits) -> list[float] | None:
    """A threshold for macro-F1 for every label, by the scores that training examples got from linear classifiers which
    had not seen them. Nine times as many examples as validation has, and all labels: on Reuters, thresholds found on
    5,000 of them had a macro-F1 on others .013 higher than those found on 777."""
    if train.scores is None or train.scores.size > MOST_SCORES:
        return None
    log_odds, unknown, targets = MARGIN * torch.from_numpy(train.scores), train.unknown(), train.targets()
    if unknown is not None:
        log_odds = log_odds.masked_fill(torch.from_numpy(unknown), float("-inf"))
    shared = macro_threshold(_probabilities(log_odds), targets)
    return _for_each_label(log_odds, targets, shared, limits)[0]


POWERS = (0.25, 0.5, 1.0, 2.0)  # tried besides the model's own: how much P_br weighs against P_path


def _at_powers(predictor: Predictor, corpus: Corpus) -> dict[float, torch.Tensor]:
    """What joint decoding finds at each power: (N, L) bool. Every input is encoded once for all of them."""
    powers = [power for power in POWERS if power != predictor.limits.br_power]
    found = {power: torch.zeros(len(corpus), len(predictor.labels), dtype=torch.bool) for power in powers}
    for batch in corpus.batches(predictor.trained.config.decoding.batch_size):
        given = predictor.start(batch.inputs)
        for power, sets in found.items():
            with torch.inference_mode():
                best = searches[POWERED](given, replace(predictor.limits, br_power=power)).sequences[:, 0]  # (B, K)
            chosen = membership(best, len(predictor.labels)).cpu()
            sets[batch.rows] = chosen if batch.unknown is None else chosen & ~batch.unknown
    return found


STRENGTHS = (5.0, 20.0, 80.0)  # how strongly a label's own threshold is drawn towards the shared one


def _for_each_label(
    log_odds: torch.Tensor, targets: np.ndarray, shared: float, limits: Limits
) -> tuple[list[float], float]:
    """A threshold for every label, and the macro-F1 such thresholds reach on rows they were not chosen on: as many
    choices as labels would always look good on the rows that made them."""
    probs = _probabilities(log_odds)
    halves = [np.arange(len(probs)) % 2 == side for side in (0, 1)]
    if not all(half.any() for half in halves):
        return [shared] * probs.shape[1], -1.0
    values = {}
    for strength in STRENGTHS:
        sets = np.zeros_like(targets)
        for half in halves:
            chosen = label_thresholds(probs[half], targets[half], shared, strength)
            sets[~half] = _at(log_odds[torch.from_numpy(~half)], chosen, limits).numpy()
        values[strength] = scores(targets, sets)["macro_f1"]
    best = max(values, key=lambda strength: (values[strength], strength))
    return label_thresholds(probs, targets, shared, best).tolist(), values[best]


def _decoded(
    predictor: Predictor, corpus: Corpus, decoders: Sequence[str], team: Team = ALONE
) -> tuple[np.ndarray, dict[str, torch.Tensor]]:
    """Targets (N, L) and, for every decoder, sets (N, L) bool, or log-odds (N, L) where a threshold makes the sets."""
    num_labels = len(predictor.labels)
    targets = np.zeros((len(corpus), num_labels), dtype=bool)  # (N, L)
    outputs = {
        d: torch.zeros(len(corpus), num_labels, dtype=torch.bool if searches[d].log_odds is None else torch.float32)
        for d in decoders
    }
    batches = corpus.batches(predictor.trained.config.decoding.batch_size)
    for batch in islice(batches, team.rank, None, team.size):  # each batch is decoded by one process
        given = predictor.start(batch.inputs)
        targets[batch.rows.numpy()] = batch.targets.numpy()
        for decoder, output in outputs.items():
            log_odds = searches[decoder].log_odds
            if log_odds is None:
                best = predictor.search(given, decoder).sequences[:, 0]  # (B, K)
                found, absent = membership(best, num_labels).cpu(), 0.0
            else:
                with torch.inference_mode():
                    found, absent = log_odds(given, predictor.limits).float().cpu(), float("-inf")
            # what is not known is neither right nor wrong: as if it had not been predicted
            output[batch.rows] = found if batch.unknown is None else found.masked_fill(batch.unknown, absent)
    # rows that other processes decoded are zero here: the sum has every row once
    return team.added(torch.from_numpy(targets)).numpy(), {name: team.added(found) for name, found in outputs.items()}


def _probabilities(log_odds: torch.Tensor) -> np.ndarray:
    probs: np.ndarray = log_odds.sigmoid().numpy()
    return probs


def _at(log_odds: torch.Tensor, threshold: float | np.ndarray, limits: Limits) -> torch.Tensor:
    """The sets (N, L) at this threshold, within min_labels and max_labels as in prediction."""
    num_labels = log_odds.shape[1]
    found = at_threshold(log_odds, torch.as_tensor(threshold, dtype=log_odds.dtype).expand(num_labels), limits)
    return membership(found.sequences[:, 0], num_labels)


def evaluate(
    predictor: Predictor, examples: Iterable[Example], decoders: Sequence[str], hierarchy: Hierarchy | None = None
) -> dict[str, Any]:
    """Everything the report shows, as plain JSON. Every example must have labels. With a hierarchy, whoever has a label
    has its parents, in what is predicted and in what is true."""
    predictions = predictor.predict(examples, decoders, marginals=True)
    if hierarchy is not None:
        predictions = (_closed(prediction, hierarchy) for prediction in predictions)
    return judge(predictor, list(predictions), decoders)


def _closed(prediction: Prediction, hierarchy: Hierarchy) -> Prediction:
    label_sets = {
        decoder: replace(found, labels=hierarchy.closed(found.labels))
        for decoder, found in prediction.label_sets.items()
    }
    return replace(prediction, example=hierarchy.closed_example(prediction.example), label_sets=label_sets)


def judge(predictor: Predictor, predictions: Sequence[Prediction], decoders: Sequence[str]) -> dict[str, Any]:
    """The same of predictions already made with these decoders.

    Labels of which it is not known whether an example has them count as not predicted, whatever was; examples of which
    no label is known are left out."""
    predictions = [_known_part(predictor, p) for p in predictions if p.example.unknown is not None]
    if not predictions:
        raise DataError("no example has labels that are known; expected some to judge by.")
    targets = [prediction.example.labels or () for prediction in predictions]
    names, unseen = evaluation_labels(predictor.labels.names, targets)
    truth = to_matrix(targets, names)
    shown = predictor.default_decoder if predictor.default_decoder in decoders else decoders[-1]
    generated = {d: [p.label_sets[d].labels for p in predictions] for d in decoders}
    matrices = {d: to_matrix(generated[d], names) for d in decoders}
    trained_on = [tuple(predictor.labels.names[i] for i in ids) for ids in predictor.labels.combinations]
    known = truth[:, : len(predictor.labels.names)]  # the model's own labels come first
    probs = _stacked([p.probs for p in predictions])
    marginals = _stacked([p.marginals for p in predictions])
    return {
        "examples": len(predictions),
        "labels": len(names),
        "decoders": {d: scores(truth, matrices[d]) for d in decoders},
        "intervals": intervals(truth, matrices),
        "default_decoder": shown,
        "threshold": predictor.trained.thresholds.get("br", {}).get("micro_f1"),
        "decisions": {d: predictor.resolve(d)[0] for d in decoders if d.startswith(BEST)},
        "per_label": per_label(truth, matrices[shown], names),
        "calibration": calibration(probs, known) if probs is not None else None,
        "precision_recall": precision_recall(probs, known) if probs is not None else [],
        "ranking": {
            name: ranking_scores(rows, known)
            for name, rows in (("br", probs), ("sequence", marginals))
            if rows is not None
        },
        "set_sizes": size_counts(truth, matrices[shown]),
        "co_occurrence": co_occurrence(truth, matrices[shown], names, PAIRS_SHOWN),
        "unseen_labels": unseen,
        "truncated": sum(prediction.truncated for prediction in predictions),
        "combinations": {
            "reference": combination_counts(targets, trained_on),
            **{d: combination_counts(generated[d], trained_on) for d in decoders},
        },
        "position_accuracy": {
            d: position_accuracy(generated[d], [set(t) for t in targets])
            for d in decoders
            if searches[predictor.resolve(d)[0]].has_order
        },
        "confused_pairs": _confused_pairs(targets, generated[shown]),
        "examples_shown": _examples(predictor, predictions, shown),
    }


def _stacked(rows: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """(N, L); None where the model has no such decoder: then no example has a row, else all have."""
    found = [row for row in rows if row is not None]
    return np.stack(found) if found else None


def _known_part(predictor: Predictor, prediction: Prediction) -> Prediction:
    unknown = set(prediction.example.unknown or ())
    if not unknown:
        return prediction
    label_sets = {
        decoder: replace(found, labels=tuple(label for label in found.labels if label not in unknown))
        for decoder, found in prediction.label_sets.items()
    }
    probs = prediction.probs
    if probs is not None:
        probs = probs.copy()
        probs[predictor.labels.known(unknown)] = 0.0
    return replace(prediction, label_sets=label_sets, probs=probs)


def _confused_pairs(targets: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Labels that were missed while another was wrongly given, most frequent first."""
    pairs: Counter[tuple[str, str]] = Counter()
    for true, given in zip(targets, predicted, strict=True):
        missed, wrong = set(true) - set(given), set(given) - set(true)
        pairs.update((m, w) for m in missed for w in wrong)
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:PAIRS_SHOWN]
    return [{"missed": missed, "instead": instead, "count": count} for (missed, instead), count in ranked]


def _examples(predictor: Predictor, predictions: Sequence[Prediction], decoder: str) -> list[dict[str, Any]]:
    """Mostly the surest mistakes, and a few the model got right; each with how it came about."""

    def right(prediction: Prediction) -> bool:
        return set(prediction.label_sets[decoder].labels) == set(prediction.example.labels or ())

    surest = sorted(predictions, key=lambda prediction: -prediction.label_sets[decoder].log_prob)
    wrong = [prediction for prediction in surest if not right(prediction)][: EXAMPLES_SHOWN * 2 // 3]
    correct = [prediction for prediction in predictions if right(prediction)][: EXAMPLES_SHOWN - len(wrong)]
    return [
        {
            "id": prediction.example.id,
            "text": (prediction.example.text or "")[:TEXT_SHOWN],
            "target": list(prediction.example.labels or ()),
            "predicted": list(prediction.label_sets[decoder].labels),
            "log_prob": prediction.label_sets[decoder].log_prob,
            "generation": generation(predictor, prediction.example, decoder),
        }
        for prediction in [*wrong, *correct]
    ]


def generation(predictor: Predictor, example: Example, decoder: str) -> dict[str, Any]:
    """How one prediction came about: the steps of the label decoder, or where there is none the likeliest labels of
    binary relevance."""
    told = trace(predictor, example, decoder, words=0)
    names = (*predictor.labels.names, None)
    br: Sequence[float] = [] if told.br_probs is None else told.br_probs.tolist()

    def said(place: int) -> dict[str, Any]:
        return {"label": names[place], "br": br[place] if place < len(br) else None}

    if told.steps:
        steps = [
            {
                "taken": step.taken,
                "prob": step.prob,
                "may_stop": step.may_stop,
                "must_stop": step.must_stop,
                "candidates": [
                    {**said(place), "prob": float(step.probs[place])}
                    for place in likeliest(predictor, step, CANDIDATES_SHOWN)
                ],
            }
            for step in told.steps
        ]
        return {"told_by": told.told_by, "steps": steps, "br": []}
    thresholds = [0.5] * len(br) if told.br_thresholds is None else told.br_thresholds.tolist()
    likely = np.argsort(-np.asarray(br), kind="stable")[: 2 * CANDIDATES_SHOWN].tolist()
    decided = [
        {**said(place), "threshold": thresholds[place], "taken": names[place] in told.chosen.labels} for place in likely
    ]
    return {"told_by": None, "steps": [], "br": decided}
