"""Comparison of models on the same examples, with paired tests. With `seeds`, every model is trained again with each
seed, so that the tests also cover the randomness of training."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..config import Config
from ..errors import DataError
from ..inference import Predictor
from ..metrics.resampling import between_seeds, intervals, paired
from ..metrics.scores import FIVE, evaluation_labels, per_label, scores, to_matrix
from ..training.run import train
from ..types import Example

EXAMPLES_SHOWN = 30
TEXT_SHOWN = 600  # characters
P_COVERS = (
    "p covers the choice of test examples only, not the training: the same command with another seed gives another "
    "model, and two such models can differ with a small p. Train each with several seeds before you call one better "
    "(--seeds)."
)
P_COVERS_SEEDS = (
    "Scores are means over the seeds, with their standard deviation; p covers the choice of test examples and the "
    "training with another seed."
)


def compare(
    runs: Mapping[str, Predictor],
    examples: Sequence[Example],
    decode: str | None = None,
    retrained: Mapping[str, Sequence[Predictor]] | None = None,
) -> dict[str, Any]:
    """Plain JSON. Each run is scored with one decoder: `decode`, or the run's default. All runs are compared with the
    first. Labels are those of all runs; a run without a label misses it. Unknown labels of an example count as not
    predicted. `retrained`: the models of `retrain`, by run; the metrics are then means over them."""
    decoders = {name: decode or predictor.default_decoder for name, predictor in runs.items()}
    examples = [example for example in examples if example.unknown is not None]
    if not examples:
        raise DataError("no example has labels that are known; expected some to compare by.")
    generated = {name: _generated(predictor, examples, decoders[name]) for name, predictor in runs.items()}
    targets = [example.labels or () for example in examples]
    everyone = [*runs.values(), *(predictor for models in (retrained or {}).values() for predictor in models)]
    known = dict.fromkeys(label for predictor in everyone for label in predictor.labels.names)
    labels, unseen = evaluation_labels(list(known), targets)
    truth = to_matrix(targets, labels)
    sets = {name: to_matrix(label_sets, labels) for name, label_sets in generated.items()}  # run -> (N, L)
    if retrained is None:
        metrics = {metric: _judged(metric, truth, sets) for metric in FIVE}
    else:
        by_seed = {
            name: [to_matrix(_generated(predictor, examples, decoders[name]), labels) for predictor in models]
            for name, models in retrained.items()
        }
        metrics = {metric: _judged_by_seed(metric, truth, by_seed) for metric in FIVE}
    return {
        "examples": len(examples),
        "labels": len(labels),
        "unseen_labels": unseen,
        "runs": list(runs),
        "metrics": metrics,
        "decoders": decoders,
        "p_covers": P_COVERS if retrained is None else P_COVERS_SEEDS,
        "per_label": _by_label(truth, sets, labels),
        **_agreement(generated, examples),
    }


def retrain(
    config: Config, seeds: Sequence[int], train_file: Path, valid_file: Path | None, say: Callable[[str], None]
) -> list[Predictor]:
    """The same settings trained once with each seed; nothing is kept on disk."""
    models = []
    for seed in seeds:
        say(f"training with seed {seed}")
        with tempfile.TemporaryDirectory() as folder:
            settings = config.model_copy(update={"seed": seed})
            models.append(Predictor(train(settings, train_file, valid_file, Path(folder) / "run", progress=False)))
    return models


def _generated(predictor: Predictor, examples: Sequence[Example], decoder: str) -> list[tuple[str, ...]]:
    """The labels predicted for each example, without its unknown labels."""
    return [
        tuple(
            label for label in prediction.label_sets[decoder].labels if label not in (prediction.example.unknown or ())
        )
        for prediction in predictor.predict(examples, [decoder])
    ]


def _judged(metric: str, truth: sparse.csr_array, sets: dict[str, sparse.csr_array]) -> dict[str, Any]:
    """By run: the score, its interval, and the paired test against the first run."""
    first = next(iter(sets.values()))
    sure = intervals(truth, sets, [metric])
    return {
        name: {
            "score": scores(truth, predicted)[metric],
            "interval": sure[name][metric],
            "against_first": None if predicted is first else paired(metric, truth, [predicted], first),
        }
        for name, predicted in sets.items()
    }


def _judged_by_seed(metric: str, truth: sparse.csr_array, sets: dict[str, list[sparse.csr_array]]) -> dict[str, Any]:
    """By run: the mean over its seeds, their standard deviation, and the test against the first run."""
    first = next(iter(sets.values()))
    judged = {}
    for name, predicted in sets.items():
        values = [scores(truth, one)[metric] for one in predicted]
        judged[name] = {
            "score": float(np.mean(values)),
            "deviation": float(np.std(values, ddof=1)),
            "by_seed": values,
            "interval": [min(values), max(values)],
            "against_first": None if predicted is first else between_seeds(metric, truth, predicted, first),
        }
    return judged


def _by_label(truth: sparse.csr_array, sets: dict[str, sparse.csr_array], labels: list[str]) -> list[dict[str, Any]]:
    """F1 of every label with true examples, by run; labels on which the runs differ most come first."""
    by_run = {name: per_label(truth, predicted, labels) for name, predicted in sets.items()}
    rows = [
        {
            "label": label,
            "support": int(row["support"]),
            "f1": {name: float(by_run[name][column]["f1"]) for name in sets},
        }
        for column, (label, row) in enumerate(zip(labels, next(iter(by_run.values())), strict=True))
        if row["support"]
    ]
    return sorted(rows, key=lambda row: (min(row["f1"].values()) - max(row["f1"].values()), -row["support"]))


def _agreement(generated: dict[str, list[tuple[str, ...]]], examples: Sequence[Example]) -> dict[str, Any]:
    """How many examples only one run predicts exactly, and some examples on which the runs disagree."""
    right = {
        name: [set(labels) == set(example.labels or ()) for labels, example in zip(sets, examples, strict=True)]
        for name, sets in generated.items()
    }
    alone = dict.fromkeys(generated, 0)
    shown: list[dict[str, Any]] = []
    everybody = nobody = 0
    for row, example in enumerate(examples):
        winners = [name for name in generated if right[name][row]]
        everybody += len(winners) == len(generated)
        nobody += not winners
        if len(winners) == 1:
            alone[winners[0]] += 1
        if 0 < len(winners) < len(generated) and len(shown) < EXAMPLES_SHOWN:
            shown.append(
                {
                    "id": example.id,
                    "text": (example.text or "")[:TEXT_SHOWN],
                    "target": list(example.labels or ()),
                    "predicted": {name: list(sets[row]) for name, sets in generated.items()},
                }
            )
    return {"right": {"all": everybody, "none": nobody, "alone": alone}, "disagreements": shown}
