"""Recalibration: a non-decreasing function of the model's probabilities, chosen on held-out examples.

Temperature scaling divides the log-odds by one number; isotonic regression replaces probabilities by the share of true
cells near them. Both keep the order of probabilities (isotonic regression may make some of them equal), so no decision
changes. Cross-validation with the Brier score chooses one of them or neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .calibration import brier_score, expected_calibration_error

FOLDS = 5
GAIN = 0.01  # relative reduction of the Brier score below which no repair is used
KNOTS = 64  # maximum number of points of an isotonic function
FEWEST = 50  # with fewer examples no repair is fitted
NEAR = 1e-7


@dataclass(frozen=True)
class Repair:
    """A non-decreasing function of probabilities."""

    kind: str  # none, temperature or isotonic
    temperature: float = 1.0
    points: tuple[tuple[float, float], ...] = ()  # of the isotonic function: probability, share of true cells

    def __call__(self, probs: np.ndarray) -> np.ndarray:
        if self.kind == "temperature":
            inside = np.clip(np.asarray(probs, dtype=float), NEAR, 1 - NEAR)
            repaired: np.ndarray = 1 / (1 + np.exp(-np.log(inside / (1 - inside)) / self.temperature))
            return repaired
        if self.kind == "isotonic":
            knots, share = np.array(self.points).T
            return np.interp(probs, knots, share)
        return np.asarray(probs, dtype=float)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "temperature": self.temperature, "points": [list(point) for point in self.points]}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Repair:
        """ValueError if the content is not a non-decreasing function of probabilities."""
        made = cls(
            content["kind"], float(content["temperature"]), tuple((float(a), float(b)) for a, b in content["points"])
        )
        rising = np.array(made.points).reshape(-1, 2)
        if made.kind not in ("none", "temperature", "isotonic") or not 0 < made.temperature < np.inf:
            raise ValueError("thresholds.json holds a repair of probabilities that is none")
        if (made.kind == "isotonic") != bool(len(rising)) or (np.diff(rising, axis=0) < 0).any():
            raise ValueError("thresholds.json holds a repair of probabilities that does not rise")
        if not ((rising >= 0) & (rising <= 1)).all():
            raise ValueError("thresholds.json holds a repair of probabilities beyond 0 and 1")
        return made


def find_repair(probs: np.ndarray, true: np.ndarray, rows: np.ndarray | None = None) -> tuple[Repair, dict[str, Any]]:
    """The best repair of probabilities (C,) with their truth (C,), and its effect on examples it was not fitted on.
    rows (C,): the example of each probability, if an example has several."""
    example_of = np.arange(len(probs)) if rows is None else rows
    fold = np.random.default_rng(1).permutation(int(example_of.max()) + 1 if len(example_of) else 0)[example_of] % FOLDS
    tried = {"none": np.asarray(probs, dtype=float)}
    if len(np.unique(example_of)) >= FEWEST:
        for kind in ("temperature", "isotonic"):
            tried[kind] = np.empty(len(probs))
            for part in range(FOLDS):
                tried[kind][fold == part] = fitted(kind, probs[fold != part], true[fold != part])(probs[fold == part])
    values = {kind: brier_score(repaired, true) or 0.0 for kind, repaired in tried.items()}
    best = min(values, key=lambda kind: values[kind])
    if values[best] > (1 - GAIN) * values["none"]:
        best = "none"
    told = {
        "kind": best,
        "brier_score": {"before": values["none"], "after": values[best]},
        "expected_calibration_error": {
            when: expected_calibration_error(tried[kind], true) for when, kind in (("before", "none"), ("after", best))
        },
    }
    return fitted(best, probs, true), told


def fitted(kind: str, probs: np.ndarray, true: np.ndarray) -> Repair:
    if kind == "temperature":
        from scipy.optimize import minimize_scalar

        inside = np.clip(probs.astype(float), NEAR, 1 - NEAR)
        odds = np.log(inside / (1 - inside))
        side = np.where(true, -odds, odds)

        def loss(log_temperature: float) -> float:
            return float(np.logaddexp(0, side * np.exp(-log_temperature)).mean())

        return Repair(kind, float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x)))
    if kind == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        rising = IsotonicRegression(y_min=0.0, y_max=1.0).fit(probs.astype(float), true.astype(float))
        knots, share = rising.X_thresholds_, rising.y_thresholds_
        kept = np.unique(np.linspace(0, len(knots) - 1, min(KNOTS, len(knots))).round().astype(int))
        points = zip(knots[kept].tolist(), share[kept].tolist(), strict=True)
        return Repair(kind, points=((0.0, 0.0), *((x, y) for x, y in points if x > 0)))  # from 0 up to the first knot
    return Repair("none")
