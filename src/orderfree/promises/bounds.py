"""How much may go wrong on calibration examples so that a promise about new ones holds. Only numbers: no model.

The loss of an example is a number between 0 and 1, and its mean over new examples is the risk. A promise bounds the
risk by `most`. n calibration examples, exchangeable with the new ones, have the mean loss r.

- On average. Conformal risk control (Angelopoulos, Bates, Fisch, Lei & Schuster, ICLR 2024): for a loss that never
  falls as a threshold rises, the highest threshold with (n r + 1) / (n + 1) <= most has a risk of at most `most`, on
  average over calibration data. Where the loss is 0 or 1 this is split conformal prediction.
- With confidence. Learn then test (Angelopoulos, Bates, Candès, Jordan & Lei, 2021): a threshold is accepted where the
  hypothesis "its risk is above `most`" is rejected at the level 1 - confidence, by the p-value of Hoeffding and Bentkus
  (Bates, Angelopoulos, Lei, Malik & Jordan, JACM 2021), or by the exact binomial one where the loss is 0 or 1. The
  risk is then at most `most` for all but the share 1 - confidence of calibration data.

MAPIE has both methods for single labels. It works on scikit-learn estimators and on a fixed grid of thresholds, and has
nothing for sets of labels; the methods are these few lines.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr

ROUNDING = 1e-6
STEPS = 60  # halvings of an interval: more than a float can tell apart


def allowed_risk(examples: int, most: float, confidence: float | None = None, binary: bool = False) -> float | None:
    """The highest mean loss on so many calibration examples that promises a risk of at most `most`. None: no loss is
    low enough, there are too few examples.

    `confidence` None: on average over calibration data. `binary`: every loss is 0 or 1."""
    if confidence is None:
        allowed = most * (examples + 1) - 1
        return allowed / examples if examples and allowed >= -1e-12 else None
    if not examples or risk_p_value(0.0, examples, most, binary) > 1 - confidence:
        return None
    low, high = 0.0, most
    for _ in range(STEPS):
        middle = (low + high) / 2
        if risk_p_value(middle, examples, most, binary) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def risk_p_value(mean_loss: float, examples: int, most: float, binary: bool = False) -> float:
    """The probability of a mean loss as low as this one, at most, where the risk is above `most`."""
    reached = math.ceil(examples * mean_loss - 1e-9)
    exact = float(bdtr(reached, examples, most))  # P(Binomial(examples, most) <= reached)
    if binary:
        return exact
    return min(1.0, math.exp(-examples * _divergence(min(mean_loss, most), most)), math.e * exact)


def _divergence(low: float, high: float) -> float:
    """Kullback-Leibler divergence of two coins."""
    first = low * math.log(low / high) if low > 0 else 0.0
    second = (1 - low) * math.log((1 - low) / (1 - high)) if low < 1 else 0.0
    return first + second


def examples_needed(mean_loss: float, most: float, confidence: float | None = None, binary: bool = False) -> int | None:
    """The fewest examples that promise a risk of at most `most` where their mean loss is this. None: no number does."""
    if mean_loss >= most:
        return None

    def enough(examples: int) -> bool:
        allowed = allowed_risk(examples, most, confidence, binary)
        return allowed is not None and mean_loss <= allowed + 1e-12

    high = 1
    while not enough(high):
        high *= 2
        if high > 1 << 40:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def highest_threshold(scores: np.ndarray, weights: np.ndarray, examples: int, allowed: float) -> float | None:
    """The highest threshold at which the mean loss is at most `allowed`, where the loss of an example is the weight of
    those of its items whose score is below the threshold. None: items of score -inf are lost at any threshold, and they
    weigh more than that.

    scores and weights (C,): of all items that must not be lost, whichever examples they are of."""
    order = np.argsort(scores, kind="stable")
    rising = scores[order].astype(float)
    lost = np.concatenate([[0.0], np.cumsum(weights[order])])  # (C + 1,) weight of the first items
    below = np.searchsorted(rising, rising, side="left")  # (C,) how many are lost where the threshold is this score
    within = np.flatnonzero((lost[below] <= allowed * examples + 1e-9) & np.isfinite(rising))
    unreachable = lost[np.searchsorted(rising, -np.inf, side="right")]
    if unreachable > allowed * examples + 1e-9:
        return None
    if not len(within):  # no threshold changes what is lost
        return float("inf")
    best = within[-1]
    lower = rising[below[best] - 1] if below[best] else -np.inf
    # a little lower, as probabilities are in the last digit in another batch, but not as low as the next score
    return float(max((rising[best] + lower) / 2, rising[best] - ROUNDING))
