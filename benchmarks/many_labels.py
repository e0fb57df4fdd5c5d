"""Time and memory of the tools around a model with very many labels, on generated label sets.

    python benchmarks/many_labels.py [--examples 50000] [--labels 20000] [--tools split compare audit]

Label frequencies fall like 1 / rank, three labels an example. Prints seconds of CPU and the most memory held during
each tool, less what was held before. One matrix of bytes of this size would take examples x labels.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from scipy import sparse

from orderfree.data.labels import LabelVocabulary
from orderfree.data.splits import stratified_split
from orderfree.metrics.resampling import intervals, paired
from orderfree.metrics.scores import per_label
from orderfree.tools.audit import Opinion, contradictions

LABELS_EACH = 3


def generated(examples: int, labels: int, seed: int) -> sparse.csr_array:
    """(N, L) bool."""
    weights = 1 / np.arange(1, labels + 1)
    chosen = np.random.default_rng(seed).choice(labels, (examples, LABELS_EACH), p=weights / weights.sum())
    rows = np.repeat(np.arange(examples), LABELS_EACH)
    counted = sparse.csr_array((np.ones(rows.size, dtype=np.int8), (rows, chosen.ravel())), shape=(examples, labels))
    return counted.astype(bool)


def split(truth: sparse.csr_array) -> None:
    sets = [row.tolist() for row in np.split(truth.indices, truth.indptr[1:-1])]
    stratified_split(sets, [0.8, 0.1, 0.1], seed=1)


def compare(truth: sparse.csr_array) -> None:
    other = generated(*truth.shape, seed=2)
    names = [str(label) for label in range(truth.shape[1])]
    per_label(truth, other, names)
    intervals(truth, {"one": other}, ["macro_f1"])
    paired("macro_f1", truth, [truth], other)


def audit(truth: sparse.csr_array) -> None:
    """Of classifiers that give each true label .9 and some other labels .6."""
    probs = truth.astype(np.float32) * 0.9
    probs = probs.maximum(generated(*truth.shape, seed=3).astype(np.float32) * 0.6)
    names = tuple(str(label) for label in range(truth.shape[1]))
    counts = tuple(np.bincount(truth.indices, minlength=truth.shape[1]).tolist())
    nothing = sparse.csc_array(truth.shape, dtype=bool)
    contradictions(Opinion(LabelVocabulary(names, counts, {(0,): 1}), truth.tocsc(), probs.tocsc(), nothing))


TOOLS: dict[str, Callable[[sparse.csr_array], None]] = {"split": split, "compare": compare, "audit": audit}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=50_000)
    parser.add_argument("--labels", type=int, default=20_000)
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    arguments = parser.parse_args()
    truth = generated(arguments.examples, arguments.labels, seed=1)
    for name in arguments.tools:
        tracemalloc.start()
        began = time.process_time()
        TOOLS[name](truth)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"{name}: {time.process_time() - began:.0f} s of CPU, {peak / 2**20:,.0f} MiB at most", flush=True)


if __name__ == "__main__":
    main()
