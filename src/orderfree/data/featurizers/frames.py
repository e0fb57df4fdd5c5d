"""Feature vectors, standardised with the training part's mean and deviation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from ...config import DataConfig, Section
from ...errors import DataError
from ...files import write_json
from ...types import DenseInput, Example
from . import Arrays, Encoded


class FrameFeaturizer:
    """One or several vectors per example; columns that never vary are left as they are."""

    columns: ClassVar[dict[str, type]] = {"frames": np.float32}
    files: ClassVar[tuple[str, ...]] = ("features.json",)

    def __init__(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        self.mean, self.deviation = mean.astype(np.float32), deviation.astype(np.float32)

    @property
    def input_size(self) -> int:
        return len(self.mean)

    @classmethod
    def fit(cls, examples: Iterable[Example], data: DataConfig, options: Section) -> FrameFeaturizer:
        count, origin, total, squares = 0, np.zeros(1), np.zeros(1), np.zeros(1)
        for example in examples:
            frames = _frames(example).astype(np.float64)  # (T, F)
            if not count:
                origin = frames[0]  # sums are taken around it: a column that never varies then adds up to exactly 0
            elif frames.shape[1] != len(origin):
                raise DataError(f"example {example.id!r} has {frames.shape[1]} features, the first has {len(origin)}.")
            frames = frames - origin
            count, total, squares = count + len(frames), total + frames.sum(axis=0), squares + (frames**2).sum(axis=0)
        mean = total / max(count, 1)
        deviation = np.sqrt(np.maximum(squares / max(count, 1) - mean**2, 0))
        return cls(origin + mean, np.where(deviation > 1e-8, deviation, 1.0))

    def encode(self, example: Example) -> Encoded:
        frames = _frames(example)
        if frames.shape[1] != self.input_size:
            raise DataError(
                f"example {example.id!r} has {frames.shape[1]} features, the model was trained on {self.input_size}."
            )
        scaled = (frames - self.mean) / self.deviation  # (T, F)
        return Encoded({"frames": scaled.astype(np.float32).ravel()}, len(frames))

    def collate(self, rows: Sequence[Arrays]) -> DenseInput:
        return collate_frames(rows, self.input_size)

    def save(self, directory: Path) -> None:
        write_json(directory / "features.json", {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()})

    @classmethod
    def load(cls, directory: Path, data: DataConfig, options: Section) -> FrameFeaturizer:
        content = json.loads((directory / "features.json").read_text(encoding="utf-8"))
        mean, deviation = (np.array(content[key], dtype=np.float64) for key in ("mean", "deviation"))
        if mean.ndim != 1 or mean.shape != deviation.shape or not np.isfinite(mean).all() or not (deviation > 0).all():
            raise ValueError("features.json does not hold a mean and a positive deviation for each feature")
        return cls(mean, deviation)


def collate_frames(rows: Sequence[Arrays], size: int) -> DenseInput:
    lengths = torch.tensor([len(row["frames"]) // size for row in rows])  # (B,)
    frames = np.zeros((len(rows), int(lengths.max()), size), dtype=np.float32)  # (B, T, F)
    for place, row in enumerate(rows):
        frames[place, : lengths[place]] = row["frames"].reshape(-1, size)
    return DenseInput(torch.from_numpy(frames), lengths)


def _frames(example: Example) -> np.ndarray:
    if not isinstance(example.features, np.ndarray):
        raise DataError(
            f"example {example.id!r} has no dense features, and the dense encoder reads nothing else; "
            "choose model.encoder=sparse or bilstm for text."
        )
    frames = np.atleast_2d(example.features)  # (T, F)
    return frames if len(frames) else np.zeros((1, frames.shape[1]), dtype=np.float32)
