"""How good a model is on labelled data, decoder by decoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from ..data.corpus import Corpus
from ..data.hierarchy import Hierarchy
from ..decisions.finding import POWERS, DecisionReport, Decoded, ShortlistedTruth, find_decisions
from ..decisions.goals import find_thresholds
from ..decisions.records import BEST, NamedThresholds
from ..decoding.search import POWERED, searches
from ..decoding.sets import membership
from ..errors import DataError
from ..inference import Prediction, Predictor
from ..metrics.at_k import MANY_LABELS, inverse_propensities, scores_at_k, top_labels
from ..metrics.calibration import calibration
from ..metrics.combinations import co_occurrence, combination_counts, position_accuracy, size_counts
from ..metrics.counts import Matrix, count
from ..metrics.ranking import ranking_scores
from ..metrics.resampling import intervals
from ..metrics.scores import evaluation_labels, per_label, scores, to_matrix
from ..metrics.selective import answered_curve
from ..metrics.thresholds import precision_recall
from ..types import DecodeInput, Example, Hypotheses
from .probabilities import judged_cells, label_calibration, set_calibration

PAIRS_SHOWN = 20


def decode_corpus(
    predictor: Predictor,
    corpus: Corpus,
    decoders: Sequence[str],
    powers: Sequence[float] = (),
    share: tuple[int, int] = (0, 1),
) -> Decoded:
    """An encoded corpus decoded by every search, and by joint decoding with every power. Each batch is encoded once.

    `share` (k, n): only batches k, k + n, … are decoded; the rows of all others are zero."""
    shortlist = corpus.shortlists
    shape = len(corpus), len(predictor.labels) if shortlist is None else shortlist.labels.shape[1]
    targets = np.zeros(shape, dtype=bool)  # (N, L)
    outputs = {
        decoder: torch.zeros(shape, dtype=torch.bool if searches[decoder].log_odds is None else torch.float32)
        for decoder in decoders
    }
    at_powers = {power: torch.zeros(shape, dtype=torch.bool) for power in powers}
    batches = corpus.batches(predictor.trained.config.decoding.batch_size)
    for batch in islice(batches, share[0], None, share[1]):
        decode_input = predictor.start(batch.inputs)
        targets[batch.rows.numpy()] = batch.targets.numpy()
        for decoder, output in outputs.items():
            output[batch.rows] = _without_unknown(_output(predictor, decode_input, decoder), batch.unknown)
        for power, sets in at_powers.items():
            with torch.inference_mode():
                hypotheses = searches[POWERED](decode_input, replace(predictor.limits, br_power=power))
            sets[batch.rows] = _without_unknown(_best_sets(decode_input, hypotheses), batch.unknown)
    truth = None
    if shortlist is not None:
        truth = ShortlistedTruth(shortlist.labels, sparse.csr_array(corpus.target_matrix(), dtype=bool))
    return Decoded(predictor.limits, targets, outputs, at_powers, truth)


def _output(predictor: Predictor, decode_input: DecodeInput, decoder: str) -> Tensor:
    """Sets (B, L) bool, or log-odds (B, L) where a threshold makes the sets."""
    log_odds = searches[decoder].log_odds
    if log_odds is None:
        return _best_sets(decode_input, predictor.search(decode_input, decoder))
    with torch.inference_mode():
        return log_odds(decode_input, predictor.limits).float().cpu()


def _best_sets(decode_input: DecodeInput, hypotheses: Hypotheses) -> Tensor:
    return membership(hypotheses.sequences[:, 0], decode_input.num_labels).cpu()  # (B, L)


def _without_unknown(output: Tensor, unknown: Tensor | None) -> Tensor:
    """A label of which it is not known whether an example has it counts as not predicted."""
    if unknown is None:
        return output
    return output.masked_fill(unknown, False if output.dtype == torch.bool else float("-inf"))


def decide(
    predictor: Predictor, corpus: Corpus, decoders: Sequence[str], train: Corpus | None = None
) -> DecisionReport:
    """How to decode for every metric, chosen on a validation corpus."""
    powers = [power for power in POWERS if power != predictor.limits.br_power] if POWERED in decoders else []
    choices = [predictor]
    decoding = predictor.trained.config.decoding
    if decoding.min_labels is None and predictor.limits.min_labels == 0:
        choices.append(predictor.adjusted(min_labels=1))
    decoded = [decode_corpus(each, corpus, decoders, powers) for each in choices]
    return find_decisions(decoded, decoding.br_threshold, train)


def thresholds_for(predictor: Predictor, examples: Iterable[Example], goal: str, decoder: str) -> NamedThresholds:
    """The thresholds of `decoder` that serve a metric best on these examples."""
    known = [example for example in examples if example.unknown is not None]
    if not known:
        raise DataError("no example has labels that are known; expected some to choose thresholds by.")
    labels = predictor.labels
    probs = predictor.predict_proba(known, decoder)  # (N, L)
    targets = labels.one_hot([np.array(labels.known(example.labels or ()), dtype=int) for example in known])
    for row, example in enumerate(known):
        probs[row, labels.known(example.unknown or ())] = 0.0
    return find_thresholds(probs, targets, goal, decoder, predictor.limits)


def evaluate(
    predictor: Predictor,
    examples: Iterable[Example],
    decoders: Sequence[str] | None = None,
    hierarchy: Hierarchy | None = None,
) -> dict[str, Any]:
    """All scores of a model on labelled examples, as plain JSON; by default with its own decoder.

    With a hierarchy, an example that has a label also has its parents, both in the prediction and in the truth."""
    decoders = decoders or [predictor.default_decoder]
    return judge(predictor, predict_for_scores(predictor, examples, decoders, hierarchy), decoders)


def predict_for_scores(
    predictor: Predictor, examples: Iterable[Example], decoders: Sequence[str], hierarchy: Hierarchy | None = None
) -> list[Prediction]:
    """Predictions with everything `judge` scores."""
    predictions = predictor.predict(examples, decoders, marginals=True)
    if hierarchy is not None:
        predictions = (closed(prediction, hierarchy) for prediction in predictions)
    return list(predictions)


def closed(prediction: Prediction, hierarchy: Hierarchy) -> Prediction:
    label_sets = {
        decoder: replace(label_set, labels=hierarchy.closed(label_set.labels))
        for decoder, label_set in prediction.label_sets.items()
    }
    return replace(prediction, example=hierarchy.closed_example(prediction.example), label_sets=label_sets)


def judge(predictor: Predictor, predictions: Sequence[Prediction], decoders: Sequence[str]) -> dict[str, Any]:
    """The same of predictions already made with these decoders.

    Labels of which it is not known whether an example has them count as not predicted in label sets, whatever was, and
    are no part of any score of probabilities; examples of which no label is known are left out."""
    predictions = known_parts(predictor, predictions)
    if not predictions:
        raise DataError("no example has labels that are known; expected some to judge by.")
    targets = [prediction.example.labels or () for prediction in predictions]
    names, unseen = evaluation_labels(predictor.labels.names, targets)
    truth = to_matrix(targets, names)
    shown = predictor.default_decoder if predictor.default_decoder in decoders else decoders[-1]
    generated = {d: [p.label_sets[d].labels for p in predictions] for d in decoders}
    matrices = {d: to_matrix(generated[d], names) for d in decoders}
    return {
        "examples": len(predictions),
        "labels": len(names),
        "decoders": {d: scores(truth, matrices[d]) for d in decoders},
        "intervals": intervals(truth, matrices),
        "default_decoder": shown,
        "threshold": predictor.trained.decisions.thresholds.get("br", {}).get("micro_f1"),
        "decisions": {d: predictor.decision(d).search for d in decoders if d.startswith(BEST)},
        "per_label": per_label(truth, matrices[shown], names),
        **_judge_probabilities(predictor, predictions, shown, truth, matrices[shown]),
        "set_sizes": size_counts(truth, matrices[shown]),
        "co_occurrence": co_occurrence(truth, matrices[shown], names, PAIRS_SHOWN),
        "unseen_labels": unseen,
        "truncated": sum(prediction.truncated for prediction in predictions),
        **_judge_combinations(predictor, targets, generated),
        "confused_pairs": _confused_pairs(targets, generated[shown]),
    }


def _judge_probabilities(
    predictor: Predictor, predictions: Sequence[Prediction], decoder: str, truth: sparse.csr_array, predicted: Matrix
) -> dict[str, Any]:
    """Scores of the probabilities of labels, and of the sets (N, L) that this decoder predicted."""
    known = truth[:, : len(predictor.labels.names)]  # the model's own labels come first
    probs = _stacked([p.probs for p in predictions])
    marginals = _stacked([p.marginals for p in predictions])
    by_source = {name: rows for name, rows in (("br", probs), ("sequence", marginals)) if rows is not None}
    cells = None if probs is None else judged_cells(probs, known)
    set_probs = np.array([predictor.set_prob(decoder, p.label_sets[decoder]) for p in predictions])  # (N,)
    right, f1 = _quality(truth, predicted)
    return {
        "calibration": None if cells is None else calibration(*cells),
        "label_calibration": None if probs is None else label_calibration(predictor, probs, known),
        "set_calibration": set_calibration(set_probs, right, np.asarray(predicted.sum(axis=1)).ravel()),
        "answered": answered_curve(set_probs, right, f1),
        "precision_recall": [] if cells is None else precision_recall(*cells),
        "ranking": {name: ranking_scores(rows, known) for name, rows in by_source.items()},
        "at_k": _at_k(predictor, truth, by_source),
    }


def _judge_combinations(
    predictor: Predictor, targets: Sequence[Sequence[str]], generated: dict[str, list[tuple[str, ...]]]
) -> dict[str, Any]:
    """Which label combinations each decoder generates, and how its labels at each position do."""
    trained_on = [tuple(predictor.labels.names[i] for i in ids) for ids in predictor.labels.combinations]
    true_sets = [set(labels) for labels in targets]
    return {
        "combinations": {
            "reference": combination_counts(targets, trained_on),
            **{decoder: combination_counts(sets, trained_on) for decoder, sets in generated.items()},
        },
        "position_accuracy": {
            decoder: position_accuracy(sets, true_sets)
            for decoder, sets in generated.items()
            if searches[predictor.decision(decoder).search].has_order
        },
    }


def _at_k(predictor: Predictor, truth: sparse.csr_array, probs: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Scores of the first labels by each of these probabilities (N, L); empty where labels are few. A label the model
    does not know has no place in any ranking, and is missed."""
    labels = predictor.labels
    if len(labels.names) <= MANY_LABELS:
        return {}
    counts = [*labels.counts, *[0] * (truth.shape[1] - len(labels.names))]
    weights = inverse_propensities(np.array(counts), sum(labels.combinations.values()))
    return {
        by: scores_at_k(top_labels(np.nan_to_num(rows, nan=-1.0)), truth, weights)  # what is not known comes last
        for by, rows in probs.items()
    }


