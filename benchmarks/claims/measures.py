"""The measures that claims compare: one number per trained row, and its values on resampled test documents.

A measure is named `<kind>/<name>`:

- `test/<metric>`, `test_multi/<metric>`, `test_unseen/<metric>`, …: a score on the test part or on a part of it
- `gap/<metric>`: the score on documents with several labels minus the score on all documents
- `combinations/distinct`, `combinations/unseen`: number of distinct label sets generated, and number of
  those that do not occur in training
- `position/<k>`: accuracy of the k-th label of the sequence
- `frequency/rare`, `frequency/frequent`: example-F1 on documents whose label set occurs in training at most five
  times, or more than a hundred times
- `early/<metric>`: mean of the first four validations of a run
"""

from __future__ import annotations

from functools import lru_cache
from math import log1p
from statistics import fmean

import numpy as np

from orderfree.experiments.result_files import Result
from orderfree.metrics.resampling import resample_weights

FOUR = ("micro_f1", "example_f1", "subset_accuracy", "hamming_accuracy")  # metrics with a value per document
FREQUENCY = {"rare": ("0", "1", "2-5"), "frequent": (">100",)}
EARLY = 4


def value(result: Result, decoder: str, measure: str) -> float | None:
    """The value of a measure; None if the file does not have it."""
    kind, _, name = measure.partition("/")
    if kind == "combinations":
        counts = result.combinations.get(decoder)
        return None if counts is None else float(getattr(counts, name))
    if kind == "position":
        accuracy = result.position_accuracy.get(decoder, [])
        return accuracy[int(name) - 1] if len(accuracy) >= int(name) else None
    if kind == "frequency":
        return _pooled_f1(result, decoder, FREQUENCY[name])
    if kind == "gap":
        several, every = value(result, decoder, f"test_multi/{name}"), value(result, decoder, f"test/{name}")
        return None if several is None or every is None else several - every
    if kind == "early":
        points = [p.validation[decoder][name] for p in result.curve if name in p.validation.get(decoder, {})]
        return fmean(points[:EARLY]) if len(points) >= EARLY else None
    if (kind, name) == ("test_unseen", "example_f1") and kind not in result.parts:
        return _pooled_f1(result, decoder, ("0",))  # the same documents: their label sets are unseen
    return result.part(kind).get(decoder, {}).get(name)


def on_scale(measure: str, number: float) -> float:
    """The scale on which spreads over seeds are comparable: logarithmic for counts of label sets, linear for scores."""
    return log1p(number) if measure.startswith("combinations/") else number


def has_documents(measure: str) -> bool:
    """Whether the measure can be computed on resampled test documents; macro-F1 would need counts by label."""
    kind, _, name = measure.partition("/")
    return (kind == "gap" or kind.startswith("test")) and name in (*FOUR, "average")


def outcomes(result: Result, decoder: str, part: str = "test") -> np.ndarray | None:
    """(N, 3) true positives, false positives and false negatives of each document; None if the file has none.

    Documents with several labels are selected by their number of true labels; other parts have their own outcomes."""
    by_decoder = result.outcomes if part in ("test", "test_multi") else result.part_outcomes.get(part, {})
    if decoder not in by_decoder:
        return None
    counts = np.fromstring(by_decoder[decoder].replace(",", " "), dtype=np.int64, sep=" ").reshape(-1, 3)
    return counts[counts[:, 0] + counts[:, 2] > 1] if part == "test_multi" else counts


def drawn(result: Result, decoder: str, measure: str) -> np.ndarray | None:
    """(R,) the measure on each resample of test documents, the same resamples for every row of a corpus.

    `average` is the mean of the four metrics that can be resampled; only the sign of its differences is used."""
    kind, _, name = measure.partition("/")
    counts = outcomes(result, decoder, "test" if kind == "gap" else kind)
    if counts is None or not len(counts):
        return None
    weights = _weights(len(counts))
    labels = _label_count(result, decoder, counts)
    metrics = FOUR if name == "average" else (name,)
    scores = np.mean([_score(metric, counts, weights, labels) for metric in metrics], axis=0)
    if kind == "gap":
        several = counts[:, 0] + counts[:, 2] > 1
        of_several = [_score(metric, counts[several], weights[:, several], labels) for metric in metrics]
        return np.mean(of_several, axis=0) - scores
    return scores


@lru_cache(maxsize=2)
def _weights(documents: int) -> np.ndarray:
    return resample_weights(documents)  # (R, N)


def _score(metric: str, counts: np.ndarray, weights: np.ndarray, labels: float) -> np.ndarray:
    hits, wrong = counts[:, 0].astype(float), (counts[:, 1] + counts[:, 2]).astype(float)
    if metric == "micro_f1":
        both = weights @ (2 * hits + wrong)
        return 2 * (weights @ hits) / np.where(both == 0, 1.0, both)
    both = 2 * hits + wrong
    by_document = {
        "example_f1": np.where(both == 0, 1.0, 2 * hits / np.where(both == 0, 1.0, both)),
        "subset_accuracy": (wrong == 0).astype(float),
        "hamming_accuracy": 1 - wrong / labels,
    }[metric]
    return weights @ by_document / np.maximum(weights.sum(axis=1), 1.0)


def _label_count(result: Result, decoder: str, counts: np.ndarray) -> float:
    """The number of labels, from Hamming accuracy = 1 - mean number of wrong labels / number of labels."""
    missed = 1 - result.test.get(decoder, {}).get("hamming_accuracy", 1.0)
    wrong = outcomes(result, decoder, "test")
    wrong = counts if wrong is None else wrong
    return float((wrong[:, 1] + wrong[:, 2]).mean() / missed) if missed > 0 else 1.0


def _pooled_f1(result: Result, decoder: str, times: tuple[str, ...]) -> float | None:
    bins = [
        (entry.examples, entry.example_f1)
        for entry in result.by_frequency.get(decoder, [])
        if entry.times in times and entry.example_f1 is not None
    ]
    total = sum(examples for examples, _ in bins)
    return sum(examples * f1 for examples, f1 in bins) / total if total else None
