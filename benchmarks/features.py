"""Peak resident memory of training on two million clips of features: 2.6 GB of bytes, as many as AudioSet has.

    python benchmarks/features.py [--clips 2000000] [--updates 20] [--out benchmarks/results/features.json]

The clips are random, ten frames of 128 bytes with a few of 527 labels each, written to .npy files in a temporary folder
(about 3.6 GB, and 2.6 GB more while training) and trained on with `orderfree train` in a process of its own. The figure
is the most memory of its own it held (RssAnon, looked at ten times a second). Pages of the mapped corpus that it has
touched (RssFile) are named beside it: they are the system's, which keeps as many as it has room for.
"""

from __future__ import annotations

import argparse
import json
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


def peaks(running: subprocess.Popen[bytes]) -> dict[str, int]:
    """The most bytes of each kind of memory the process had, until it ends (Linux)."""
    most = {"RssAnon": 0, "RssFile": 0}
    while running.poll() is None:
        lines = Path(f"/proc/{running.pid}/status").read_text(encoding="utf-8").splitlines()
        for name, value in (line.split(":", 1) for line in lines if line.startswith(tuple(most))):
            most[name] = max(most[name], int(value.split()[0]) * 1024)
        time.sleep(0.1)
    return most


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
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
            peak = peaks(running)
        if running.returncode:
            raise SystemExit(running.returncode)
        seconds = time.perf_counter() - began
    result = {
        "clips": arguments.clips,
        "feature_bytes": size,
        "updates": arguments.updates,
        "peak_own_bytes": peak["RssAnon"],
        "peak_mapped_bytes": peak["RssFile"],
        "own_share_of_features": round(peak["RssAnon"] / size, 3),
        "seconds": round(seconds, 1),
        "versions": versions(),
        "command": f"python benchmarks/features.py --clips {arguments.clips} --updates {arguments.updates}",
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"peak memory {peak['RssAnon'] / 2**20:,.0f} MiB for {size / 2**20:,.0f} MiB of features")


if __name__ == "__main__":
    main()
