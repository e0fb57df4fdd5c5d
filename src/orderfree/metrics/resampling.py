"""How sure a score is, and whether one system is better than another.

Test examples are drawn anew, with replacement, a thousand times; every system is scored on the same draws. They say how
much a score hangs on which documents happened to be in the test part. They do not say how much it hangs on the seed of
training: `between_seeds` adds the spread over several seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse, stats

from .counts import Matrix, count
from .scores import FIVE, scores

RESAMPLES = 1000
SEED = 1
INTERVALS = (*FIVE, "micro_precision", "micro_recall")
TAILS = (2.5, 97.5)  # percentiles: 95 % lie between them
AT_ONCE = 20_000_000  # draws times examples, or times labels, held in memory


def resample_weights(examples: int, resamples: int = RESAMPLES, seed: int = SEED) -> np.ndarray:
    """(R, N): how often each example was drawn. The same for all systems on the same test part."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(examples, np.full(examples, 1 / examples), size=resamples).astype(np.float64)


def resampled(metric: str, targets: Matrix, predictions: Matrix, weights: np.ndarray) -> np.ndarray:
    """(R,) the metric on each draw, without drawing: counts of examples are added up with their weights.

    A label whose true examples a draw misses, all of them, is left out of its macro-F1. Counted as 0 it would put each
    draw below the score itself, most of all where a corpus has many labels of one or two test examples."""
    if metric == "macro_f1":
        truth, given = sparse.csr_array(targets, dtype=np.float64), sparse.csr_array(predictions, dtype=np.float64)
        hits, true, predicted = weights @ truth.multiply(given).tocsr(), weights @ truth, weights @ given  # (R, L) each
        missed = (true == 0) & (truth.sum(axis=0) > 0)
        f1 = np.where(missed, 0.0, _f1(hits, true + predicted))
        return f1.sum(axis=1) / np.maximum((~missed).sum(axis=1), 1)
    _, examples = count(targets, predictions)
    if metric.startswith("micro_"):
        return _micro(metric, *(weights @ part for part in (examples.tp, examples.fp, examples.fn)))  # (R,)
    wrong = examples.fp + examples.fn
    values = {
        "example_f1": examples.f1(of_nothing=1),
        "subset_accuracy": wrong == 0,
        "hamming_accuracy": 1 - wrong / targets.shape[1],
    }[metric]
    return weights @ values / weights.sum(axis=1)


def _micro(metric: str, hits: np.ndarray, wrong: np.ndarray, missed: np.ndarray) -> np.ndarray:
    """(R,) from the counts of each draw."""
    of = {
        "micro_f1": hits + (wrong + missed) / 2,
        "micro_precision": hits + wrong,
        "micro_recall": hits + missed,
    }[metric]
    return hits / np.where(of == 0, 1.0, of)


def _f1(hits: np.ndarray, true_and_predicted: np.ndarray) -> np.ndarray:
    return 2 * hits / np.where(true_and_predicted == 0, 1.0, true_and_predicted)


def interval(drawn: np.ndarray) -> list[float]:
    """Between these two values lie 95 % of the draws."""
    return [float(value) for value in np.percentile(drawn, TAILS)]


def intervals(
    targets: Matrix, predictions: Mapping[str, Matrix], metrics: Sequence[str] = INTERVALS
) -> dict[str, dict[str, list[float]]]:
    """By name of the predictions and metric. As many draws as fit are made at a time."""
    drawn: dict[tuple[str, str], list[np.ndarray]] = {(name, metric): [] for name in predictions for metric in metrics}
    for weights in _draws(*targets.shape):
        for name, metric in drawn:
            drawn[name, metric].append(resampled(metric, targets, predictions[name], weights))
    return {name: {m: interval(np.concatenate(drawn[name, m])) for m in metrics} for name in predictions}


def _draws(examples: int, labels: int) -> Iterator[np.ndarray]:
    """`RESAMPLES` rows of weights in all."""
    size = max(1, min(RESAMPLES, AT_ONCE // max(examples, labels)))
    for start in range(0, RESAMPLES, size):
        yield resample_weights(examples, min(size, RESAMPLES - start), SEED + start)


def paired(metric: str, targets: Matrix, ours: Sequence[Matrix], theirs: Matrix) -> dict[str, Any]:
    """Our score, the mean over our seeds, less theirs, on the same draws.

    `better`: share of draws in which ours is ahead, draws that tie counted half. `p`: twice the share of draws on the
    side of zero that has fewer, ties on both sides, at most 1 and never 0; systems that predict the same have .5 and 1.
    """
    drawn = np.concatenate([_lead(metric, targets, ours, theirs, weights) for weights in _draws(*targets.shape)])
    differences = [scores(targets, one)[metric] - scores(targets, theirs)[metric] for one in ours]
    fewer = min((drawn <= 0).sum(), (drawn >= 0).sum())
    return {
        "difference": float(np.mean(differences)),
        "interval": interval(drawn),
        "better": float((drawn > 0).mean() + (drawn == 0).mean() / 2),
        "p": float(min(1.0, 2 * (fewer + 1) / (len(drawn) + 1))),
        "by_seed": differences,
    }


def between_seeds(metric: str, targets: Matrix, ours: Sequence[Matrix], theirs: Sequence[Matrix]) -> dict[str, Any]:
    """Our mean score over seeds less theirs, with a t test whose variance is the sum of two: that of the difference
    over draws of the test examples, and that of the means over the seeds of training."""
    values = [np.array([scores(targets, one)[metric] for one in own]) for own in (ours, theirs)]
    drawn = np.concatenate(
        [
            _mean(metric, targets, ours, weights) - _mean(metric, targets, theirs, weights)
            for weights in _draws(*targets.shape)
        ]
    )  # (R,)
    spread = float(np.sqrt(drawn.var() + sum(own.var(ddof=1) / len(own) for own in values)))
    difference = float(values[0].mean() - values[1].mean())
    freedom = len(ours) + len(theirs) - 2
    reach = float(stats.t.ppf(TAILS[1] / 100, freedom)) * spread
    p = 1.0 if spread < 1e-12 else float(2 * stats.t.sf(abs(difference) / spread, freedom))
    return {"difference": difference, "interval": [difference - reach, difference + reach], "p": p}


def _mean(metric: str, targets: Matrix, systems: Sequence[Matrix], weights: np.ndarray) -> np.ndarray:
    return np.mean([resampled(metric, targets, one, weights) for one in systems], axis=0)  # (R,)


def _lead(metric: str, targets: Matrix, ours: Sequence[Matrix], theirs: Matrix, weights: np.ndarray) -> np.ndarray:
    drawn = _mean(metric, targets, ours, weights) - resampled(metric, targets, theirs, weights)
    drawn[np.abs(drawn) < 1e-12] = 0.0  # rounding, not a difference
    return drawn  # (R,)
