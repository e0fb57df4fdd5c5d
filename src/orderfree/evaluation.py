"""How good a model is on labelled data, decoder by decoder."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from .checkpoint import TrainedModel
from .data.corpus import Corpus
from .data.hierarchy import Hierarchy
from .decisions.finding import POWERS, DecisionReport, Decoded, ShortlistedTruth, find_decisions
from .decisions.goals import find_thresholds
from .decisions.records import BEST, NamedThresholds
from .decoding.search import POWERED, searches
from .decoding.sets import membership
from .errors import DataError
from .inference import Prediction, Predictor
from .metrics.at_k import MANY_LABELS, inverse_propensities, scores_at_k, top_labels
from .metrics.calibration import (
    brier_score,
    calibration,
    calibration_by_group,
    expected_calibration_error,
    reliability,
)
from .metrics.combinations import co_occurrence, combination_counts, position_accuracy, size_counts
from .metrics.counts import Matrix, count
from .metrics.ranking import ranking_scores
from .metrics.recalibration import find_repair
from .metrics.resampling import intervals
from .metrics.scores import evaluation_labels, per_label, scores, to_matrix
from .metrics.selective import answered_curve
from .metrics.thresholds import precision_recall
from .types import DecodeInput, Example, Hypotheses

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
        predictions = (_closed(prediction, hierarchy) for prediction in predictions)
    return list(predictions)


def _closed(prediction: Prediction, hierarchy: Hierarchy) -> Prediction:
    label_sets = {
        decoder: replace(found, labels=hierarchy.closed(found.labels))
        for decoder, found in prediction.label_sets.items()
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
    trained_on = [tuple(predictor.labels.names[i] for i in ids) for ids in predictor.labels.combinations]
    known = truth[:, : len(predictor.labels.names)]  # the model's own labels come first
    sure = np.array([predictor.set_prob(shown, prediction.label_sets[shown]) for prediction in predictions])  # (N,)
    right, f1 = _quality(truth, matrices[shown])
    probs = _stacked([p.probs for p in predictions])
    marginals = _stacked([p.marginals for p in predictions])
    judged = None if probs is None else _judged_cells(probs, known)
    return {
        "examples": len(predictions),
        "labels": len(names),
        "decoders": {d: scores(truth, matrices[d]) for d in decoders},
        "intervals": intervals(truth, matrices),
        "default_decoder": shown,
        "threshold": predictor.trained.decisions.thresholds.get("br", {}).get("micro_f1"),
        "decisions": {d: predictor.decision(d).search for d in decoders if d.startswith(BEST)},
        "per_label": per_label(truth, matrices[shown], names),
        "calibration": calibration(*judged) if judged is not None else None,
        "label_calibration": _label_calibration(predictor, probs, known),
        "set_calibration": set_calibration(sure, right, np.asarray(matrices[shown].sum(axis=1)).ravel()),
        "answered": answered_curve(sure, right, f1),
        "precision_recall": precision_recall(*judged) if judged is not None else [],
        "ranking": {
            name: ranking_scores(rows, known)
            for name, rows in (("br", probs), ("sequence", marginals))
            if rows is not None
        },
        "at_k": _at_k(predictor, truth, {"br": probs, "sequence": marginals}),
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
            if searches[predictor.decision(d).search].has_order
        },
        "confused_pairs": _confused_pairs(targets, generated[shown]),
    }


def _at_k(
    predictor: Predictor, truth: sparse.csr_array, probs: dict[str, np.ndarray | None]
) -> dict[str, dict[str, float]]:
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
        if rows is not None
    }


def _judged_cells(probs: np.ndarray, truth: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and truth (C,) of all examples and labels (N, L) but those that are not known."""
    judged = ~np.isnan(probs)
    return probs[judged], _dense(truth)[judged]


def _dense(truth: Matrix) -> np.ndarray:
    """(N, L) bool. A sparse matrix that is asked for no cells at all answers with what is no array."""
    return (truth if isinstance(truth, np.ndarray) else truth.toarray()).astype(bool)


LIKELY = 0.01  # cells below this probability are no test of calibration, and there are very many


