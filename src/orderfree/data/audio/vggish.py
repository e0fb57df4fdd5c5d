"""The features in which AudioSet is published: VGGish embeddings, one vector of 128 numbers for every 0.96 s of audio.

Hershey et al., "CNN Architectures for Large-Scale Audio Classification", ICASSP 2017. The weights are not part of this
package: they are read from a local file, as published for PyTorch (`features.*`, `embeddings.*`), and so are the
principal components of AudioSet's 8-bit features."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ...errors import DataError
from .logmel import mel_scale, resampled

RATE, WIDTH, HOP, SPECTRUM = 16_000, 400, 160, 512  # samples per second, per frame, between frames, of the transform
BANDS, LOWEST, HIGHEST = 64, 125.0, 7500.0  # hertz
PATCH = 96  # frames of one embedding
OFFSET = 0.01  # added to magnitudes before their logarithm is taken
CLIPPED = 2.0  # components are clipped at ± this before they become 8-bit numbers
CONVOLUTIONS = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool")


class VGGish:
    """The front end: samples (n,) -> (T, 128); 8-bit, as in AudioSet, if principal components are given."""

    def __init__(self, weights: Path, components: Path | None) -> None:
        self.network = _network(weights)
        self.components = None if components is None else _components(components)

    def features(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        patches = torch.from_numpy(log_mel_patches(resampled(samples, sample_rate, RATE)))  # (T, 96, 64)
        with torch.inference_mode():
            embedded = self.network(patches[:, None])  # (T, 128)
        return embedded.numpy() if self.components is None else quantised(embedded.numpy(), *self.components)


def log_mel_patches(samples: np.ndarray) -> np.ndarray:
    """(n,) at 16,000 a second -> (T, 96, 64); an incomplete patch at the end is used only if there is no other."""
    shortest = WIDTH + (PATCH - 1) * HOP
    samples = np.pad(samples, (0, max(shortest - len(samples), 0))).astype(np.float64)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WIDTH) / WIDTH)  # periodic Hann
    frames = np.lib.stride_tricks.sliding_window_view(samples, WIDTH)[::HOP] * window  # (frames, 400)
    magnitudes = np.abs(np.fft.rfft(frames, SPECTRUM, axis=1))  # (frames, 257)
    energies = np.log(magnitudes @ _bands() + OFFSET).astype(np.float32)  # (frames, 64)
    patches: np.ndarray = energies[: len(energies) // PATCH * PATCH].reshape(-1, PATCH, BANDS)
    return patches


@functools.cache
def _bands() -> np.ndarray:
    """(257, 64): triangles that are linear in mel, not in hertz, each with a peak of 1; frequency 0 is left out."""
    edges = np.linspace(mel_scale(LOWEST), mel_scale(HIGHEST), BANDS + 2)  # (66,)
    mel = mel_scale(np.linspace(0, RATE / 2, SPECTRUM // 2 + 1))[:, None]  # (257, 1)
    lower, peak, upper = edges[:-2], edges[1:-1], edges[2:]
    bands: np.ndarray = np.maximum(0, np.minimum((mel - lower) / (peak - lower), (upper - mel) / (upper - peak)))
    bands[0] = 0
    return bands


def quantised(embedded: np.ndarray, directions: np.ndarray, means: np.ndarray) -> np.ndarray:
    """(T, 128) -> (T, 128) uint8: principal components, clipped at ±2, in 256 steps."""
    components = (embedded - means) @ directions.T  # (T, 128)
    steps: np.ndarray = (np.clip(components, -CLIPPED, CLIPPED) + CLIPPED) * (255 / (2 * CLIPPED))
    return steps.astype(np.uint8)


class _ByPosition(nn.Module):
    """(T, 512, 6, 4) -> (T, 12288) with channels last, as the weights were trained."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps.permute(0, 2, 3, 1).flatten(1)


def _network(path: Path) -> nn.Sequential:
    """The network of a weights file; the file determines the widths of the fully connected layers."""
    weights = _tensors(path)
    convolutions: list[nn.Module] = []
    channels = 1
    for size in CONVOLUTIONS:
        if isinstance(size, str):
            convolutions.append(nn.MaxPool2d(2))
        else:
            convolutions += [nn.Conv2d(channels, size, 3, padding=1), nn.ReLU()]
            channels = size
    try:
        shapes = [weights[f"embeddings.{index}.weight"].shape for index in (0, 2, 4)]
        connected = [layer for wide, narrow in shapes for layer in (nn.Linear(narrow, wide), nn.ReLU())]
        features, embeddings = nn.Sequential(*convolutions), nn.Sequential(*connected)
        for prefix, part in (("features.", features), ("embeddings.", embeddings)):
            part.load_state_dict({n.removeprefix(prefix): t for n, t in weights.items() if n.startswith(prefix)})
    except (KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"holds no weights of VGGish as published for PyTorch ({reason}).", path) from None
    return nn.Sequential(features, _ByPosition(), embeddings).eval()


def _components(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Directions (128, 128) and means (128,)."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                arrays: dict[str, Any] = {name: file[name] for name in file.files}
        else:
            arrays = {name.removeprefix("pproc."): tensor.numpy() for name, tensor in _tensors(path).items()}
        directions = np.asarray(arrays["pca_eigen_vectors"], np.float32)
        means = np.asarray(arrays["pca_means"], np.float32).reshape(-1)
        if directions.shape != (len(means), len(means)):
            raise ValueError(f"pca_eigen_vectors has the shape {directions.shape}")
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"holds no principal components of VGGish ({error}).", path) from None
    return directions, means


def _tensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise DataError("there is no such file; give a local file of VGGish weights.", path)
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise DataError(
            f"is no safetensors file ({error}); PyTorch's own files can hold programs: docs/how_to/audio.md says how "
            "to convert one.",
            path,
        ) from None
