"""Feature vectors, standardised with the training part's mean and deviation when a batch is made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from ...config import DataConfig, Section
from ...errors import DataError
from ...system.files import write_json
from ...system.listed import Folder
from ...types import DenseInput, Example
from . import Arrays, Encoded

FURTHEST = 1e15  # the square of a larger number is beyond float32


class FrameFeaturizer:
    """One or several vectors per example; columns that never vary are left as they are.

    Quantised features stay bytes until a batch is made. How they were quantised need not be known: standardising undoes
    every linear map, such as AudioSet's x / 255 * 4 - 2."""

    files: ClassVar[tuple[str, ...]] = ("features.json",)

    def __init__(self, mean: np.ndarray, deviation: np.ndarray, quantised: bool = False) -> None:
        self.mean, self.deviation = mean.astype(np.float32), deviation.astype(np.float32)
        self.quantised = quantised

    @property
    def columns(self) -> dict[str, type]:
        return {"frames": np.uint8 if self.quantised else np.float32}

    @property
    def input_size(self) -> int:
        return len(self.mean)

    @classmethod
    def fit(cls, examples: Iterable[Example], data: DataConfig, options: Section) -> FrameFeaturizer:
        count, origin, total, squares = 0, np.zeros(1), np.zeros(1), np.zeros(1)
        quantised = True
        for example in examples:
            given = _frames(example)
            quantised &= given.dtype == np.uint8
            frames = given.astype(np.float64)  # (T, F)
            if not count:
                origin = frames[0]  # sums are taken around it: a column that never varies then adds up to exactly 0
            elif frames.shape[1] != len(origin):
                raise DataError(f"example {example.id!r} has {frames.shape[1]} features, the first has {len(origin)}.")
            frames = frames - origin
            count, total, squares = count + len(frames), total + frames.sum(axis=0), squares + (frames**2).sum(axis=0)
        mean = total / max(count, 1)
        deviation = np.sqrt(np.maximum(squares / max(count, 1) - mean**2, 0))
        return cls(origin + mean, np.where(deviation > 1e-8, deviation, 1.0), quantised and count > 0)

    def encode(self, example: Example) -> Encoded:
        frames = _frames(example)
        if frames.shape[1] != self.input_size:
            raise DataError(
                f"example {example.id!r} has {frames.shape[1]} features, the model was trained on {self.input_size}."
            )
        if self.quantised and frames.dtype != np.uint8:
            raise DataError(
                f"example {example.id!r} has features of type {frames.dtype}, the model was trained on 8-bit ones "
                "(uint8); quantise it in the same way."
            )
        return Encoded({"frames": frames.astype(self.columns["frames"]).ravel()}, len(frames))

    def collate(self, rows: Sequence[Arrays]) -> DenseInput:
        return collate_frames(rows, self.input_size, self.mean, self.deviation)

    def save(self, directory: Path) -> None:
        content = {"mean": self.mean.tolist(), "deviation": self.deviation.tolist(), "quantised": self.quantised}
        write_json(directory / "features.json", content)

    @classmethod
    def load(cls, directory: Folder, data: DataConfig, options: Section) -> FrameFeaturizer:
        content = json.loads((directory / "features.json").read_text(encoding="utf-8"))
        mean, deviation = (np.array(content[key], dtype=np.float64) for key in ("mean", "deviation"))
        if mean.ndim != 1 or mean.shape != deviation.shape or not np.isfinite(mean).all() or not (deviation > 0).all():
            raise ValueError("features.json does not hold a mean and a positive deviation for each feature")
        return cls(mean, deviation, bool(content.get("quantised", False)))


def collate_frames(
    rows: Sequence[Arrays], size: int, mean: np.ndarray | float = 0.0, deviation: np.ndarray | float = 1.0
) -> DenseInput:
    """(values - mean) / deviation of all rows, padded with zero frames."""
    lengths = torch.tensor([len(row["frames"]) // size for row in rows])  # (B,)
    real = np.concatenate([row["frames"] for row in rows]).reshape(-1, size)  # all frames, end to end
    frames = torch.zeros(len(rows), int(lengths.max()), size)  # (B, T, F)
    mask = torch.arange(frames.shape[1]) < lengths[:, None]  # (B, T)
    standard = (real.astype(np.float32) - mean) / deviation
    frames[mask] = torch.from_numpy(np.clip(standard, -FURTHEST, FURTHEST))
    return DenseInput(frames, lengths)


def _frames(example: Example) -> np.ndarray:
    if not isinstance(example.features, np.ndarray):
        raise DataError(
            f"example {example.id!r} has no dense features, and the dense and audio encoders read nothing else; "
            "choose model.encoder=sparse or bilstm for text."
        )
    frames = np.atleast_2d(example.features)  # (T, F)
    if not len(frames):
        raise DataError(f"example {example.id!r} has no frames; leave it out.")
    return frames