def _label_calibration(predictor: Predictor, probs: np.ndarray | None, truth: Matrix) -> dict[str, Any] | None:
    """How honest label probabilities are by the frequency of labels in training (group: its digits), and what the
    repair that validation chose makes of them."""
    if probs is None:
        return None
    rows, columns = np.nonzero(probs >= LIKELY)  # what is not known is NaN, and not among them
    cells, true = probs[rows, columns].astype(float), _dense(truth)[rows, columns]
    digits = np.array([len(str(count)) for count in predictor.labels.counts])[columns]
    repair = predictor.trained.decisions.label_repair
    return {
        "from": LIKELY,
        "by_digits_of_frequency": calibration_by_group(cells, true, digits),
        "repair": None if repair is None else repair.kind,
        "repaired_calibration_error": None if repair is None else expected_calibration_error(repair(cells), true),
        "repaired_brier_score": None if repair is None else brier_score(repair(cells), true),
    }


def set_calibration(sure: np.ndarray, right: np.ndarray, sizes: np.ndarray) -> dict[str, Any]:
    """How honest the probabilities of whole sets are (N,), all together and by the size of the predicted set."""
    return {
        "expected_calibration_error": expected_calibration_error(sure, right),
        "brier_score": brier_score(sure, right),
        "reliability": reliability(sure, right),
        "by_size": calibration_by_group(sure, right, sizes),
    }


def repair_probabilities(trained: TrainedModel, corpus: Corpus) -> dict[str, Any]:
    """Chooses repairs of label probabilities, and of the probabilities of the default decoder's sets, on a validation
    corpus, and stores them in the decisions; what they change there."""
    predictor = Predictor(trained)
    decoder = predictor.default_decoder
    cells: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    sets: list[tuple[float, bool]] = []
    for batch in corpus.batches(predictor.trained.config.decoding.batch_size):
        given = predictor.start(batch.inputs)
        truth = batch.targets.numpy()
        unknown = batch.unknown is not None and bool(batch.unknown.any())  # it is not known which sets are right
        if unknown or given.labels is not None:  # nor are shortlists repaired
            continue
        if given.br_logits is not None:
            probs = given.br_logits.sigmoid().cpu().numpy()
            rows, columns = np.nonzero(probs >= LIKELY)
            cells.append((probs[rows, columns], truth[rows, columns], batch.rows.numpy()[rows]))
        hypotheses = predictor.search(given, decoder)
        right = (_best_sets(given, hypotheses).numpy() == truth).all(axis=1)
        found = predictor.label_sets(hypotheses)
        sets += [(min(math.exp(one.log_prob), 1.0), bool(same)) for one, same in zip(found, right, strict=True)]
    probs, true, own = (np.concatenate(part) for part in zip(*cells, strict=True)) if cells else (np.zeros(0),) * 3
    of_labels, told = find_repair(probs, true.astype(bool), own.astype(int))
    sure, correct = np.array(sets, dtype=float).reshape(-1, 2).T
    of_sets, told_of_sets = find_repair(sure, correct.astype(bool))
    trained.decisions = replace(trained.decisions, label_repair=of_labels, set_repairs={decoder: of_sets})
    return {"labels": told, "sets": {"decoder": decoder, **told_of_sets}}


def _quality(truth: Matrix, predicted: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """(N,) whether each set is right, and its F1."""
    _, examples = count(truth, predicted)
    return (examples.fp + examples.fn) == 0, examples.f1(of_nothing=1)


def _stacked(rows: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """(N, L); None where the model has no such decoder: then no example has a row, else all have."""
    found = [row for row in rows if row is not None]
    return np.stack(found) if found else None


def known_parts(predictor: Predictor, predictions: Iterable[Prediction]) -> list[Prediction]:
    """Predictions without labels of which it is not known whether the example has them: their probabilities are NaN."""
    return [_known_part(predictor, p) for p in predictions if p.example.unknown is not None]


def _known_part(predictor: Predictor, prediction: Prediction) -> Prediction:
    unknown = set(prediction.example.unknown or ())
    if not unknown:
        return prediction
    label_sets = {
        decoder: replace(found, labels=tuple(label for label in found.labels if label not in unknown))
        for decoder, found in prediction.label_sets.items()
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
    for true, given in zip(targets, predicted, strict=True):
        missed, wrong = set(true) - set(given), set(given) - set(true)
        pairs.update((m, w) for m in missed for w in wrong)
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:PAIRS_SHOWN]
    return [{"missed": missed, "instead": instead, "count": count} for (missed, instead), count in ranked]
