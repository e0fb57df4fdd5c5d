"""Training speed of the paper's Reuters model in float32 and in bfloat16, by turns in one run.

Each precision has a process of its own, because oneDNN is set up once a process: float32 without the instructions that
round, bfloat16 with them. The processes take turns with the same batches, spread over an epoch; figures are CPU times.

    python benchmarks/speed/precision.py [--turns 6] [--batches 4] [--out benchmarks/results/precision.json]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from turns import ratio

from orderfree.build import build_network, load_config
from orderfree.checkpoint import TrainedModel, versions
from orderfree.data.batching import length_bucketed
from orderfree.experiments.cells import CONFIGS
from orderfree.system.precision import INSTRUCTIONS, bfloat16_is_faster, processor_instructions
from orderfree.system.processor import default_threads, keep_freed_memory, use_processor
from orderfree.training.loop import Trainer
from orderfree.training.prepare import prepare

ROOT = Path(__file__).resolve().parents[2]
PRECISIONS = ("float32", "bfloat16")


def learn(precision: str, folder: Path, chunks: int, batches: int, parent: Connection) -> None:
    """Answers every number of a turn with the documents, CPU seconds and mean loss of its batches."""
    use_processor(default_threads(), precision)
    keep_freed_memory()
    config = load_config(CONFIGS / "reuters" / "ocd-mtl.yaml", [f"training.precision={precision}"])
    with tempfile.TemporaryDirectory() as cache:
        data = prepare(config, folder / "train.jsonl.gz", None, Path(cache))
        torch.manual_seed(config.seed)
        network = build_network(config, data.featurizer.input_size, len(data.labels))
        trainer = Trainer(TrainedModel(config, data.labels, data.featurizer, network), data, Path(cache))
        epoch = length_bucketed(data.train.lengths, config.training.batch_size, config.seed, epoch=0)
        places = np.linspace(0, len(epoch) - 1, chunks * batches, dtype=int)
        parent.send("ready")
        for turn in iter(parent.recv, None):
            rows = [epoch[place] for place in places[turn::chunks]]
            began = time.process_time()
            losses = [trainer.train_step(some) for some in rows]
            parent.send((sum(map(len, rows)), time.process_time() - began, float(np.mean(losses))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--batches", type=int, default=4, help="of each turn")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "precision.json")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("ORDERFREE_DATA", ROOT.parent / "shared" / "data")) / "reuters21578"
    processes, pipes = [], {}
    context = multiprocessing.get_context("spawn")
    for precision in PRECISIONS:
        pipes[precision], theirs = context.Pipe()
        words = (precision, folder, arguments.turns + 1, arguments.batches, theirs)
        processes.append(context.Process(target=learn, args=words, daemon=True))
        processes[-1].start()
        pipes[precision].recv()
    found = {precision: [] for precision in PRECISIONS}
    for turn in range(arguments.turns + 1):  # the first warms up
        for precision, pipe in pipes.items():
            pipe.send(turn)
            found[precision].append(pipe.recv())
    for pipe in pipes.values():
        pipe.send(None)
    for process in processes:
        process.join()
    result = summary({precision: turns[1:] for precision, turns in found.items()})
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for precision in PRECISIONS:
        shown = result[precision]
        print(f"{precision:>8}: {shown['documents_per_second']:7.1f} documents/s, loss {shown['last_loss']:.3f}")
    print(f"   ratio: {result['ratio']['median']:.2f}")


def summary(found: dict[str, list[tuple[int, float, float]]]) -> dict[str, object]:
    speeds = {precision: [documents / spent for documents, spent, _ in turns] for precision, turns in found.items()}
    return {
        **{
            precision: {
                "documents_per_second": sum(turn[0] for turn in turns) / sum(turn[1] for turn in turns),
                "last_loss": turns[-1][2],
            }
            for precision, turns in found.items()
        },
        "ratio": ratio(speeds["bfloat16"], speeds["float32"]),
        "auto_takes": "bfloat16" if bfloat16_is_faster() else "float32",
        "instructions": sorted((processor_instructions() or set()) & INSTRUCTIONS),
        "threads": default_threads(),
        "versions": versions(),
    }


if __name__ == "__main__":
    main()
