"""fastText (Bojanowski et al. 2017) with the settings its tutorial has for several labels: one-vs-all, word bigrams. It
reads texts; the number of epochs is chosen for each metric, as C is for linear classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from baselines import Job, as_threshold, search_c
from layout import METRICS, Seconds
from scipy import sparse
from thresholds import Cut, best_cuts, sets_at

from orderfree.config import DataConfig
from orderfree.data.labels import LabelVocabulary
from orderfree.data.readers import read_examples
from orderfree.metrics.at_k import top_labels
from orderfree.metrics.scores import to_matrix
from orderfree.types import Example

SETTINGS = {"lr": 0.5, "wordNgrams": 2, "bucket": 200_000, "dim": 50, "loss": "ova"}
START, MOST = 25.0, 100.0  # epochs
PREFIX = "__label__"


@dataclass
class TrainedFasttext:
    labels: tuple[str, ...]
    choices: dict[str, dict[str, Any]]
    models: dict[float, Any]  # by number of epochs
    at_least_one: bool
    bytes: int
    in_vain: Seconds
    plain: tuple[str, ...] = ()

    def predict(self, examples: Sequence[Example], names: Sequence[str]) -> dict[str, sparse.csr_array]:
        wanted = {name: self.choices[name] for name in names}
        found = {epochs: self.score(examples, epochs) for epochs in {one["epochs"] for one in wanted.values()}}
        return {
            name: sets_at(found[one["epochs"]], as_threshold(one["threshold"]), self.at_least_one)
            for name, one in wanted.items()
        }

    def rank(self, examples: Sequence[Example]) -> np.ndarray:
        return top_labels(self.score(examples, self.choices["micro_f1"]["epochs"]))

    def score(self, examples: Sequence[Example], epochs: float) -> np.ndarray:
        return scores(self.models[epochs], examples, len(self.labels))


def fit_fasttext(job: Job) -> TrainedFasttext:
    train, valid = (list(read_examples(path, DataConfig(), labelled=True)) for path in (job.train, job.valid))
    labels = LabelVocabulary.count((example.labels or () for example in train), str(job.train), 2)
    at_least_one = () not in labels.combinations
    targets = sparse.csr_array(to_matrix([_known(example, labels) for example in valid], list(labels.names)))

    def cuts_at(epochs: float) -> dict[str, Cut]:
        model = fitted(train, labels, epochs, job)
        return best_cuts(scores(model, valid, len(labels)), targets.astype(bool), at_least_one)

    began = Seconds.now()
    tried = search_c(cuts_at, START, MOST)
    in_vain = Seconds.now() - began
    best = {metric: max(tried, key=lambda epochs: tried[epochs][metric].value) for metric in METRICS}
    models = {epochs: fitted([*train, *valid], labels, epochs, job) for epochs in sorted(set(best.values()))}
    choices = {
        metric: {"epochs": epochs, "tried": sorted(tried), **tried[epochs][metric].as_choice()}
        for metric, epochs in best.items()
    }
    path = job.folder / "fasttext.bin"
    models[best["micro_f1"]].save_model(str(path))
    size = path.stat().st_size
    path.unlink()
    return TrainedFasttext(labels.names, choices, models, at_least_one, size, in_vain)


def fitted(examples: Sequence[Example], labels: LabelVocabulary, epochs: float, job: Job) -> Any:
    import fasttext

    path = Path(job.folder) / "fasttext.txt"
    with open(path, "w", encoding="utf-8") as file:
        for example in examples:
            tags = " ".join(f"{PREFIX}{label}" for label in labels.known(_known(example, labels)))
            file.write(f"{tags} {_line(example)}\n")
    model = fasttext.train_supervised(
        str(path), epoch=round(epochs), thread=job.threads, seed=job.seed, verbose=0, **SETTINGS
    )
    path.unlink()
    return model


def scores(model: Any, examples: Sequence[Example], labels: int) -> np.ndarray:
    """(N, L) probabilities as log-odds."""
    found = np.zeros((len(examples), labels))
    names, probs = model.predict([_line(example) for example in examples], k=-1)
    for row, (some, values) in enumerate(zip(names, probs, strict=True)):
        found[row, [int(name.removeprefix(PREFIX)) for name in some]] = values
    inside = found.clip(1e-6, 1 - 1e-6)
    log_odds: np.ndarray = np.log(inside / (1 - inside))
    return log_odds


def _known(example: Example, labels: LabelVocabulary) -> list[str]:
    return [label for label in example.labels or () if label in labels.ids]


def _line(example: Example) -> str:
    return " ".join((example.text or "").lower().split())
