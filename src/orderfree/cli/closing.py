"""The sentences a command ends with, on standard error."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class PredictedCounts:
    """What `predict` has written."""

    inputs: int = 0
    labels: int = 0
    empty: int = 0

    def add(self, labels: int) -> None:
        self.inputs += 1
        self.labels += labels
        self.empty += labels == 0

    def sentence(self) -> str:
        each = self.labels / max(self.inputs, 1)
        return f"{self.inputs:,} inputs predicted: {each:.2f} labels each, {self.empty:,} without any label"
