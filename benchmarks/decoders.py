"""What each decoder of a model costs: documents a second of processor time, on one thread.

    orderfree demo --out demo
    python benchmarks/decoders.py demo/run demo/data/test.jsonl

Reading and the encoder are in the time of every decoder. Each is timed three times, and the fastest counts.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

from orderfree import Predictor, evaluate, read_examples
from orderfree.checkpoint import versions

RESULT = Path(__file__).parent / "results" / "decoders.json"


def main(run: str, test: str) -> None:
    torch.set_num_threads(1)
    predictor = Predictor.load(run)
    data = predictor.trained.config.data
    examples = list(read_examples(test, data, labelled=True))
    found = {}
    for decoder in predictor.decoders:
        seconds = []
        for _ in range(3):
            began = time.process_time()
            for _prediction in predictor.predict(examples, [decoder]):
                pass
            seconds.append(time.process_time() - began)
        found[decoder] = {"documents_per_second": round(len(examples) / min(seconds))}
        print(decoder, found[decoder], flush=True)
    scores = evaluate(predictor, examples, list(found))["decoders"]
    result = {
        "run": run,
        "documents": len(examples),
        "decoders": {decoder: {**cost, "test": scores[decoder]} for decoder, cost in found.items()},
        "versions": versions(),
        "command": f"python benchmarks/decoders.py {run} {test}",
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
