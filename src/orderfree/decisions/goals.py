"""Thresholds for a purpose of the user: best for a metric on labelled examples, or promised for new ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from ..decoding.beam import Limits
from ..errors import OrderfreeError
from ..metrics.scores import scores
from ..metrics.thresholds import best_threshold, label_thresholds
from ..promises.labels import Cells
from ..promises.promise import PRECISION, label_promise, parse_goal
from .records import NamedThresholds, Threshold, sets_at

SHOWN = ("micro_precision", "micro_recall", "micro_f1", "macro_f1", "predicted_labels_per_example")
STRENGTH = 20.0  # a label's own threshold is drawn towards the shared one as if this many positives voted for that
GOALS = "micro_f1, macro_f1 or a promise: recall=0.9, precision=0.95 or candidates=0.9"


def find_thresholds(probs: np.ndarray, targets: np.ndarray, goal: str, decoder: str, limits: Limits) -> NamedThresholds:
    """The thresholds of `decoder` that serve a metric best, given its probabilities (N, L) and targets (N, L): one for
    all labels for `micro_f1`; one for each label, drawn towards that, for `macro_f1`."""
    threshold: Threshold
    if goal not in ("micro_f1", "macro_f1"):
        raise OrderfreeError(f"--for {goal!r}: expected {GOALS}.")
    threshold, _ = best_threshold(probs, targets)
    if goal == "macro_f1":
        threshold = label_thresholds(probs, targets, threshold, STRENGTH).tolist()
    return _named(
        NamedThresholds(decoder, threshold, limits.min_labels, goal, {}, len(targets)), probs, targets, limits
    )


def promised_thresholds(
    probs: np.ndarray,
    targets: np.ndarray,
    missed: np.ndarray,
    goal: str,
    decoder: str,
    limits: Limits,
    confidence: float | None = None,
    hidden: np.ndarray | None = None,
) -> NamedThresholds:
    """The threshold of `decoder` for all labels that keeps the promise `recall=…` or `precision=…`.

    missed (N,): true labels of each example that the model does not know; hidden (N, L): cells whose truth is not
    known. For a precision, empty sets are allowed, whatever `decoding.min_labels` is."""
    wanted = parse_goal(goal)
    assert wanted is not None, "the goal is a promise"
    kind, level = wanted
    fewest = 0 if kind == PRECISION else limits.min_labels
    cells = Cells.of(probs, targets, fewest, limits.max_labels, hidden).with_missed(missed)
    promise = label_promise(cells, kind, level, confidence, int(missed.sum()))
    shown = probs if hidden is None else np.where(hidden, 0.0, probs)
    return _named(
        NamedThresholds(decoder, promise.limit, fewest, goal, {}, len(targets), promise), shown, targets, limits
    )


def _named(named: NamedThresholds, probs: np.ndarray, targets: np.ndarray, limits: Limits) -> NamedThresholds:
    """With the scores that the thresholds reach on these examples."""
    within = replace(limits, min_labels=named.min_labels)
    sets = sets_at(torch.from_numpy(probs).logit(), np.asarray(named.threshold), within)
    reached = scores(targets, sets.numpy())
    return replace(named, scores={name: reached[name] for name in SHOWN})
