"""Models whose promises are measured, and what they say of held-out examples.

    python benchmarks/guarantees/models.py [NAME …] [--work runs/guarantees] [--data FOLDER]

For each name below: writes the data, trains the preset `fast` with its defaults and stores the outputs of the model on
every held-out part in <work>/<name>/<part>.npz. What is there is kept, and an interrupted training is resumed.

    toy          5,000 documents of the made-up newspaper are held out
    reuters      held out: the test part, and `early`, 1,000 documents of the training part
    rcv1-subset  held out: the test part and 1,939 documents of the validation part
    aapd         8,000 documents of the training part; held out: the test part and 3,000 others of the training part
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
from orderfree.config import DataConfig
from orderfree.data.corpora import data_root, load_parts
from orderfree.data.readers import read_examples
from orderfree.data.writers import write_examples
from orderfree.inference import Predictor
from orderfree.promising import LIST_WIDTH, sets_found
from orderfree.system.processor import use_processor
from orderfree.testing.toy import toy_corpus
from orderfree.training.run import RECORD, TRAINING, train
from orderfree.types import Example

SEED = 1
WORK = Path(__file__).resolve().parents[2] / "runs" / "guarantees"
Corpus = dict[str, list[Example]]


def toy(_: Path) -> Corpus:
    made = toy_corpus(SEED, test=5000)
    return {"train": list(made.train), "valid": list(made.valid), "held_out": list(made.test)}


def reuters(root: Path) -> Corpus:
    parts = _parts("reuters", root)
    early, rest = _drawn(parts["train"], 1000)
    return {"train": rest, "valid": parts["valid"], "held_out": parts["test"], "early": early}


def rcv1_subset(root: Path) -> Corpus:
    parts = _parts("rcv1-subset", root)
    valid, rest = _drawn(parts["valid"], 1000)
    return {"train": parts["train"], "valid": valid, "held_out": parts["test"] + rest}


def aapd(root: Path) -> Corpus:
    parts = _parts("aapd", root)
    drawn, _ = _drawn(parts["train"], 11_000)
    return {"train": drawn[:8_000], "valid": parts["valid"], "held_out": parts["test"] + drawn[8_000:]}


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


def prepared(name: str, work: Path, root: Path) -> dict[str, Path]:
    """The parts as files, written once."""
    folder = work / name / "data"
    if not folder.exists():
        parts = CORPORA[name](root)
        aside = folder.with_name("data.unfinished")
        aside.mkdir(parents=True, exist_ok=True)
        for part, examples in parts.items():
            write_examples(examples, aside / f"{part}.jsonl.gz", "jsonl", DataConfig())
        aside.rename(folder)
    return {path.name.removesuffix(".jsonl.gz"): path for path in sorted(folder.glob("*.jsonl.gz"))}


def trained(name: str, work: Path, files: dict[str, Path]) -> Path:
    run = work / name / "model"
    if not (run / "manifest.json").exists():
        config = load_config(None, [f"seed={SEED}", "training.tensorboard=false"], preset="fast")
        resume = (run / TRAINING / RECORD).exists()
        train(config, files["train"], files["valid"], run, resume=resume, overwrite=not resume and run.exists())
    return run


def store_outputs(predictor: Predictor, examples: list[Example], path: Path) -> None:
    """Label probabilities (N, L), true labels (N, L), whether a true label is unknown to the model, and the sets of
    the beam: their probabilities (N, W), largest first, and the place of the true set among them, -1 where it is not.
    """
    known = [predictor.labels.known(example.labels or ()) for example in examples]
    targets = predictor.labels.one_hot([np.array(ids, dtype=np.int64) for ids in known])  # (N, L)
    unknown = np.array([len(ids) < len(set(e.labels or ())) for ids, e in zip(known, examples, strict=True)])
    rows: dict[str, list[np.ndarray]] = {"br": [], "set_probs": [], "true_place": [], "sizes": []}
    at = 0
    for chunk, given in predictor.batches(examples):
        sets, probs = sets_found(predictor, given)  # (B, W, L), (B, W)
        truth = targets[at : at + len(chunk)]
        same = (sets == truth[:, None]).all(axis=2) & (probs > 0) & ~unknown[at : at + len(chunk), None]
        rows["br"].append(given.br_logits.sigmoid().cpu().numpy())
        rows["set_probs"].append(np.pad(probs, ((0, 0), (0, LIST_WIDTH - probs.shape[1]))))
        rows["true_place"].append(np.where(same.any(axis=1), same.argmax(axis=1), -1))
        rows["sizes"].append(sets[:, 0].sum(axis=1))
        at += len(chunk)
    np.savez_compressed(path, targets=targets, unknown=unknown, **{key: np.concatenate(r) for key, r in rows.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(CORPORA), help=", ".join(CORPORA))
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--data", type=Path, help="the folder of corpora, as of `orderfree data`")
    arguments = parser.parse_args()
    use_processor(1)
    for name in arguments.names:
        files = prepared(name, arguments.work, data_root(arguments.data))
        run = trained(name, arguments.work, files)
        print(f"{name}: trained", file=sys.stderr, flush=True)
        missing = [part for part in files if part not in ("train", "valid")]
        missing = [part for part in missing if not (arguments.work / name / f"{part}.npz").exists()]
        predictor = Predictor.load(run) if missing else None
        for part in missing:
            examples = list(read_examples(files[part], DataConfig(), labelled=True))
            store_outputs(predictor, examples, arguments.work / name / f"{part}.npz")
            print(f"{name}: {part} written", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
