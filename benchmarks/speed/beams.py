"""Beam search of a trained model on a real test part against a beam in plain Python, one document after another.
Speed in one run, and whether both find the same sequences.

    python benchmarks/speed/beams.py RUN TEST [--width 6] [--every 8] [--out benchmarks/results/beams.json]

The plain beam gets every eighth document. Both start from encoded documents. CPU time of one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch
from exhaustive import loop_beam

from orderfree.checkpoint import versions
from orderfree.data.readers import read_examples
from orderfree.decoding.beam import beam_search
from orderfree.inference import Predictor

ROOT = Path(__file__).resolve().parents[2]
BATCH = 128
Found = tuple[tuple[int, ...], float, float]  # labels, score, log P_path
CLOSE = 1e-3  # log-probabilities this close may change places: batches are summed in another order


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--width", type=int, default=6)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "beams.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    predictor = Predictor.load(arguments.run)
    data = predictor.trained.config.data.model_copy(update={"format": "auto"})
    featurizer = predictor.trained.featurizer
    limits = replace(predictor.limits, width=arguments.width, merge_sets=False)
    documents = compared = same = 0
    seconds = {"batched": 0.0, "plain": 0.0}
    texts = list(read_examples(arguments.test, data, labelled=False))
    for start in range(0, len(texts), BATCH):
        examples = texts[start : start + BATCH]
        given = predictor.start(featurizer.collate([featurizer.encode(one).arrays for one in examples]))
        assert given.step is not None
        assert given.state is not None
        began = time.process_time()
        found = beam_search(given.step, given.state, given.num_labels, limits, None)
        seconds["batched"] += time.process_time() - began
        documents += len(examples)
        for place in range(0, len(examples), arguments.every):
            row = torch.tensor([place])
            alone = given.state.select(row, row)
            began = time.process_time()
            expected = loop_beam(given.step, alone, given.num_labels, limits)
            seconds["plain"] += time.process_time() - began
            compared += 1
            same += agree(found.sequences[place], found.scores[place], expected, given.num_labels)
    speed = {"batched": documents / seconds["batched"], "plain": compared / seconds["plain"]}
    result = {
        "documents": documents,
        "compared": compared,
        "same": same,
        "width": arguments.width,
        "documents_per_cpu_second": speed,
        "ratio": speed["batched"] / speed["plain"],
        "versions": versions(),
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(
        f"{result['ratio']:.1f} x the speed of the plain beam; the same hypotheses for {same} of {compared} documents"
    )


def agree(sequences: torch.Tensor, scores: torch.Tensor, expected: list[Found], num_labels: int) -> bool:
    """Whether all hypotheses are the same, in the same order but for such as are equally good."""
    ours = [tuple(one for one in row if one != num_labels) for row in sequences.tolist()]
    if not all(abs(a - b) < CLOSE for a, (_, b, _) in zip(scores.tolist(), expected, strict=True)):
        return False
    return all(
        one == other or any(one == again and abs(score - near) < CLOSE for again, near, _ in expected)
        for one, (other, score, _) in zip(ours, expected, strict=True)
    )


if __name__ == "__main__":
    main()
