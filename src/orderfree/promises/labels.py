"""Thresholds of label probabilities that promise recall or precision.

Both are means over texts, the two halves of example-F1:

    recall     the share of the true labels of a text that are predicted; 1 where it has none
    precision  the share of the predicted labels of a text that are right, over the texts for which any is predicted

The probabilities come as cells, one for each label of each example that matters, so that nothing here needs a matrix of
all labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .bounds import allowed_risk, examples_needed, highest_threshold, risk_p_value

LOWEST = 0.01  # threshold below which no precision is looked for
TRIED = 200  # thresholds on the way from sure to unsure labels
TO_BEGIN = 0.25  # share of the examples that choose where that way begins; the others test
SEED = 1
BLOCK = 1 << 22  # probabilities that are ranked at once


@dataclass(frozen=True)
class Cells:
    """Probabilities of labels, beside what is true. Every true label has a cell: -inf where it can never be predicted,
    +inf where it always is."""

    examples: int
    rows: np.ndarray  # (C,) example of each cell
    probs: np.ndarray  # (C,)
    true: np.ndarray  # (C,) bool

    @classmethod
    def of(
        cls,
        probs: np.ndarray,
        targets: np.ndarray,
        min_labels: int,
        max_labels: int,
        hidden: np.ndarray | None = None,
    ) -> Cells:
        """Of matrices (N, L). Whatever the threshold, the `min_labels` most probable labels of an example are predicted
        and those beyond `max_labels` are not, nor those with a probability of 0: they are outside a shortlist.
        `hidden` cells, whose truth is not known, take places of these but are neither right nor wrong."""
        step = max(BLOCK // max(probs.shape[1], 1), 1)
        parts = [(np.zeros(0, dtype=int), np.zeros(0), np.zeros(0, dtype=bool))]
        for start in range(0, len(probs), step):
            some, truth = probs[start : start + step], targets[start : start + step]
            rank = np.argsort(np.argsort(-some, axis=1, kind="stable"), axis=1, kind="stable")  # (n, L)
            reached = np.where(rank < min_labels, np.inf, np.where(rank < max_labels, some, -np.inf))
            reached[some <= 0] = -np.inf
            if hidden is not None:
                reached[hidden[start : start + step]] = -np.inf
            rows, columns = np.nonzero(truth | (reached >= LOWEST))
            parts.append((start + rows, reached[rows, columns].astype(float), truth[rows, columns].astype(bool)))
        return cls(len(probs), *(np.concatenate(part) for part in zip(*parts, strict=True)))

    def with_missed(self, missed: np.ndarray) -> Cells:
        """With so many more true labels for each example, which the model does not know: missed (N,)."""
        rows = np.repeat(np.arange(self.examples), missed)
        return replace(
            self,
            rows=np.concatenate([self.rows, rows]),
            probs=np.concatenate([self.probs, np.full(len(rows), -np.inf)]),
            true=np.concatenate([self.true, np.ones(len(rows), dtype=bool)]),
        )

    def of_examples(self, chosen: np.ndarray) -> Cells:
        """Of some examples: chosen (n,). One that is chosen twice counts as two."""
        order = np.argsort(self.rows, kind="stable")
        first = np.searchsorted(self.rows[order], np.arange(self.examples + 1))  # (N + 1,) where each example begins
        counts = np.diff(first)[chosen]  # (n,)
        shift = np.repeat(first[chosen] - np.cumsum(counts) + counts, counts)
        kept = order[shift + np.arange(counts.sum())]
        return Cells(len(chosen), np.repeat(np.arange(len(chosen)), counts), self.probs[kept], self.true[kept])

    def recall_losses(self, threshold: float) -> np.ndarray:
        """(N,) the share of the true labels of each example that are missed."""
        true = np.bincount(self.rows[self.true], minlength=self.examples)
        missed = np.bincount(self.rows[self.true & (self.probs < threshold)], minlength=self.examples)
        losses: np.ndarray = missed / np.maximum(true, 1)
        return losses

    def precision_losses(self, threshold: float) -> np.ndarray:
        """(n,) the share of the predicted labels that are wrong, of each example for which any is predicted."""
        predicted = self.probs >= threshold
        count = np.bincount(self.rows[predicted], minlength=self.examples)
        wrong = np.bincount(self.rows[predicted & ~self.true], minlength=self.examples)
        losses: np.ndarray = wrong[count > 0] / count[count > 0]
        return losses


@dataclass(frozen=True)
class Refusal:
    """Why a promise cannot be made. `needed`: examples that would suffice; None: no number of examples like these."""

    best: float  # recall or precision that these examples reach at their best
    needed: int | None


def recall_threshold(cells: Cells, recall: float, confidence: float | None) -> float | Refusal:
    """The highest threshold that promises this recall: on average over calibration data, or with confidence."""
    most = 1 - recall
    share = 1 / np.maximum(np.bincount(cells.rows[cells.true], minlength=cells.examples), 1)  # (N,)
    scores, weights = cells.probs[cells.true], share[cells.rows[cells.true]]
    allowed = allowed_risk(cells.examples, most, confidence)
    found = None if allowed is None else highest_threshold(scores, weights, cells.examples, allowed)
    if found is None:
        lowest = float(weights[np.isneginf(scores)].sum()) / max(cells.examples, 1)
        return Refusal(1 - lowest, examples_needed(lowest, most, confidence))
    return min(max(found, 0.0), 1.0)


def precision_threshold(cells: Cells, precision: float, confidence: float) -> float | Refusal:
    """The lowest threshold, of some, that promises this precision with confidence.

    Precision may rise and fall with the threshold, so thresholds are tested one after another, from one at which the
    evidence should be strongest down to the first that fails (fixed-sequence testing). A quarter of the examples says
    which these are; they take no part in the tests."""
    order = np.random.default_rng(SEED).permutation(cells.examples)
    first = int(TO_BEGIN * cells.examples)
    way = _thresholds_to_try(cells.of_examples(order[:first]), precision)
    rest = cells.of_examples(order[first:])
    accepted: float | None = None
    for threshold in way:
        losses = rest.precision_losses(threshold)
        if not len(losses) or risk_p_value(float(losses.mean()), len(losses), 1 - precision) > 1 - confidence:
            break
        accepted = threshold
    return _refused_precision(cells, precision, confidence) if accepted is None else accepted


def _thresholds_to_try(cells: Cells, precision: float) -> list[float]:
    """Falling, from where the mean of the losses is most standard errors below what is allowed."""
    falling = np.sort(cells.probs[np.isfinite(cells.probs) & (cells.probs >= LOWEST)])[::-1]
    places = np.unique(np.geomspace(1, max(len(falling), 1), TRIED).astype(int)) - 1
    tried = np.unique(falling[places[places < len(falling)]])[::-1]  # (T,)
    strength = [-np.inf] * len(tried)
    for place, threshold in enumerate(tried):
        losses = cells.precision_losses(float(threshold))
        expected = (losses.sum() + 1 - precision) / (len(losses) + 1)  # as if one more had the loss that is allowed
        spread = max(expected * (1 - expected), 1e-12)
        strength[place] = (1 - precision - expected) * np.sqrt(len(losses) / spread)
    begin = int(np.argmax(strength)) if len(tried) else 0
    return [float(threshold) for threshold in tried[begin:]]


def _refused_precision(cells: Cells, precision: float, confidence: float) -> Refusal:
    """What all examples reach where tests on them would begin, and how many like them would pass."""
    way = _thresholds_to_try(cells, precision)
    losses = cells.precision_losses(way[0]) if way else np.zeros(0)
    if not len(losses):
        return Refusal(0.0, None)
    needed = examples_needed(float(losses.mean()), 1 - precision, confidence)
    share = len(losses) / cells.examples * (1 - TO_BEGIN)
    return Refusal(1 - float(losses.mean()), None if needed is None else int(np.ceil(needed / share)))
