"""Confidence intervals of scores, and paired tests between systems.

Test examples are resampled with replacement a thousand times; every system is scored on the same resamples. The spread
of a score over resamples shows how much it depends on the choice of test documents. It does not show how much the score
depends on the seed of training: `between_seeds` adds the spread over several seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse, special

from .counts import Matrix, count
from .scores import FIVE, scores

RESAMPLES = 1000
SEED = 1
INTERVALS = (*FIVE, "micro_precision", "micro_recall")
TAILS = (2.5, 97.5)  # percentiles: 95 % lie between them
AT_ONCE = 20_000_000  # resamples times examples, or times labels, held in memory


def resample_weights(examples: int, resamples: int = RESAMPLES, seed: int = SEED) -> np.ndarray:
    """(R, N): how often each example is in each resample. The same for all systems on the same test part."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(examples, np.full(examples, 1 / examples), size=resamples).astype(np.float64)


def resampled(metric: str, targets: Matrix, predictions: Matrix, weights: np.ndarray) -> np.ndarray:
    """(R,) the metric on each resample, from the counts of examples multiplied by their weights.

    A label none of whose true examples is in a resample is left out of its macro-F1. Counted as 0 it would lower the
    score of every resample, above all on a corpus with many labels of one or two test examples."""
    if metric == "macro_f1":
        truth, answer = sparse.csr_array(targets, dtype=np.float64), sparse.csr_array(predictions, dtype=np.float64)
        hits, true, predicted = weights @ truth.multiply(answer).tocsr(), weights @ truth, weights @ answer  # (R, L)
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
    """(R,) from the counts of each resample."""
    of = {
        "micro_f1": hits + (wrong + missed) / 2,
        "micro_precision": hits + wrong,
        "micro_recall": hits + missed,
    }[metric]
    return hits / np.where(of == 0, 1.0, of)


def _f1(hits: np.ndarray, true_and_predicted: np.ndarray) -> np.ndarray:
    return 2 * hits / np.where(true_and_predicted == 0, 1.0, true_and_predicted)


def interval(drawn: np.ndarray) -> list[float]:
    """The two values between which 95 % of the resamples lie."""
    return [float(value) for value in np.percentile(drawn, TAILS)]


def intervals(
    targets: Matrix, predictions: Mapping[str, Matrix], metrics: Sequence[str] = INTERVALS
) -> dict[str, dict[str, list[float]]]:
    """By name of the predictions and metric. Resamples are made in batches of at most `AT_ONCE` numbers."""
    drawn: dict[tuple[str, str], list[np.ndarray]] = {(name, metric): [] for name in predictions for metric in metrics}
    for weights in _draws(*targets.shape):
        for name, metric in drawn:
            drawn[name, metric].append(resampled(metric, targets, predictions[name], weights))
    return {name: {m: interval(np.concatenate(drawn[name, m])) for m in metrics} for name in predictions}


def _draws(examples: int, labels: int) -> Iterator[np.ndarray]:
    """`RESAMPLES` rows of weights in total."""
    size = max(1, min(RESAMPLES, AT_ONCE // max(examples, labels)))
    for start in range(0, RESAMPLES, size):
        yield resample_weights(examples, min(size, RESAMPLES - start), SEED + start)


def paired(metric: str, targets: Matrix, ours: Sequence[Matrix], theirs: Matrix) -> dict[str, Any]:
    """Our score (mean over our seeds) minus theirs, on the same resamples.

    `better`: share of resamples in which ours is higher; ties count half. `p`: twice the share of resamples on the less
    frequent side of zero, with ties on both sides, at most 1 and never 0. Identical predictions have .5 and 1.
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
    """Our mean score over seeds minus theirs, with a t test. Its variance is the sum of the variance of the difference
    over resamples of the test examples and the variance of the means over the seeds of training."""
    values = [np.array([scores(targets, one)[metric] for one in by_seed]) for by_seed in (ours, theirs)]
    drawn = np.concatenate(
        [
            _mean(metric, targets, ours, weights) - _mean(metric, targets, theirs, weights)
            for weights in _draws(*targets.shape)
        ]
    )  # (R,)
    spread = float(np.sqrt(drawn.var() + sum(by_seed.var(ddof=1) / len(by_seed) for by_seed in values)))
    difference = float(values[0].mean() - values[1].mean())
    freedom = len(ours) + len(theirs) - 2
    reach = float(special.stdtrit(freedom, TAILS[1] / 100)) * spread
    p = 1.0 if spread < 1e-12 else float(2 * special.stdtr(freedom, -abs(difference) / spread))
    return {"difference": difference, "interval": [difference - reach, difference + reach], "p": p}


def _mean(metric: str, targets: Matrix, systems: Sequence[Matrix], weights: np.ndarray) -> np.ndarray:
    return np.mean([resampled(metric, targets, one, weights) for one in systems], axis=0)  # (R,)


def _lead(metric: str, targets: Matrix, ours: Sequence[Matrix], theirs: Matrix, weights: np.ndarray) -> np.ndarray:
    drawn = _mean(metric, targets, ours, weights) - resampled(metric, targets, theirs, weights)
    drawn[np.abs(drawn) < 1e-12] = 0.0  # a rounding error, not a difference
    return drawn  # (R,)
