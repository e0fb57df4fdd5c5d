"""What is compared. Each system is fitted on the training part and makes its choices (C, thresholds, decoders) on the
validation part. Then it is solved once more on both parts, with these choices; `predict` is all that ever sees a test
example.

    svm, logistic                 one-vs-rest on tf-idf words, scikit-learn
    chain                         a classifier chain of logistic regressions, frequent labels first, scikit-learn
    libmultilabel-1vsrest         LibMultiLabel's linear method
    libmultilabel-thresholding    the same with a threshold a label, which it chooses by its own cross-validation
    omikuji, napkinxc             label trees, with their default settings
    fasttext                      fastText, one-vs-all
    svm-<preset>-features         the SVM on the very features a preset uses
    <preset>                      orderfree
    fast-br                       `fast` without label decoder: plain binary cross-entropy
    finetuned                     orderfree with a file of configs/ here: takes longer than a preset may
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from baselines import BASELINES, Baseline, Job, fit_baseline
from fasttext_system import fit_fasttext
from layout import HERE, METRICS, Seconds
from scipy import sparse
from trees import TREES

from orderfree.build import load_config
from orderfree.checkpoint import TRAINING
from orderfree.config import Config
from orderfree.decisions.records import BEST
from orderfree.errors import OrderfreeError
from orderfree.inference import Predictor
from orderfree.metrics.at_k import top_labels
from orderfree.metrics.scores import to_matrix
from orderfree.nn.encoders import encoders
from orderfree.training.directory import RECORD
from orderfree.training.run import train
from orderfree.types import Example

SAME_FEATURES = re.compile(r"svm-(.+)-features")
SENTENCES = ("wordpieces", "embedding", "hybrid")  # inputs that mean nothing where words are numbers without order
PLAIN_DECODERS = ("joint", "br")
CONFIGS = HERE / "configs"
REQUIRED = ("libmultilabel", "omikuji", "napkinxc", "fasttext")
FASTTEXT = "fasttext"
CHANGED = {"fast-br": ("fast", ["objective.sequence=null"])}  # presets with other settings


class Trained(Protocol):
    """A fitted system, its choices made."""

    labels: tuple[str, ...]
    choices: dict[str, dict[str, Any]]  # metric -> what validation chose for it
    plain: tuple[str, ...]  # other names `predict` knows: decoders as they are, for whatever metric
    bytes: int  # of all that a prediction needs
    in_vain: Seconds  # of fitting, what went into values of C that were not kept

    def predict(self, examples: Sequence[Example], names: Sequence[str]) -> dict[str, sparse.csr_array]:
        """Sets (N, L) bool by each of these choices: metrics or names of `plain`."""

    def rank(self, examples: Sequence[Example]) -> np.ndarray:
        """(N, K) the first labels of each example, the highest score first."""


def baseline(name: str) -> Baseline | None:
    """None: a preset of orderfree."""
    if same := SAME_FEATURES.fullmatch(name):
        return replace(BASELINES["svm"], preset=same[1])
    return BASELINES.get(name) or TREES.get(name)


def is_ours(name: str) -> bool:
    return baseline(name) is None and name != FASTTEXT


def opponents(name: str) -> tuple[str, str]:
    """Whom one of ours is tested against, example by example."""
    return "svm", f"svm-{'best' if own_file(name) else CHANGED.get(name, (name,))[0]}-features"


def own_file(name: str) -> Path | None:
    """The configuration, where the system is no preset."""
    path = CONFIGS / f"{name}.yaml"
    return path if path.exists() else None


def our_config(name: str, settings: Sequence[str] = ()) -> Config:
    preset, changes = CHANGED.get(name, (name, []))
    path = own_file(preset)
    return load_config(path, [*changes, *settings], preset=None if path else preset)


def refusal(name: str, sentences: bool, many_labels: bool = False) -> str | None:
    """Why this system cannot be run, not on a corpus without sentences, or not with many labels; None: it can."""
    library = name.partition("-")[0]
    if library in REQUIRED and importlib.util.find_spec(library) is None:
        return f"{library} is not installed; benchmarks/quality/requirements.txt says how"
    if many_labels and not is_ours(name) and name not in TREES:
        return "one classifier a label takes hours and several gigabytes with thousands of labels"
    try:
        reads = reads_sentences(name)
    except OrderfreeError as error:  # no such preset
        return str(error)
    if reads and not sentences:
        return "it reads sentences, and the texts of this corpus are numbers of terms"
    return None


def reads_sentences(name: str) -> bool:
    """Whether the system needs texts as they were written, not just the words in them."""
    if name == FASTTEXT:
        return True
    found = baseline(name)
    preset = name if found is None else found.preset
    if preset is None:
        return False
    model = our_config(preset).model
    kind = encoders[model.encoder].input_kind  # type: ignore[attr-defined]
    return kind in SENTENCES or bool(model.encoder_options.get("embeddings"))


def fit_system(name: str, job: Job) -> Trained:
    if name == FASTTEXT:
        return fit_fasttext(job)
    found = baseline(name)
    return fit_preset(name, job) if found is None else fit_baseline(found, job)


@dataclass
class TrainedPreset:
    labels: tuple[str, ...]
    choices: dict[str, dict[str, Any]]
    plain: tuple[str, ...]
    predictor: Predictor
    bytes: int
    in_vain: Seconds

    def predict(self, examples: Sequence[Example], names: Sequence[str]) -> dict[str, sparse.csr_array]:
        decoders = {name: BEST + name if name in METRICS else name for name in names}
        made = list(self.predictor.predict(examples, list(decoders.values())))
        return {
            name: to_matrix([prediction.label_sets[decoder].labels for prediction in made], self.labels)
            for name, decoder in decoders.items()
        }

    def rank(self, examples: Sequence[Example]) -> np.ndarray:
        return top_labels(self.predictor.predict_proba(examples))


def unfinished(folder: Path) -> bool:
    """Whether there is a training to go on with."""
    return (folder / "model" / TRAINING / RECORD).exists()


def fit_preset(name: str, job: Job) -> TrainedPreset:
    out = job.folder / "model"
    config = our_config(name, [f"seed={job.seed}", "training.tensorboard=false"])
    train(config, job.train, job.valid, out, resume=unfinished(job.folder))
    predictor = Predictor.load(out)
    choices = {
        metric: {"decoder": best.search, "threshold": best.thresholds, "br_power": best.br_power}
        for metric, best in predictor.trained.decisions.best.items()
    }
    plain = tuple(decoder for decoder in PLAIN_DECODERS if decoder in predictor.decoders)
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    size = sum(file["bytes"] for file in manifest["files"].values())
    return TrainedPreset(predictor.labels.names, choices, plain, predictor, size, in_vain=Seconds())
