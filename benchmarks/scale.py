"""What a document, a label and a step cost, in processor time and bytes, and what that makes of large corpora.

    python benchmarks/scale.py [--documents 600] [--out benchmarks/results/scale.json]

The preset `fast` on made-up documents: words, labels and labels of a document are each raised alone, so that the
difference is what one more of them costs. Costs are taken to be linear, which is said beside every estimate; all of it
is time of one processor core, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from orderfree.build import build_network, load_config
from orderfree.checkpoint import TrainedModel, versions
from orderfree.data.writers import open_prediction_writer
from orderfree.inference import Predictor
from orderfree.tools.prediction_records import prediction_record
from orderfree.training.loop import Trainer
from orderfree.training.prepare import prepare
from orderfree.training.solve import start_encoder
from orderfree.types import Example

ROOT = Path(__file__).resolve().parent.parent
VOCABULARY = 5000
PREDICTED = 500  # documents


@dataclass(frozen=True)
class Shape:
    """Of a corpus."""

    words: int = 100  # of a document
    labels: int = 20
    each: int = 2  # labels of a document


RAISED = {"words": Shape(words=300), "labels": Shape(labels=80), "each": Shape(each=6)}
CORPORA = {  # documents, and their shape; words that count after stemming
    "RCV1 (LYRL2004)": (804_414, Shape(120, 103, 3)),
    "100 million documents": (100_000_000, Shape(200, 500, 3)),
    "10 billion documents": (10_000_000_000, Shape(200, 500, 3)),
}


def documents(shape: Shape, count: int) -> list[Example]:
    """Words by Zipf's law; each label has a word of its own in its documents."""
    chance = np.random.default_rng(1)
    weights = 1 / np.arange(1, VOCABULARY + 1)
    weights /= weights.sum()
    found = []
    for number in range(count):
        labels = chance.choice(shape.labels, shape.each, replace=False)
        words = [f"w{word}" for word in chance.choice(VOCABULARY, shape.words - shape.each, p=weights)]
        text = " ".join([*words, *(f"t{label}" for label in labels)])
        found.append(Example(str(number), text=text, labels=tuple(f"l{label}" for label in labels)))
    return found


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def measure(shape: Shape, count: int, folder: Path) -> dict[str, float]:
    settings = ["training.tensorboard=false", "objective.extra_steps=1", f"decoding.max_labels={shape.each + 1}"]
    config = load_config(None, settings, "fast")
    examples = documents(shape, count)
    encoding, data = timed(lambda: prepare(config, examples, examples[:PREDICTED], folder))
    stored = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    torch.manual_seed(config.seed)
    network = build_network(config, data.featurizer.input_size, len(data.labels))
    solving, _ = timed(lambda: start_encoder(network, data.train, folder, config.seed, lambda line: None))
    trained = TrainedModel(config, data.labels, data.featurizer, network)
    trainer = Trainer(trained, data, folder)
    batches = trainer.epoch_batches()
    trainer.train_step(batches[0])  # the first step sets up what the others find
    training, _ = timed(lambda: [trainer.train_step(rows) for rows in batches[1:]])
    predictor = Predictor(trained)
    list(predictor.predict(examples[:10], ["joint"]))
    predicting, found = timed(lambda: list(predictor.predict(examples[:PREDICTED], ["joint"])))
    with open_prediction_writer(str(folder / "out.parquet"), "parquet") as writer:
        for one in found:
            writer.write(prediction_record(predictor, one, "joint", None, "predicted"))
    return {
        "encode_seconds": encoding / (count + PREDICTED),
        "solve_seconds": solving / count,
        "epoch_seconds": training / sum(map(len, batches[1:])),
        "predict_seconds": predicting / PREDICTED,
        "encoded_bytes": stored / (count + PREDICTED),
        "written_bytes": (folder / "out.parquet").stat().st_size / PREDICTED,
    }


def cost(shape: Shape, base: dict[str, float], rates: dict[str, dict[str, float]], what: str) -> float:
    """Of one document, taken to be linear in words, labels and steps."""
    usual = Shape()
    return base[what] + sum(rates[axis][what] * (getattr(shape, axis) - getattr(usual, axis)) for axis in RAISED)


def estimate(base: dict[str, float], rates: dict[str, dict[str, float]], epochs: int) -> dict[str, Any]:
    found = {}
    for name, (count, shape) in CORPORA.items():
        each = {what: cost(shape, base, rates, what) for what in base}
        training = each["encode_seconds"] + each["solve_seconds"] + epochs * each["epoch_seconds"]
        found[name] = {
            **asdict(shape),
            "documents": count,
            "training_core_hours": round(count * training / 3600, 1),
            "prediction_core_hours": round(count * each["predict_seconds"] / 3600, 1),
            "encoded_gigabytes": round(count * each["encoded_bytes"] / 1e9, 2),
            "written_gigabytes": round(count * each["written_bytes"] / 1e9, 2),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=600)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "scale.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        measure(Shape(), 100, Path(folder))  # a warm-up: imports, and what is set up once
    points = {}
    for axis, shape in {"base": Shape(), **RAISED}.items():
        with tempfile.TemporaryDirectory() as folder:
            points[axis] = measure(shape, arguments.documents, Path(folder))
        print(axis, {key: float(f"{value:.3g}") for key, value in points[axis].items()}, flush=True)
    base = points.pop("base")
    rates = {
        axis: {
            what: max(point[what] - base[what], 0.0) / (getattr(RAISED[axis], axis) - getattr(Shape(), axis))
            for what in base  # what is below zero is noise
        }
        for axis, point in points.items()
    }
    epochs = load_config(None, [], "fast").training.epochs
    result = {
        "documents": arguments.documents,
        "base_shape": asdict(Shape()),
        "per_document": base,
        "per_document_and_further": rates,
        "estimates": estimate(base, rates, epochs),
        "epochs": epochs,
        "versions": versions(),
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result["estimates"], indent=2))


if __name__ == "__main__":
    main()
