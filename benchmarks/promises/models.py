"""Models whose promises are measured, and what they say of held-out examples.

    python benchmarks/promises/models.py [NAME …] [--full] [--work FOLDER] [--data FOLDER]

For each name below: writes the data, trains the preset `fast` and stores the outputs of the model on every held-out
part in <work>/<name>/<part>.npz. What is there is kept, and an interrupted training is resumed. Without `--full`
training is on at most 4,000 documents, for three epochs.

    toy          5,000 documents of the made-up newspaper are held out
    reuters      held out: the test part, whose news are later, and `early`, 1,000 documents of the training part
    rcv1-subset  held out: the test part; 1,000 documents of the validation part validate
    aapd         held out: the test part and 2,000 documents of the training part
    arxiv-cs     3,000 AAPD papers with categories of computer science only; held out: 1,000 more of them, and `math`,
                 1,000 papers that mathematics lists as well
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from orderfree.build import load_config
from orderfree.checkpoint import TRAINING
from orderfree.config import DataConfig
from orderfree.data.corpora import data_root, load_parts
from orderfree.data.readers import read_examples
from orderfree.data.writers import write_examples
from orderfree.decisions.promised import LIST_WIDTH, sets_found
from orderfree.evaluation.watching import looks_of
from orderfree.inference import Predictor
from orderfree.system.processor import use_processor
from orderfree.testing.toy import toy_corpus
from orderfree.training.directory import RECORD
from orderfree.training.run import train
from orderfree.types import Example

SEED = 1
EPOCHS = 3  # instead of 20
DOCUMENTS = 4000  # to train on at most: promises do not ask for the best model
RUNS = Path(__file__).resolve().parents[2] / "runs"
Corpus = dict[str, list[Example]]


def work_folder(full: bool) -> Path:
    return RUNS / ("promises-full" if full else "promises")


def toy(_: Path) -> Corpus:
    made = toy_corpus(SEED, test=5000)
    return {"train": list(made.train), "valid": list(made.valid), "held_out": list(made.test)}


def reuters(root: Path) -> Corpus:
    parts = _parts("reuters", root)
    early, rest = _drawn(parts["train"], 1000)
    return {"train": rest, "valid": parts["valid"], "held_out": parts["test"], "early": early}


def rcv1_subset(root: Path) -> Corpus:
    parts = _parts("rcv1-subset", root)
    return {"train": parts["train"], "valid": _drawn(parts["valid"], 1000)[0], "held_out": parts["test"]}


def aapd(root: Path) -> Corpus:
    parts = _parts("aapd", root)
    drawn, rest = _drawn(parts["train"], 2000)
    return {"train": rest, "valid": parts["valid"], "held_out": parts["test"] + drawn}


def arxiv_cs(root: Path) -> Corpus:
    """All labels of computer science, against papers that mathematics lists too (cs.IT is math.IT, and left out)."""
    papers = _parts("aapd", root)["train"]
    computing = [paper for paper in papers if all(label.startswith("cs.") for label in paper.labels or ())]
    mathematics = [paper for paper in papers if any(label.startswith("math.") for label in paper.labels or ())]
    drawn, _ = _drawn(computing, 4500)
    return {
        "train": drawn[:3000],
        "valid": drawn[3000:3500],
        "held_out": drawn[3500:],
        "math": _drawn(mathematics, 1000)[0],
    }


CORPORA: dict[str, Callable[[Path], Corpus]] = {
    "toy": toy,
    "reuters": reuters,
    "rcv1-subset": rcv1_subset,
    "aapd": aapd,
    "arxiv-cs": arxiv_cs,
}


def _parts(name: str, root: Path) -> Corpus:
    return {part: list(read()) for part, read in load_parts(name, root, SEED).items()}


def _drawn(examples: list[Example], count: int) -> tuple[list[Example], list[Example]]:
    """So many examples drawn at random, in random order, and the others."""
    order = list(range(len(examples)))
    random.Random(SEED).shuffle(order)
    chosen, others = order[:count], sorted(order[count:])
    return [examples[at] for at in chosen], [examples[at] for at in others]


def prepared(name: str, work: Path, root: Path, full: bool) -> dict[str, Path]:
    """The parts as files, written once."""
    folder = work / name / "data"
    if not folder.exists():
        parts = CORPORA[name](root)
        if not full:
            parts["train"] = _drawn(parts["train"], DOCUMENTS)[0]
        aside = folder.with_name("data.unfinished")
        aside.mkdir(parents=True, exist_ok=True)
        for part, examples in parts.items():
            write_examples(examples, aside / f"{part}.jsonl.gz", "jsonl", DataConfig())
        aside.rename(folder)
    return {path.name.removesuffix(".jsonl.gz"): path for path in sorted(folder.glob("*.jsonl.gz"))}


def trained(name: str, work: Path, files: dict[str, Path], full: bool) -> Path:
    run = work / name / "model"
    if not (run / "manifest.json").exists():
        settings = [f"seed={SEED}", "training.tensorboard=false"]
        settings += [] if full else [f"training.epochs={EPOCHS}"]
        config = load_config(None, settings, preset="fast")
        resume = (run / TRAINING / RECORD).exists()
        train(config, files["train"], files["valid"], run, resume=resume, overwrite=not resume and run.exists())
    return run


def store_outputs(predictor: Predictor, examples: list[Example], path: Path) -> None:
    """Of N held-out examples, all that promises, abstention, calibration and the comparison with later data need."""
    known = [predictor.labels.known(example.labels or ()) for example in examples]
    targets = predictor.labels.one_hot([np.array(ids, dtype=np.int64) for ids in known])  # (N, L)
    unknown = np.array([len(set(e.labels or ())) - len(ids) for ids, e in zip(known, examples, strict=True)])  # (N,)
    aside = path.with_suffix(".unfinished.npz")
    np.savez_compressed(
        aside,
        targets=targets,
        unknown=unknown,  # true labels that the model does not know
        br=predictor.predict_proba(examples, "br"),  # (N, L)
        **_listed_sets(predictor, examples, targets, unknown),
        **_predicted_sets(predictor, examples, targets, unknown),
    )
    aside.rename(path)


def _listed_sets(
    predictor: Predictor, examples: list[Example], targets: np.ndarray, unknown: np.ndarray
) -> dict[str, np.ndarray]:
    """The sets of the beam: their probabilities (N, W), largest first, and the place (N,) of the true set among them,
    -1 where it is not."""
    probs, places = [], []
    at = 0
    for chunk, given in predictor.batches(examples):
        rows = slice(at, at := at + len(chunk))
        sets, found = sets_found(predictor, given)  # (B, W, L), (B, W)
        same = (sets == targets[rows, None]).all(axis=2) & (found > 0) & (unknown[rows, None] == 0)  # (B, W)
        probs.append(np.pad(found, ((0, 0), (0, LIST_WIDTH - found.shape[1]))))
        places.append(np.where(same.any(axis=1), same.argmax(axis=1), -1))
    return {"set_probs": np.concatenate(probs), "true_place": np.concatenate(places)}


def _predicted_sets(
    predictor: Predictor, examples: list[Example], targets: np.ndarray, unknown: np.ndarray
) -> dict[str, np.ndarray]:
    """Of the model's own decoder: the sets (N, L), whether each is right, how probable it is said to be, before and
    after the repair; and the numbers (N,) that later data are compared by."""
    decoder = predictor.default_decoder
    predictions = predictor.predict(examples, [decoder])
    found = [prediction.label_sets[decoder] for prediction in predictions]
    sets = predictor.labels.one_hot([np.array(predictor.labels.known(one.labels), dtype=np.int64) for one in found])
    looks = looks_of(predictor, predictions, decoder)
    return {
        "predicted": sets,
        "right": (sets == targets).all(axis=1) & (unknown == 0),
        "prob": np.array([min(np.exp(one.log_prob), 1.0) for one in found]),
        "repaired_prob": np.array([predictor.set_prob(decoder, one) for one in found]),
        **{f"looks_{name}": numbers for name, numbers in looks.numbers.items()},
    }


def make(name: str, work: Path, root: Path, full: bool) -> None:
    """The model of a corpus and its outputs, as far as they are missing."""
    files = prepared(name, work, root, full)
    run = trained(name, work, files, full)
    predictor = None
    for part in files.keys() - {"train", "valid"}:
        path = work / name / f"{part}.npz"
        if path.exists():
            continue
        predictor = predictor or Predictor.load(run)
        store_outputs(predictor, list(read_examples(files[part], DataConfig(), labelled=True)), path)
        print(f"{name}: outputs on {part} stored", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(CORPORA), help=", ".join(CORPORA))
    parser.add_argument("--work", type=Path, help="folder of models and outputs")
    parser.add_argument("--full", action="store_true", help="train on all documents, with the preset's epochs")
    parser.add_argument("--data", type=Path, help="the folder of corpora, as of `orderfree data`")
    arguments = parser.parse_args()
    use_processor(1)
    for name in arguments.names:
        make(name, arguments.work or work_folder(arguments.full), data_root(arguments.data), arguments.full)


if __name__ == "__main__":
    main()
