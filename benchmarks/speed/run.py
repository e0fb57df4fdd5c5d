"""Speed as ratios, each taken by turns in one run: JSON, a table, and what got worse since the committed baseline.

    python benchmarks/speed/run.py [--corpus toy|FOLDER] [--rounds 5] [--out FILE] [--baseline FILE]
    python benchmarks/speed/run.py --out benchmarks/results/speed.json      # a new baseline

FOLDER holds train.jsonl.gz and test.jsonl.gz. The machine's unit is a product of two 1024 x 1024 matrices, done in the
same turns: documents a product says how many documents are through in its time. Ends with 1 where a ratio got worse by
more than 15 %.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from exhaustive import loop_beam
from turns import alternate, ratio, worse

from orderfree.build import build_network, load_config
from orderfree.checkpoint import TrainedModel, versions
from orderfree.config import DataConfig
from orderfree.data.batching import length_bucketed
from orderfree.data.readers import read_examples
from orderfree.data.writers import write_examples
from orderfree.decoding.search import searches
from orderfree.inference import Predictor
from orderfree.testing.toy import toy_corpus
from orderfree.training.loop import Trainer
from orderfree.training.prepare import prepare
from orderfree.training.solve import start_encoder
from orderfree.types import DecodeInput, Example

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
SMALL_BILSTM = [
    "model.encoder=bilstm",
    *(f"model.encoder_options.{k}={v}" for k, v in (("embedding", 64), ("hidden", 64))),
]
QUICK = ["model.encoder_options.c=1.0", "model.encoder_options.folds=2"]  # one C instead of a search for it
TRAINED = {
    "linear, ocd + br (preset fast)": QUICK,
    "linear, mle + br": [*QUICK, "objective.sequence=mle"],
    "sparse, ocd + br": ["model.encoder=sparse"],
    "sparse, mle + br": ["model.encoder=sparse", "objective.sequence=mle"],
    "sparse, br": ["model.encoder=sparse", "objective.sequence=null"],
    "bilstm 64, ocd + br": SMALL_BILSTM,
}
WIDTHS = (1, 6, 24)
SEARCHED = 128  # documents the searches are compared on
LOOPED = 8  # of them, those the beam in plain Python gets

Figures = dict[str, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="toy", help="toy, or a folder with train.jsonl.gz and test.jsonl.gz")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "speed.json")
    parser.add_argument("--baseline", type=Path, default=RESULTS / "speed.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # CPU time of one thread can be compared; of two that wait for one another it cannot
    before = json.loads(arguments.baseline.read_text(encoding="utf-8")) if arguments.baseline.exists() else None
    with tempfile.TemporaryDirectory() as folder:
        train_file, test = corpus(arguments.corpus, Path(folder))
        figures = training(train_file, Path(folder), arguments.rounds)
        predictor = trained(train_file, Path(folder))
        figures |= searching(predictor, test[:SEARCHED], arguments.rounds)
        figures |= latency(predictor, train_file, test[: 20 * arguments.rounds])
    figures |= start_up(arguments.rounds)
    result = {"corpus": Path(arguments.corpus).name, "rounds": arguments.rounds, "versions": versions()}
    result |= {"load": os.getloadavg()[0], "figures": figures}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    show(figures)
    if before is None or before["corpus"] != result["corpus"]:
        print("no baseline of this corpus to compare with")
        return
    found = worse(figures, before["figures"])
    print("\n".join(f"WORSE {line}" for line in found) or "nothing got worse by more than 15 %")
    sys.exit(1 if found else 0)


def corpus(name: str, folder: Path) -> tuple[Path, list[Example]]:
    if name != "toy":
        test = list(read_examples(Path(name) / "test.jsonl.gz", DataConfig(), labelled=True))
        return Path(name) / "train.jsonl.gz", test
    toy = toy_corpus(train=2000, valid=100, test=300)
    write_examples(toy.train, folder / "train.jsonl", "jsonl", DataConfig())
    return folder / "train.jsonl", toy.test


def product() -> Callable[[], Any]:
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    return lambda: left @ right


def trainer(train_file: Path, cache: Path, settings: list[str]) -> Trainer:
    cache.mkdir()
    config = load_config(None, settings)
    data = prepare(config, train_file, None, cache)
    torch.manual_seed(config.seed)
    network = build_network(config, data.featurizer.input_size, len(data.labels))
    start_encoder(network, data.train, cache, config.seed, lambda _: None)
    return Trainer(TrainedModel(config, data.labels, data.featurizer, network), data, cache)


def training(train_file: Path, folder: Path, rounds: int) -> Figures:
    """Updates per encoder and objective: batches of an epoch, the same for all rounds."""
    work: dict[str, Callable[[], Any]] = {"product": product()}
    documents = {}
    for number, (name, settings) in enumerate(TRAINED.items()):
        own = trainer(train_file, folder / f"cache{number}", settings)
        data, training_config = own.data.train, own.config.training
        batches = length_bucketed(data.lengths, training_config.batch_size, own.config.seed, epoch=0)[:8]
        documents[name] = sum(map(len, batches))
        work[name] = lambda own=own, batches=batches: [own.train_step(rows) for rows in batches]
    seconds = alternate(work, rounds)
    return {
        f"training, documents a product: {name}": figure(
            ratio([documents[name] * unit for unit in seconds["product"]], seconds[name])
        )
        for name in documents
    }


def trained(train_file: Path, folder: Path) -> Predictor:
    """The preset fast after a few dozen updates: searches are timed on a model that knows something."""
    own = trainer(train_file, folder / "searched", QUICK)
    for rows in length_bucketed(own.data.train.lengths, 64, 1, epoch=0)[:40]:
        own.train_step(rows)
    return Predictor(own.trained)


def searching(predictor: Predictor, documents: list[Example], rounds: int) -> Figures:
    featurizer = predictor.trained.featurizer
    given = predictor.start(featurizer.collate([featurizer.encode(one).arrays for one in documents]))
    alone = [one_input(given, place) for place in range(min(LOOPED, len(documents)))]

    def searched(name: str, width: int) -> Callable[[], Any]:
        limits = replace(predictor.limits, width=width)
        return torch.inference_mode()(lambda: searches[name](given, limits))

    @torch.inference_mode()
    def looped() -> None:
        for one in alone:
            assert one.step is not None
            assert one.state is not None
            loop_beam(one.step, one.state, one.num_labels, predictor.limits)

    work = {f"beam {width}": searched("beam", width) for width in WIDTHS}
    work |= {name: searched(name, predictor.limits.width) for name in ("joint", "rescore", "br")}
    work |= {"merged": torch.inference_mode()(lambda: searches["marginal"](given, predictor.limits)), "loop": looped}
    seconds = alternate({"product": product(), **work}, rounds)
    usual = seconds[f"beam {predictor.limits.width}"]
    a_loop = [spent * len(documents) / len(alone) for spent in seconds["loop"]]
    found = {
        "beam, times the speed of a beam in plain Python": figure(ratio(a_loop, usual)),
        "joint decoding, times the cost of plain beam": figure(ratio(seconds["joint"], usual), "lower"),
    }
    for name in work:
        if name != "loop":
            done = [len(documents) * unit for unit in seconds["product"]]
            found[f"search, documents a product: {name}"] = figure(ratio(done, seconds[name]))
    return found


def one_input(given: DecodeInput, place: int) -> DecodeInput:
    assert given.state is not None
    row = torch.tensor([place])
    return replace(given, state=given.state.select(row, row))


def latency(predictor: Predictor, train_file: Path, documents: list[Example]) -> Figures:
    """One document at a time, against scikit-learn's pipeline of tf-idf and one LinearSVC a label."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MultiLabelBinarizer
    from sklearn.svm import LinearSVC

    known = list(read_examples(train_file, DataConfig(), labelled=True))
    targets = MultiLabelBinarizer().fit_transform([example.labels or () for example in known])
    peer = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), OneVsRestClassifier(LinearSVC()))
    peer.fit([example.text for example in known], targets)
    spent: dict[str, list[float]] = {"peer": [], "joint": [], "br": []}
    for document in documents:
        work: dict[str, Callable[[], Any]] = {"peer": lambda: peer.predict([document.text])}  # noqa: B023
        work |= {name: lambda name=name: list(predictor.predict([document], [name])) for name in ("joint", "br")}  # noqa: B023
        for name, (seconds,) in alternate(work, rounds=1).items():
            spent[name].append(seconds)
    found = {}
    for name in ("joint", "br"):
        for share in (50, 99):
            value = float(np.percentile(spent[name], share) / np.percentile(spent["peer"], share))
            found[f"latency of one document, {name}, p{share}, times scikit-learn's"] = figure(
                {"median": value}, "lower"
            )
    return found


def start_up(rounds: int) -> Figures:
    """CPU seconds of the command's help beyond those of an empty Python."""

    def child(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    empty, asked = [], []
    for _ in range(rounds):
        empty.append(child("-c", "pass"))
        asked.append(child("-m", "orderfree", "--help"))
    return {"start-up of --help, times an empty Python": figure(ratio(asked, empty), "lower")}


def figure(found: dict[str, Any], better: str = "higher") -> dict[str, Any]:
    return {**found, "better": better}


def show(figures: Figures) -> None:
    width = max(map(len, figures))
    for name, found in figures.items():
        spread = f"  ({found['lowest']:.3g} to {found['highest']:.3g})" if "lowest" in found else ""
        print(f"{name:<{width}}  {found['median']:8.3g}{spread}")


if __name__ == "__main__":
    main()
