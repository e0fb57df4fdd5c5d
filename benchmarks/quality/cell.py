"""One cell: one system on one corpus with one seed, in a process of its own, so that time and memory are its own.

    python benchmarks/quality/cell.py CORPUS SYSTEM SEED [--work runs/quality] [--threads 1] [--data FOLDER]

`run.py` calls this. It writes to <work>/<corpus>/<system>/seed<k>/: for each test part `targets.npz` and
`predictions-<metric>.npz`, and last of all `measured.json`. Training that was stopped with Ctrl-C or SIGTERM goes on
next time, and its seconds are added up.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import sys
from collections import Counter
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import numpy as np
from baselines import Job
from judge import save_ranking, save_sets
from layout import METRICS, WORK, Cell, Seconds
from scipy import sparse
from systems import Trained, fit_system, is_ours, reads_sentences, unfinished

from orderfree.config import DataConfig
from orderfree.data.corpora import Parts, data_root, load_parts
from orderfree.data.readers import read_examples
from orderfree.data.writers import natural_file, write_examples
from orderfree.metrics.at_k import MANY_LABELS, inverse_propensities
from orderfree.metrics.scores import evaluation_labels, to_matrix
from orderfree.system.files import fingerprint, write_json
from orderfree.system.processor import use_processor
from orderfree.testing.toy import toy_corpus
from orderfree.training.run import Interrupted
from orderfree.types import Example

SPLIT_SEED = 1  # one split for all systems and seeds
SPENT = "spent.json"
TIMED = "micro_f1"  # predicting is timed with the choice for one metric, as in use
LIBRARIES = (
    "orderfree",
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "libmultilabel",
    "liblinear-multicore",
    "omikuji",
    "napkinxc",
    "fasttext-numpy2-wheel",
)


def corpus_files(corpus: str, work: Path, data: Path | None) -> dict[str, Path]:
    """The parts of a corpus as files; written once."""
    parts = toy_parts() if corpus == "toy" else load_parts(corpus, data_root(data), SPLIT_SEED)
    suffix, format = natural_file(next(parts["train"]()))
    folder = work / corpus / "data"
    folder.mkdir(parents=True, exist_ok=True)
    files = {part: folder / f"{part}{suffix}" for part in parts}
    for part, path in files.items():
        if not path.exists():
            write_examples(parts[part](), path, format, DataConfig())
    return files


def toy_parts() -> Parts:
    toy = toy_corpus(SPLIT_SEED)
    return {"train": lambda: iter(toy.train), "valid": lambda: iter(toy.valid), "test": lambda: iter(toy.test)}


def measure(cell: Cell, files: dict[str, Path], parts: tuple[str, ...], threads: int) -> None:
    """Fits, predicts and writes down everything but the verdict; the first of the parts is timed."""
    before = spent_before(cell.folder)
    if before is None:
        shutil.rmtree(cell.folder, ignore_errors=True)  # what a cell that was killed has left
        cell.folder.mkdir(parents=True)
    libraries = peak_bytes()
    cached = reads_sentences(cell.system) and _has_files(Path(os.environ.get("ORDERFREE_CACHE", "-")))
    began = Seconds.now()
    try:
        trained = fit_system(cell.system, Job(files["train"], files["valid"], cell.folder, cell.seed, threads))
    except Interrupted as stopped:
        write_json(cell.folder / SPENT, asdict((before or Seconds()) + Seconds.now() - began))
        sys.exit(f"{cell}: {stopped}; goes on next time")
    fit = (before or Seconds()) + Seconds.now() - began
    tests = {part: list(read_examples(files[part], DataConfig(), labelled=True)) for part in parts}
    began = Seconds.now()
    trained.predict(tests[parts[0]], [TIMED])
    predict = Seconds.now() - began
    unseen = {part: predict_part(trained, tests[part], cell, part) for part in parts}
    if len(trained.labels) > MANY_LABELS:
        for part in parts:
            rank_part(trained, files["train"], tests[part], cell.ranking(part), unseen[part])
    measured = {
        "ours": is_ours(cell.system),
        "choices": trained.choices,
        "plain": trained.plain,
        "unseen_labels": unseen,
        "seconds": {
            "fit": asdict(fit - trained.in_vain),  # with the values that were kept
            "fit_and_search": asdict(fit),
            "predict": asdict(predict),
        },
        "documents_per_second": asdict(Seconds(*(len(tests[parts[0]]) / s for s in (predict.wall, predict.cpu)))),
        "peak_bytes": peak_bytes(),
        "libraries_bytes": libraries,  # of the peak, what was there before fitting began
        "model_bytes": trained.bytes,
        "embeddings_found": cached,  # True: earlier cells had made sentence embeddings, and fitting has not
        "threads": threads,
        "versions": versions(),
        "data": {part: fingerprint(files[part]) for part in ("train", "valid", *parts)},
    }
    for leftover in cell.folder.glob("*.arrow"):
        leftover.unlink()
    write_json(cell.measured, measured)


def spent_before(folder: Path) -> Seconds | None:
    """What fitting had taken when it was stopped; None: there is nothing to go on with."""
    spent = folder / SPENT
    return Seconds(**json.loads(spent.read_text(encoding="utf-8"))) if spent.exists() and unfinished(folder) else None


def predict_part(trained: Trained, examples: list[Example], cell: Cell, part: str) -> list[str]:
    """Writes what is true and what is predicted; labels never seen in training are columns too, and always missed."""
    label_sets = [example.labels or () for example in examples]
    names, unseen = evaluation_labels(trained.labels, label_sets)
    save_sets(cell.targets(part), to_matrix(label_sets, names))
    for choice, sets in trained.predict(examples, [*METRICS, *trained.plain]).items():
        wider = sparse.csr_array((sets.data, sets.indices, sets.indptr), shape=(len(examples), len(names)))
        save_sets(cell.sets(part, choice), wider)
    return unseen


def rank_part(trained: Trained, train: Path, examples: list[Example], path: Path, unseen: list[str]) -> None:
    """Writes the first labels of each example, and the weights of labels by their frequency in the training part."""
    counts: Counter[str] = Counter()
    documents = 0
    for example in read_examples(train, DataConfig(), labelled=True):
        documents += 1
        counts.update(example.labels or ())
    by_label = np.array([counts[label] for label in (*trained.labels, *unseen)])
    save_ranking(path, trained.rank(examples), inverse_propensities(by_label, documents))


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def peak_bytes() -> int:
    """The most memory this program has held at once. Linux counts it for the program; what getrusage says begins with
    the memory of whoever started it."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        unit = 1 if platform.system() == "Darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("system")
    parser.add_argument("seed", type=int)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", type=Path, help="the folder of corpora, as of `orderfree data`")
    arguments = parser.parse_args()
    use_processor(arguments.threads)
    files = corpus_files(arguments.corpus, arguments.work, arguments.data)
    cell = Cell(arguments.corpus, arguments.system, arguments.seed, work=arguments.work)
    measure(cell, files, ("test",), arguments.threads)


if __name__ == "__main__":
    main()