def _quality(truth: Matrix, predicted: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """(N,) whether each set is right, and its F1."""
    _, examples = count(truth, predicted)
    return (examples.fp + examples.fn) == 0, examples.f1(of_nothing=1)


def _stacked(rows: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """(N, L); None where the model has no such decoder: then no example has a row, else all have."""
    present = [row for row in rows if row is not None]
    return np.stack(present) if present else None


def known_parts(predictor: Predictor, predictions: Iterable[Prediction]) -> list[Prediction]:
    """Predictions without labels of which it is not known whether the example has them: their probabilities are NaN."""
    return [_known_part(predictor, p) for p in predictions if p.example.unknown is not None]


def _known_part(predictor: Predictor, prediction: Prediction) -> Prediction:
    unknown = set(prediction.example.unknown or ())
    if not unknown:
        return prediction
    label_sets = {
        decoder: replace(label_set, labels=tuple(label for label in label_set.labels if label not in unknown))
        for decoder, label_set in prediction.label_sets.items()
    }
    probs, marginals = (
        _without(row, predictor.labels.known(unknown)) for row in (prediction.probs, prediction.marginals)
    )
    return replace(prediction, label_sets=label_sets, probs=probs, marginals=marginals)


def _without(row: np.ndarray | None, places: list[int]) -> np.ndarray | None:
    if row is None:
        return None
    row = row.copy()
    row[places] = np.nan
    return row


def _confused_pairs(targets: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Labels that were missed while another was wrongly given, most frequent first."""
    pairs: Counter[tuple[str, str]] = Counter()
    for true, predicted_labels in zip(targets, predicted, strict=True):
        missed, wrong = set(true) - set(predicted_labels), set(predicted_labels) - set(true)
        pairs.update((m, w) for m in missed for w in wrong)
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:PAIRS_SHOWN]
    return [{"missed": missed, "instead": instead, "count": count} for (missed, instead), count in ranked]
