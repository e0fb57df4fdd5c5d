"""Peak resident memory of `orderfree predict` on a small and on a large file: it must not grow with the file.

    python benchmarks/reliability/predict_memory.py [--megabytes 200 2000] [--out FILE]

Most documents are of 50 kB, every two-hundredth is a single line of 10 MB. Each file is predicted by a process of its
own, whose resident memory is what the operating system says it was at most.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from orderfree.checkpoint import versions
from orderfree.config import DataConfig
from orderfree.data.writers import write_examples
from orderfree.testing.toy import toy_corpus

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT, LONG_DOCUMENT, LONG_EVERY = 50_000, 10_000_000, 200
MEGABYTE = 10**6
MOST_GROWTH = 1.1


def orderfree(*arguments: object) -> int:
    """Runs a command; the most memory it had, in bytes."""
    process = subprocess.Popen([sys.executable, "-m", "orderfree", *map(str, arguments)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, arguments
    return usage.ru_maxrss * 1024


def write_documents(path: Path, size: int, words: str) -> int:
    """Texts of these words until the file is this large; how many there are."""
    documents = 0
    with open(path, "w", encoding="utf-8") as file:
        while file.tell() < size:
            documents += 1
            length = DOCUMENT if documents % LONG_EVERY else LONG_DOCUMENT
            file.write(json.dumps({"text": (words * (length // len(words) + 1))[:length]}) + "\n")
    return documents


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs=2, default=[200, 2000])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "predict_memory.json")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        corpus = toy_corpus(seed=1, train=400, valid=1, test=1)
        write_examples(corpus.train, place / "train.jsonl", "jsonl", DataConfig())
        settings = (
            "--set",
            "model.encoder=sparse",
            "--set",
            "training.epochs=2",
            "--set",
            "training.tensorboard=false",
        )
        orderfree("train", place / "train.jsonl", "--out", place / "model", *settings)
        words = " ".join(example.text or "" for example in corpus.train[:50]) + " "
        for megabytes in arguments.megabytes:
            documents = write_documents(place / "new.jsonl", megabytes * MEGABYTE, words)
            began = time.perf_counter()
            peak = orderfree("predict", place / "model", place / "new.jsonl", "--out", place / "out.jsonl")
            seconds = round(time.perf_counter() - began, 1)
            with open(place / "out.jsonl", encoding="utf-8") as file:
                assert sum(1 for _ in file) == documents, "each document once"
            rows.append(
                {"megabytes": megabytes, "documents": documents, "peak_resident_bytes": peak, "seconds": seconds}
            )
            print(f"{megabytes:,} MB, {documents:,} documents: at most {peak / 2**20:,.0f} MiB, {seconds:,.0f} s")
    result = {"files": rows, "versions": versions()}
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if rows[-1]["peak_resident_bytes"] < MOST_GROWTH * rows[0]["peak_resident_bytes"] else 1)


if __name__ == "__main__":
    main()
