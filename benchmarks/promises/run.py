"""Promises against what is achieved, over many random splits of held-out data into calibration and test.

    python benchmarks/promises/run.py [--full] [--splits 200] [--calibration 1000] [--data FOLDER] [CORPUS …]

Trains the models that are missing (`models.py`), measures (`measure.py`) and writes benchmarks/results/promises.json,
docs/results/promises.md and its figure. Without `--full` the models are small: training sees at most 4,000 documents.
`--page` writes the page and the figure of the stored results alone. With corpora named, only these are measured and the
others keep their results.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import models
from measure import (
    HeldOut,
    abstention,
    calibration_errors,
    judged,
    kept_promises,
    later_data,
    reported_as_shifted,
)
from page import write_page

from orderfree.checkpoint import versions
from orderfree.data.corpora import data_root
from orderfree.inference import Predictor
from orderfree.system.files import write_json

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks" / "results" / "promises.json"
PAGE = ROOT / "docs" / "results" / "promises.md"
LATER = {"reuters": ("early", "held_out"), "arxiv-cs": ("held_out", "math")}  # reference and new examples


def measured(name: str, work: Path, splits: int, calibration: int) -> dict[str, Any]:
    """All of one corpus; of `arxiv-cs` only what becomes of promises in another field."""
    held = HeldOut(work / name)
    provenance = Predictor.load(work / name / "model").trained.provenance
    trained_on = provenance["train_examples"]
    found: dict[str, Any] = {"trained_on": trained_on, "held_out": held.examples, "labels": held.labels}
    if name in LATER:
        first, second = (HeldOut(work / name, part) for part in LATER[name])
        found["later_data"] = later_data(first, second, calibration, splits)
    if name == "arxiv-cs":
        return found
    rows = kept_promises(held, splits, calibration)
    return found | {
        "promises": [row | {"kept": judged(row)} for row in rows],
        "abstention": abstention(held),
        "calibration": calibration_errors(held, work / name),
        "false_alarms": reported_as_shifted(held, None, calibration, splits),
    }


def commit() -> str:
    """Of the code; results that were written before do not make it dirty."""

    def git(*arguments: str) -> str:
        told = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return told.stdout.strip()

    head = git("rev-parse", "HEAD")
    return head + "-dirty" if git("status", "--porcelain", "--", "src", "benchmarks/promises") else head


def stored() -> dict[str, Any]:
    return json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=", ".join(models.CORPORA))
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--calibration", type=int, default=1000, help="examples of each split a promise is made on")
    parser.add_argument("--full", action="store_true", help="train on all documents, with the preset's epochs")
    parser.add_argument("--work", type=Path, help="folder of models and outputs")
    parser.add_argument("--data", type=Path, help="the folder of corpora, as of `orderfree data`")
    parser.add_argument("--page", action="store_true", help="write only the page and the figure")
    arguments = parser.parse_args()
    results, own_commit = stored(), commit()
    if not arguments.page:
        names = arguments.names or list(models.CORPORA)
        corpora = results.get("corpora", {})
        for name in names:
            work = arguments.work or models.work_folder(arguments.full)
            models.make(name, work, data_root(arguments.data), arguments.full)
            found = measured(name, work, arguments.splits, arguments.calibration)
            command = " ".join(["python benchmarks/promises/run.py", *["--full"] * arguments.full, name])
            corpora[name] = found | {"full": arguments.full, "command": command, "commit": own_commit}
            print(f"{name}: measured", file=sys.stderr, flush=True)
        results = {
            "splits": arguments.splits,
            "calibration": arguments.calibration,
            "corpora": {name: corpora[name] for name in models.CORPORA if name in corpora},
            "versions": versions(),
        }
        write_json(RESULT, results)
    write_page(results, PAGE)


if __name__ == "__main__":
    main()
