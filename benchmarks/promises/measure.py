"""What promises, made on random calibration examples, are worth on others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import betabinom, binom

from orderfree.inference import Predictor
from orderfree.metrics.calibration import brier_score, expected_calibration_error
from orderfree.metrics.selective import answered_curve, reached
from orderfree.promises.labels import Cells, Refusal, precision_threshold, recall_threshold
from orderfree.promises.sets import list_lengths, list_limit, true_scores
from orderfree.promises.shift import Looks, Reference, compare

LEVELS = (0.8, 0.9, 0.95)
CONFIDENCE = 0.95
PROMISES = (  # kind, confidence
    ("recall", None),
    ("recall", CONFIDENCE),
    ("precision", CONFIDENCE),
    ("candidates", None),
    ("candidates", CONFIDENCE),
)
NOISE = 2.0  # standard errors by which a mean may miss what was promised
SIGNIFICANT = 0.01  # probability below which too many broken promises are no accident
BLOCK = 500  # texts that the service compares at once
Outcome = dict[str, float] | None  # of one split; None: the promise was refused


class HeldOut:
    """What a model says of N held-out examples."""

    def __init__(self, folder: Path, part: str = "held_out") -> None:
        self.stored = dict(np.load(folder / f"{part}.npz"))
        limits = Predictor.load(folder / "model").limits
        probs, targets, missed = (self.stored[name] for name in ("br", "targets", "unknown"))
        self.cells = {
            "recall": Cells.of(probs, targets, limits.min_labels, limits.max_labels).with_missed(missed),
            "precision": Cells.of(probs, targets, 0, limits.max_labels),
        }
        self.probs, self.place = self.stored["set_probs"], self.stored["true_place"]
        self.scores = true_scores(self.probs, self.place)
        self.examples, self.labels = targets.shape

    def threshold(self, kind: str, level: float, confidence: float | None, own: np.ndarray) -> float | Refusal:
        """Of a promise made on the examples own (n,)."""
        if kind == "candidates":
            return list_limit(self.scores[own], level, confidence)
        cells = self.cells[kind].of_examples(own)
        if kind == "recall":
            return recall_threshold(cells, level, confidence)
        assert confidence is not None
        return precision_threshold(cells, level, confidence)

    def outcome(self, kind: str, threshold: float, new: np.ndarray) -> dict[str, float]:
        """What a threshold achieves on the examples new (m,)."""
        if kind == "candidates":
            return self._lists(threshold, new)
        cells = self.cells[kind].of_examples(new)
        losses = cells.recall_losses(threshold) if kind == "recall" else cells.precision_losses(threshold)
        predicted = float((cells.probs >= threshold).sum() / cells.examples)
        achieved = 1 - float(losses.mean()) if len(losses) else 1.0
        return {"achieved": achieved, "labels_per_example": predicted, "answered": len(losses) / len(new)}

    def _lists(self, limit: float, new: np.ndarray) -> dict[str, float]:
        lengths, outside = list_lengths(self.probs[new], limit)
        covered = np.where(self.place[new] < 0, outside, self.place[new] < lengths)
        return {
            "achieved": float(covered.mean()),
            "median_length": float(np.median(lengths)),
            "mean_length": float(lengths.mean()),
            "outside": float(outside.mean()),
        }

    def looks(self, rows: np.ndarray) -> Looks:
        """Of the examples rows (n,)."""
        numbers = {n.removeprefix("looks_"): v[rows] for n, v in self.stored.items() if n.startswith("looks_")}
        return Looks(numbers, self.stored["predicted"][rows].sum(axis=0), len(rows))


def kept_promises(held: HeldOut, splits: int, calibration: int) -> list[dict[str, Any]]:
    return [
        promise_row(held, kind, level, confidence, splits, calibration)
        for kind, confidence in PROMISES
        for level in LEVELS
    ]


def promise_row(
    held: HeldOut, kind: str, level: float, confidence: float | None, splits: int, calibration: int
) -> dict[str, Any]:
    """One promise over random splits into calibration and test examples.

    With a confidence also over calibration examples drawn with replacement: then the held-out examples are the whole
    population, whose risk is known without a test sample."""
    every = np.arange(held.examples)
    row: dict[str, Any] = {"kind": kind, "level": level, "confidence": confidence}
    if kind == "recall":
        row["at_least"] = held.outcome(kind, 2.0, every)["achieved"]  # without any threshold, by `min_labels` alone
    parts = []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(held.examples)
        parts.append((order[:calibration], order[calibration:]))
    row |= _summary(held, kind, level, confidence, parts)
    if confidence is None or "mean" not in row:
        return row
    if kind == "candidates":
        row["exact_share_of_test_halves"] = exact_share(calibration, held.examples - calibration, level, confidence)
    draws = [
        (np.random.default_rng(splits + seed).integers(held.examples, size=calibration), every)
        for seed in range(splits)
    ]
    population = _summary(held, kind, level, confidence, draws)
    broken = round((1 - population.get("share_kept", 1.0)) * splits)
    population["p_value"] = float(binom.sf(broken - 1, splits, 1 - confidence))
    names = ("refused", "mean", "share_kept", "p_value")
    return row | {"population": {name: population[name] for name in names if name in population}}


def _summary(
    held: HeldOut, kind: str, level: float, confidence: float | None, parts: list[tuple[np.ndarray, np.ndarray]]
) -> dict[str, Any]:
    outcomes = []
    for own, new in parts:
        threshold = held.threshold(kind, level, confidence, own)
        outcomes.append(None if isinstance(threshold, Refusal) else held.outcome(kind, threshold, new))
    kept = [outcome for outcome in outcomes if outcome is not None]
    if not kept:
        return {"refused": len(parts)}
    achieved = np.array([outcome["achieved"] for outcome in kept])
    return {
        "refused": len(parts) - len(kept),
        "mean": float(achieved.mean()),
        "standard_error": float(achieved.std() / np.sqrt(len(achieved))),
        "median": float(np.median(achieved)),
        "lowest_and_highest_twentieth": np.quantile(achieved, [0.05, 0.95]).tolist(),
        "share_kept": 1 - float(np.sum(achieved < level - 1e-12)) / len(parts),  # what is refused is not broken
        **{name: float(np.median([one[name] for one in kept])) for name in kept[0] if name != "achieved"},
    }


def exact_share(calibration: int, test: int, level: float, confidence: float) -> float:
    """The share of random splits in which lists reach the promised coverage on the test examples, if no two scores
    are equal: how many of them are below the k-th calibration score has a beta-binomial distribution."""
    limit = list_limit(np.arange(calibration) / calibration, level, confidence)
    assert isinstance(limit, float), "there are enough examples"
    k = int(np.floor(limit * calibration + 0.5)) + 1  # the limit is the k-th smallest calibration score
    needed = int(np.ceil(level * test - 1e-9))
    return float(betabinom.sf(needed - 1, test, k, calibration + 1 - k))


def judged(row: dict[str, Any]) -> bool | None:
    """Whether a promise is kept: on average its mean reaches it but for noise; with confidence it is not broken more
    often over the population than accident explains. None: it was refused throughout."""
    if "mean" not in row:
        return None
    if row["confidence"] is None:
        return bool(row["mean"] >= row["level"] - NOISE * row["standard_error"])
    return bool(row["population"]["p_value"] >= SIGNIFICANT)


def abstention(held: HeldOut) -> dict[str, Any]:
    """Subset accuracy of the model's own decoder on all examples and on the surest half, by the repaired probability of
    each set, and the share of examples on which a higher accuracy is reached."""
    right, sure = held.stored["right"].astype(bool), held.stored["repaired_prob"]
    half = np.argsort(-sure, kind="stable")[: len(sure) // 2]
    curve = answered_curve(sure, right, right.astype(float))
    points = [{name: row[name] for name in ("wanted", "share", "abstain_below")} for row in reached(curve)]
    return {"all": float(right.mean()), "surest_half": float(right[half].mean()), "reached": points}


def calibration_errors(held: HeldOut, folder: Path) -> dict[str, Any]:
    """Calibration error and Brier score of labels and of whole sets, before and after the repair chosen on
    validation."""
    decisions = Predictor.load(folder / "model").trained.decisions
    of_labels, of_sets = decisions.label_repair, next(iter(decisions.set_repairs.values()), None)
    likely = held.stored["br"] >= 0.01
    cells, true = held.stored["br"][likely].astype(float), held.stored["targets"][likely]
    right = held.stored["right"].astype(bool)

    def both(probs: np.ndarray, truth: np.ndarray) -> list[float | None]:
        return [expected_calibration_error(probs, truth), brier_score(probs, truth)]

    return {
        "labels": {
            "repair": "none" if of_labels is None else of_labels.kind,
            "before": both(cells, true),
            "after": both(cells if of_labels is None else of_labels(cells), true),
        },
        "sets": {
            "repair": "none" if of_sets is None else of_sets.kind,
            "before": both(held.stored["prob"], right),
            "after": both(held.stored["repaired_prob"], right),
        },
    }


def reported_as_shifted(held: HeldOut, new: HeldOut | None, calibration: int, splits: int) -> float:
    """The share of random blocks of texts that are reported as shifted, each compared with other random reference
    examples; new None: the blocks are of the same held-out examples, so that every report is a false alarm."""
    reports = 0
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        order = rng.permutation(held.examples)
        own = order[: min(calibration, held.examples - (BLOCK if new is None else 0))]
        block = held.looks(order[len(own) : len(own) + BLOCK]) if new is None else None
        if new is not None:
            block = new.looks(rng.permutation(new.examples)[:BLOCK])
        assert block is not None
        shift = compare(Reference.of(held.looks(own)), block)
        reports += shift is not None and shift.shifted
    return reports / splits


def later_data(reference: HeldOut, new: HeldOut, calibration: int, splits: int) -> dict[str, Any]:
    """Data of another time or field, compared with those that promises were made on, and what becomes of these."""
    shift = compare(Reference.of(reference.looks(np.arange(reference.examples))), new.looks(np.arange(new.examples)))
    assert shift is not None, "there are enough examples"
    kept = {}
    for kind in ("recall", "candidates"):
        threshold = reference.threshold(kind, 0.9, None, np.arange(reference.examples))
        if isinstance(threshold, float):
            kept[f"{kind}=0.9"] = new.outcome(kind, threshold, np.arange(new.examples))["achieved"]
    return {
        "reference": reference.examples,
        "new": new.examples,
        "shifted": shift.shifted,
        "p_values": shift.p_values,
        "sentence": shift.sentence,
        "blocks_reported": reported_as_shifted(reference, new, calibration, splits),
        "achieved": kept,
    }
