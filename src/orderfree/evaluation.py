"""How good a model is on labelled data, decoder by decoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .data.corpus import Corpus
from .decoding.search import membership
from .inference import Prediction, Predictor
from .metrics.combinations import combination_counts, position_accuracy
from .metrics.scores import evaluation_labels, per_label, scores, to_matrix
from .metrics.thresholds import best_threshold
from .types import DecodeInput, Example

EXAMPLES_SHOWN = 30
TEXT_SHOWN = 600  # characters
PAIRS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Validation:
    scores: dict[str, dict[str, float]]  # decoder -> metric -> value
    threshold: float | None  # of binary relevance, tuned on this very data for micro-F1


def validate(predictor: Predictor, corpus: Corpus, decoders: Sequence[str]) -> Validation:
    """Scores on an encoded corpus while training; labels are the model's own."""
    num_labels = len(predictor.labels)
    targets = np.zeros((len(corpus), num_labels), dtype=bool)  # (N, L)
    logits = torch.zeros(len(corpus), num_labels)  # (N, L) of binary relevance
    searched = [decoder for decoder in decoders if decoder != "br"]
    predicted = {decoder: np.zeros_like(targets) for decoder in searched}  # (N, L) each
    for batch in corpus.batches(predictor.trained.config.decoding.batch_size):
        given = predictor.start(batch.inputs)
        rows = batch.rows.numpy()
        targets[rows] = batch.targets.numpy()
        if given.br_logits is not None:
            logits[batch.rows] = given.br_logits.cpu()
        for decoder in searched:
            best = predictor.search(given, decoder).sequences[:, 0]  # (B, K)
            predicted[decoder][rows] = membership(best, num_labels).cpu().numpy()
    threshold = None
    if "br" in decoders:
        threshold, _ = best_threshold(logits.sigmoid().numpy(), targets)
        given = DecodeInput(num_labels, None, None, logits, torch.full((num_labels,), threshold))
        best = predictor.search(given, "br").sequences[:, 0]
        predicted["br"] = membership(best, num_labels).numpy()  # within min_labels and max_labels, as in prediction
    return Validation({decoder: scores(targets, predicted[decoder]) for decoder in decoders}, threshold)


def evaluate(predictor: Predictor, examples: Iterable[Example], decoders: Sequence[str]) -> dict[str, Any]:
    """Everything the report shows, as plain JSON. Every example must have labels."""
    return judge(predictor, list(predictor.predict(examples, decoders)), decoders)


def judge(predictor: Predictor, predictions: Sequence[Prediction], decoders: Sequence[str]) -> dict[str, Any]:
    """The same of predictions already made with these decoders."""
    targets = [prediction.example.labels or () for prediction in predictions]
    names, unseen = evaluation_labels(predictor.labels.names, targets)
    truth = to_matrix(targets, names)
    shown = predictor.default_decoder if predictor.default_decoder in decoders else decoders[-1]
    generated = {d: [p.label_sets[d].labels for p in predictions] for d in decoders}
    matrices = {d: to_matrix(generated[d], names) for d in decoders}
    trained_on = [tuple(predictor.labels.names[i] for i in ids) for ids in predictor.labels.combinations]
    return {
        "examples": len(predictions),
        "labels": len(names),
        "decoders": {d: scores(truth, matrices[d]) for d in decoders},
        "default_decoder": shown,
        "threshold": predictor.trained.thresholds.get("micro_f1"),
        "per_label": per_label(truth, matrices[shown], names),
        "unseen_labels": unseen,
        "truncated": sum(prediction.truncated for prediction in predictions),
        "combinations": {
            "reference": combination_counts(targets, trained_on),
            **{d: combination_counts(generated[d], trained_on) for d in decoders},
        },
        "position_accuracy": {
            d: position_accuracy(generated[d], [set(t) for t in targets]) for d in decoders if d != "br"
        },
        "confused_pairs": _confused_pairs(targets, generated[shown]),
        "examples_shown": _examples(predictions, shown),
    }


def _confused_pairs(targets: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Labels that were missed while another was wrongly given, most frequent first."""
    pairs: Counter[tuple[str, str]] = Counter()
    for true, given in zip(targets, predicted, strict=True):
        missed, wrong = set(true) - set(given), set(given) - set(true)
        pairs.update((m, w) for m in missed for w in wrong)
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:PAIRS_SHOWN]
    return [{"missed": missed, "instead": instead, "count": count} for (missed, instead), count in ranked]


def _examples(predictions: Sequence[Prediction], decoder: str) -> list[dict[str, Any]]:
    """Mostly the surest mistakes, and a few the model got right."""

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
        }
        for prediction in [*wrong, *correct]
    ]
