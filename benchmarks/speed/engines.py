"""One model on torch, on ONNX Runtime and on ONNX Runtime in 8 bits: speed by turns, size, and whether they agree.

python benchmarks/speed/engines.py RUN TEST [--documents 300] [--rounds 3] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from turns import alternate, ratio

from orderfree.checkpoint import load_model, versions
from orderfree.data.readers import read_examples
from orderfree.inference import Predictor
from orderfree.metrics.scores import scores, to_matrix
from orderfree.tools.export import export_onnx

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "engines.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    trained = load_model(arguments.run)
    data = trained.config.data.model_copy(update={"format": "auto"})
    documents = list(read_examples(arguments.test, data, labelled=True))[: arguments.documents]
    with tempfile.TemporaryDirectory() as folder:
        for name, int8 in (("onnx", False), ("int8", True)):
            export_onnx(trained, Path(folder) / name, "", int8)
        sizes = {"torch": (arguments.run / "model.safetensors").stat().st_size} | {
            name: sum(path.stat().st_size for path in (Path(folder) / name).glob("*.onnx")) for name in ("onnx", "int8")
        }
        sides = {"torch": Predictor(trained)} | {n: Predictor.load(Path(folder) / n) for n in ("onnx", "int8")}
        made: dict[str, list[set[str]]] = {}

        def predict(name: str) -> None:
            decoder = sides["torch"].default_decoder
            made[name] = [set(p.label_sets[decoder].labels) for p in sides[name].predict(documents, [decoder])]

        seconds = alternate({name: lambda name=name: predict(name) for name in sides}, arguments.rounds)
    names = trained.labels.names
    truth = to_matrix([[n for n in example.labels or () if n in trained.labels.ids] for example in documents], names)
    result: dict[str, Any] = {"documents": len(documents), "versions": versions(), "engines": {}}
    for name in sides:
        found = to_matrix(made[name], names)
        result["engines"][name] = {
            "speed against torch": ratio(seconds["torch"], seconds[name]),
            "bytes": sizes[name],
            "same label sets": sum(a == b for a, b in zip(made["torch"], made[name], strict=True)) / len(documents),
            "micro_f1": scores(truth, found)["micro_f1"],
        }
        one = result["engines"][name]
        print(
            f"{name:>5}: {one['speed against torch']['median']:.2f} x torch's speed, {one['bytes'] / 2**20:.1f} MiB, "
            f"{one['same label sets']:.1%} of label sets the same, micro-F1 {one['micro_f1']:.4f}"
        )
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
