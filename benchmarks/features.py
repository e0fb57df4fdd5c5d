"""Peak resident memory of training on two million clips of features: 2.6 GB of bytes, as many as AudioSet has.

    python benchmarks/features.py [--clips 2000000] [--updates 20] [--out benchmarks/results/features.json]

The clips are random, ten frames of 128 bytes with a few of 527 labels each, written to .npy files in a temporary folder
(about 3.6 GB, and 2.6 GB more while training) and trained on with `orderfree train` in a process of its own. What the
operating system says it held at most is the figure; pages of mapped files that were touched are part of it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from orderfree.checkpoint import versions

ROOT = Path(__file__).resolve().parent.parent
FRAMES, FEATURES, LABELS, CHUNK = 10, 128, 527, 20_000


def write_clips(folder: Path, name: str, clips: int, seed: int) -> Path:
    """Chunk by chunk: this process must not hold them either."""
    generator = np.random.default_rng(seed)
    shapes = {f"{name}.npy": (clips, FRAMES, FEATURES), f"{name}.labels.npy": (clips, LABELS)}
    files = [open(folder / file, "wb") for file in shapes]  # noqa: SIM115
    for file, shape in zip(files, shapes.values(), strict=True):
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    for start in range(0, clips, CHUNK):
        rows = min(CHUNK, clips - start)
        files[0].write(generator.bytes(rows * FRAMES * FEATURES))
        labels = np.zeros((rows, LABELS), dtype=np.uint8)
        labels[np.arange(rows)[:, None], generator.integers(0, LABELS, size=(rows, 2))] = 1
        files[1].write(labels.tobytes())
    for file in files:
        file.close()
    return folder / f"{name}.npy"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=2_000_000)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "features.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, valid = write_clips(folder, "train", arguments.clips, 1), write_clips(folder, "valid", 100, 2)
        size = train.stat().st_size
        settings = [
            *("model.encoder=audio", "model.encoder_options={hidden: 256}", "training.batch_size=500"),
            *("training.balanced=true", "training.tensorboard=false", f"training.max_updates={arguments.updates}"),
        ]
        command = [sys.executable, "-m", "orderfree", "train", str(train), "--valid", str(valid), "--preset", "audio"]
        command += ["--out", str(folder / "run"), "--json", *(word for s in settings for word in ("--set", s))]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    result = {
        "clips": arguments.clips,
        "feature_bytes": size,
        "updates": arguments.updates,
        "peak_resident_bytes": peak,
        "share_of_features": round(peak / size, 3),
        "seconds": round(seconds, 1),
        "versions": versions(),
        "command": f"python benchmarks/features.py --clips {arguments.clips} --updates {arguments.updates}",
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"peak resident memory {peak / 2**20:,.0f} MiB for {size / 2**20:,.0f} MiB of features")


if __name__ == "__main__":
    main()
