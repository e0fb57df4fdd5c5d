"""Mixtures of sounds, OCD + MTL beside BR, several seeds: does modelling which sounds come together pay?

    python benchmarks/sounds.py [--seeds 1 2 3] [--out benchmarks/results/sounds.json]

A clip is half a second of one of ten scenes, each a set of two to four of eight sounds (tones, chirps, noises, clicks).
Every sound of a scene is in its labels, but a quarter of them are drowned: so faint that noise covers them. Which ones
were there can only be told from the others. Features are the log-mel front end's; both models have the same encoder and
settings (`--preset audio`), BR the threshold that is best on validation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import butter, chirp, sosfilt

from orderfree.checkpoint import versions
from orderfree.config import DataConfig
from orderfree.data.audio.logmel import FrontEnd
from orderfree.data.writers import write_examples
from orderfree.types import Example

ROOT = Path(__file__).resolve().parent.parent
RATE = 16_000
TIME = np.arange(RATE // 2) / RATE
SIZES = {"train": 1200, "valid": 300, "test": 600}
METHODS = {"br": ["objective.sequence=null"], "ocd-mtl": []}
DROWNED = 0.25


def _tone(rng: np.random.Generator, hertz: float) -> np.ndarray:
    return np.sin(2 * np.pi * hertz * rng.uniform(0.97, 1.03) * TIME)


def _hiss(rng: np.random.Generator, low: float, high: float) -> np.ndarray:
    band = butter(4, [low, high], btype="band", fs=RATE, output="sos")
    noise = sosfilt(band, rng.normal(size=len(TIME)))
    return noise / np.abs(noise).max()


SOUNDS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "hum": lambda rng: _tone(rng, 150),
    "horn": lambda rng: _tone(rng, 440),
    "whistle": lambda rng: _tone(rng, 2500),
    "siren": lambda rng: chirp(TIME, 700, 0.5, 1300),
    "bird": lambda rng: chirp(TIME, 3000, 0.5, 5000),
    "rain": lambda rng: _hiss(rng, 5500, 7500),
    "wind": lambda rng: _hiss(rng, 200, 500),
    "clicks": lambda rng: _hiss(rng, 1000, 2000) * (np.sin(2 * np.pi * 12 * TIME) > 0.9),
}


def scenes(seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    return [sorted(rng.choice(list(SOUNDS), size=rng.integers(2, 5), replace=False).tolist()) for _ in range(10)]


def clips(seed: int, part: str, known: list[list[str]]) -> list[Example]:
    rng = np.random.default_rng((seed, list(SIZES).index(part)))
    front_end = FrontEnd(RATE, 32, 0.1)
    made = []
    for number in range(SIZES[part]):
        names = known[rng.integers(len(known))]
        samples = rng.normal(0, 0.03, len(TIME))
        for name in names:
            loudness = 0.002 if rng.random() < DROWNED else rng.uniform(0.1, 0.3)
            samples = samples + loudness * SOUNDS[name](rng)
        made.append(Example(str(number), features=front_end.features(samples, RATE), labels=tuple(names)))
    return made


def orderfree(*arguments: object) -> Any:
    command = [sys.executable, "-m", "orderfree", *map(str, arguments), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run_seed(seed: int, folder: Path) -> dict[str, dict[str, float]]:
    """Scores on the test part: BR at its tuned threshold, OCD + MTL by joint decoding."""
    known = scenes(seed)
    for part in SIZES:
        write_examples(clips(seed, part, known), folder / f"{part}.npz", "npz", DataConfig())
    found = {}
    for method, settings in METHODS.items():
        settings = [*settings, f"seed={seed}", "model.encoder_options={hidden: 64}", "training.tensorboard=false"]
        train = ["train", folder / "train.npz", "--valid", folder / "valid.npz", "--preset", "audio"]
        orderfree(*train, "--out", folder / method, *(word for s in settings for word in ("--set", s)))
        decoder = "br" if method == "br" else "joint"
        judged = orderfree("evaluate", folder / method, folder / "test.npz", "--decode", decoder)
        found[method] = judged["decoders"][decoder]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "sounds.json")
    arguments = parser.parse_args()
    cells = {}
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            cells[seed] = run_seed(seed, Path(folder))
        shown = ", ".join(f"{method} {scores['subset_accuracy']:.4f}" for method, scores in cells[seed].items())
        print(f"seed {seed}: subset accuracy {shown}", flush=True)
    means = {method: statistics.mean(cell[method]["subset_accuracy"] for cell in cells.values()) for method in METHODS}
    result = {"subset_accuracy": means, "seeds": cells, "versions": versions()}
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"mean: br {means['br']:.4f}, ocd-mtl {means['ocd-mtl']:.4f}")


if __name__ == "__main__":
    main()
