"""How much faster the data pipeline makes batches of features than the model consumes them.

    python benchmarks/feed.py [--clips 4000] [--out benchmarks/results/feed.json]

Clips like AudioSet's (ten frames of 128 bytes, 527 labels) are generated and encoded as `orderfree train` does it.
Then, in turns and in one process, so that both meet the same machine: batches are drawn from the encoded corpus,
balanced over labels, and trained on with the configs br and ocd-mtl of audioset-balanced. The figure is the ratio
of the two speeds, by the processor's time and not the clock's, so that other work on the machine counts for neither.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from features import write_clips
from orderfree.build import build_network, load_config
from orderfree.checkpoint import TrainedModel, versions
from orderfree.experiments.grid import CONFIGS
from orderfree.system.processor import default_threads
from orderfree.training.loop import Trainer
from orderfree.training.prepare import prepare

ROOT = Path(__file__).resolve().parent.parent
UPDATES = 4


def measure(row: str, folder: Path) -> dict[str, Any]:
    config = load_config(CONFIGS / "audioset-balanced" / f"{row}.yaml", ["training.tensorboard=false"])
    torch.manual_seed(config.seed)
    data = prepare(config, folder / "train.npy", folder / "valid.npy", folder)
    network = build_network(config, data.featurizer.input_size, len(data.labels))
    trainer = Trainer(TrainedModel(config, data.labels, data.featurizer, network), data, folder)
    rows = trainer.epoch_batches()[: UPDATES + 1]
    trainer.train_step(rows[0])  # the first step sets up what the others find
    feeding = training = 0.0
    for batch_rows in rows[1:]:
        began = time.process_time()
        data.train.batch(batch_rows)
        fed = time.process_time()
        trainer.train_step(batch_rows)  # makes the batch once more: next to nothing
        feeding, training = feeding + fed - began, training + time.process_time() - fed
    clips_each = sum(map(len, rows[1:]))
    return {
        "pipeline_clips_per_cpu_second": round(clips_each / feeding),
        "model_clips_per_cpu_second": round(clips_each / training),
        "ratio": round(training / feeding, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "feed.json")
    arguments = parser.parse_args()
    torch.set_num_threads(default_threads())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_clips(folder, "train", arguments.clips, 1)
        write_clips(folder, "valid", 100, 2)
        found = {row: measure(row, folder) for row in ("br", "ocd-mtl")}
    result = {"batch": 500, "threads": torch.get_num_threads(), **found, "versions": versions()}
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for row, figures in found.items():
        print(f"{row}: the pipeline makes {figures['ratio']} times what the model consumes")


if __name__ == "__main__":
    main()
