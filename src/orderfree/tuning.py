"""Threshold sets for a purpose, found on labelled data and kept in the model directory under a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch

from .checkpoint import NamedThresholds
from .decoding.search import at_threshold, membership
from .errors import DataError, OrderfreeError
from .inference import Predictor
from .metrics.scores import scores
from .metrics.thresholds import best_threshold, label_thresholds, precision_threshold
from .types import Example

PRECISION = "precision="  # before the precision that is asked for
SHOWN = ("micro_precision", "micro_recall", "micro_f1", "macro_f1", "predicted_labels_per_example")
STRENGTH = 20.0  # a label's own threshold is drawn towards the shared one as if this many positives voted for that


def find_thresholds(predictor: Predictor, examples: Iterable[Example], goal: str, decoder: str) -> NamedThresholds:
    """The thresholds of `decoder` that serve a goal best on these examples.

    micro_f1         one threshold for all labels
    macro_f1         one for each label, drawn towards that
    precision=0.9    the lowest one for all labels at which nine of ten labels that are said are right; to say none is
                     allowed, whatever `decoding.min_labels` is
    """
    known = [example for example in examples if example.unknown is not None]
    if not known:
        raise DataError("no example has labels that are known; expected some to choose thresholds by.")
    labels = predictor.labels
    probs = predictor.predict_proba(known, decoder)  # (N, L)
    targets = labels.one_hot([np.array(labels.known(example.labels or ()), dtype=int) for example in known])
    for row, example in enumerate(known):
        probs[row, labels.known(example.unknown or ())] = 0.0  # neither right nor wrong: as if it were not said
    threshold: float | list[float]
    limits = predictor.limits
    if goal in ("micro_f1", "macro_f1"):
        threshold, _ = best_threshold(probs, targets)
        if goal == "macro_f1":
            threshold = label_thresholds(probs, targets, threshold, STRENGTH).tolist()
        fewest = limits.min_labels
    else:
        threshold, fewest = precision_threshold(probs, targets, _wanted(goal)), 0
    each = torch.as_tensor(threshold, dtype=torch.float32).expand(len(labels))  # (L,)
    found = at_threshold(torch.from_numpy(probs).logit(), each, replace(limits, min_labels=fewest))
    reached = scores(targets, membership(found.sequences[:, 0], len(labels)).numpy())
    return NamedThresholds(decoder, threshold, fewest, goal, {name: reached[name] for name in SHOWN}, len(known))


def _wanted(goal: str) -> float:
    try:
        wanted = float(goal.removeprefix(PRECISION)) if goal.startswith(PRECISION) else float("nan")
    except ValueError:
        wanted = float("nan")
    if not 0 < wanted <= 1:
        raise OrderfreeError(f"--for {goal!r}: expected micro_f1, macro_f1 or, with a share up to 1, precision=0.9.")
    return wanted
