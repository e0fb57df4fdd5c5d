"""BR, MLE, OCD and OCD + BR on the toy corpus, several seeds: does modelling label dependency pay?

    python benchmarks/toy.py [--seeds 1 2 3] [--methods br mle ocd ocd-mtl]

One JSON file per cell in benchmarks/results/toy/<method>/; finished cells are skipped: a run can go on later.
A cell trains on the corpus of its seed with the config toy/<method>.yaml and that seed, and is scored on its test part.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
METHODS = ("br", "mle", "ocd", "ocd-mtl")
SHOWN = ("macro_f1", "micro_f1", "example_f1", "subset_accuracy", "hamming_accuracy", "average")


def orderfree(*arguments: str) -> str:
    command = [sys.executable, "-m", "orderfree", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run_cell(method: str, seed: int) -> dict[str, Any]:
    config = f"src/orderfree/configs/toy/{method}.yaml"
    with tempfile.TemporaryDirectory() as folder:
        orderfree("toy", "--out", folder, "--seed", str(seed))
        out = str(Path(folder) / "run")
        train = ["train", f"{folder}/train.jsonl", "--valid", f"{folder}/valid.jsonl", "--out", out, "--json"]
        trained = json.loads(orderfree(*train, "--config", str(ROOT / config), "--set", f"seed={seed}"))
        found = json.loads(orderfree("evaluate", out, f"{folder}/test.jsonl", "--json"))
        about = json.loads(orderfree("inspect", out, "--json"))
    return {
        "method": method,
        "seed": seed,
        "config": config,
        "updates": trained["updates"],
        "kept_update": trained["update"],
        "test": found["decoders"],
        "combinations": found["combinations"],
        "versions": about["provenance"]["versions"],
        "command": f"python benchmarks/toy.py --methods {method} --seeds {seed}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "toy")
    arguments = parser.parse_args()
    cells: dict[str, list[dict[str, Any]]] = {}
    for seed in arguments.seeds:
        for method in arguments.methods:
            path = arguments.results / method / f"seed{seed}.json"
            if not path.exists():
                cell = run_cell(method, seed)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(cell, indent=2) + "\n", encoding="utf-8")
                print(f"{method} seed {seed}: done", file=sys.stderr, flush=True)
            cells.setdefault(method, []).append(json.loads(path.read_text(encoding="utf-8")))
    print("| method | decoder | seeds |", " | ".join(SHOWN), "|")
    print("| --- | --- | --- |" + " --- |" * len(SHOWN))
    for method, found in cells.items():
        for decoder in found[0]["test"]:
            means = [statistics.mean(cell["test"][decoder][metric] for cell in found) for metric in SHOWN]
            print(f"| {method} | {decoder} | {len(found)} | " + " | ".join(f"{mean:.4f}" for mean in means) + " |")


if __name__ == "__main__":
    main()
