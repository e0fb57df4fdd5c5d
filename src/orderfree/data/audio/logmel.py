"""Audio features: log-mel frames, summarised over short windows. It needs only NumPy and SciPy.

The features of a window of a fifth of a second are the mean and the standard deviation of each band's log energy.
Windows overlap by half, so that a second of audio gives about ten vectors."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

FRAME_SECONDS, HOP_SECONDS = 0.025, 0.010
LOWEST_HERTZ = 60.0
FLOOR = 1e-8  # energy of silence: log energies stay finite, and inaudible differences have no effect


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """Parameters of the features that a model was trained on; stored with the model."""

    sample_rate: int
    bands: int
    window_seconds: float

    @property
    def size(self) -> int:
        return 2 * self.bands

    def features(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """samples (n,) of one channel -> (T, 2 * bands) float32; audio of another sample rate is resampled."""
        samples = resampled(samples, sample_rate, self.sample_rate)
        energies = log_mel(samples, self.sample_rate, self.bands)  # (frames, bands)
        width = max(round(self.window_seconds / HOP_SECONDS), 1)
        step = max(width // 2, 1)
        starts = range(0, max(len(energies) - width, 0) + 1, step)
        windows = [energies[start : start + width] for start in starts]
        return np.array([np.concatenate([w.mean(axis=0), w.std(axis=0)]) for w in windows], dtype=np.float32)


def resampled(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    if rate == wanted:
        return samples
    from scipy.signal import resample_poly  # half a second of imports, which no text needs

    common = np.gcd(rate, wanted)
    converted: np.ndarray = resample_poly(samples, wanted // common, rate // common)
    return converted


def log_mel(samples: np.ndarray, sample_rate: int, bands: int) -> np.ndarray:
    """(n,) -> (frames, bands): log energy of mel bands, 25 ms every 10 ms; a shorter sound is padded to one frame."""
    width, hop = round(FRAME_SECONDS * sample_rate), round(HOP_SECONDS * sample_rate)
    samples = np.pad(samples, (0, max(width - len(samples), 0))).astype(np.float64)
    frames = np.lib.stride_tricks.sliding_window_view(samples, width)[::hop] * np.hanning(width)  # (frames, width)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2 / width  # (frames, width // 2 + 1)
    return np.log(power @ mel_filters(sample_rate, width, bands).T + FLOOR)


@functools.cache
def mel_filters(sample_rate: int, width: int, bands: int) -> np.ndarray:
    """(bands, width // 2 + 1): triangles whose peaks are evenly spaced in mel; the weights of each band sum to 1."""
    highest = sample_rate / 2
    edges = _hertz(np.linspace(mel_scale(LOWEST_HERTZ), mel_scale(highest), bands + 2))  # (bands + 2,)
    frequencies = np.fft.rfftfreq(width, 1 / sample_rate)
    lower, peak, upper = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (frequencies - lower) / (peak - lower), (upper - frequencies) / (upper - peak)
    weights = np.maximum(np.minimum(rising, falling), 0)
    # low bands are narrower than the frequency spacing: a band without a frequency uses the nearest one
    empty = np.flatnonzero(weights.sum(axis=1) == 0)
    weights[empty, np.abs(frequencies - peak[empty]).argmin(axis=1)] = 1
    filters: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return filters


def mel_scale(hertz: np.ndarray | float) -> np.ndarray:
    return 2595 * np.log10(1 + np.asarray(hertz) / 700)


def _hertz(mel: np.ndarray) -> np.ndarray:
    return 700 * (10 ** (mel / 2595) - 1)
