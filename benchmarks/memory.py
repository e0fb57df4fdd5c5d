"""Peak resident memory of training on a million short documents.

    python benchmarks/memory.py [--documents 1000000] [--updates 500] [--out benchmarks/results/memory.json]

The documents are generated, written to a JSONL file and trained on with `orderfree train` in a process of its own; its
resident memory is what the operating system says it was at most.
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

from orderfree.checkpoint import versions
from orderfree.testing.toy import generated_documents

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 2 * 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--encoder", default="sparse")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "memory.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.jsonl"
        with open(corpus, "w", encoding="utf-8") as file:
            for example in generated_documents(arguments.documents):
                row = {"id": example.id, "text": example.text, "labels": list(example.labels or ())}
                file.write(json.dumps(row) + "\n")
        command = [
            *(sys.executable, "-m", "orderfree", "train", str(corpus), "--out", str(Path(folder) / "run"), "--json"),
            *("--set", f"training.max_updates={arguments.updates}", "--set", "data.valid_fraction=0.01"),
            *("--set", f"model.encoder={arguments.encoder}", "--set", "training.tensorboard=false"),
        ]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        size = corpus.stat().st_size
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    result = {
        "documents": arguments.documents,
        "corpus_bytes": size,
        "encoder": arguments.encoder,
        "updates": arguments.updates,
        "peak_resident_bytes": peak,
        "limit_bytes": LIMIT,
        "seconds": round(seconds, 1),
        "versions": versions(),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(
        f"peak resident memory {peak / 2**20:,.0f} MiB for {arguments.documents:,} documents ({size / 2**20:,.0f} MiB)"
    )
    sys.exit(0 if peak < LIMIT else 1)


if __name__ == "__main__":
    main()
