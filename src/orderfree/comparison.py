"""Several models on the same examples: who is better at what, and is it more than luck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scipy import sparse

from .inference import BEST, USUAL_METRIC, Prediction, Predictor
from .metrics.resampling import intervals, paired
from .metrics.scores import FIVE, evaluation_labels, per_label, scores, to_matrix
from .types import Example

EXAMPLES_SHOWN = 30
TEXT_SHOWN = 600  # characters


def compare(runs: Mapping[str, Predictor], examples: Sequence[Example], decode: str | None = None) -> dict[str, Any]:
    """Plain JSON. Each metric is judged with the decoder a run has chosen for it, or with `decode`; all runs are
    compared with the first. Labels are those of all runs: a run that lacks one misses it."""
    decoders = {name: _decoders(predictor, decode) for name, predictor in runs.items()}
    made = {
        name: list(predictor.predict(examples, sorted(set(decoders[name].values()))))
        for name, predictor in runs.items()
    }
    targets = [example.labels or () for example in examples]
    known = dict.fromkeys(label for predictor in runs.values() for label in predictor.labels.names)
    labels, unseen = evaluation_labels(list(known), targets)
    truth = to_matrix(targets, labels)
    sets = {
        metric: {name: _sets(made[name], decoders[name][metric], labels) for name in runs} for metric in FIVE
    }  # metric -> run -> (N, L)
    return {
        "examples": len(examples),
        "labels": len(labels),
        "unseen_labels": unseen,
        "runs": list(runs),
        "metrics": {metric: _judged(metric, truth, sets[metric]) for metric in FIVE},
        "decoders": {
            name: {metric: runs[name].resolve(decoder)[0] for metric, decoder in chosen.items()}
            for name, chosen in decoders.items()
        },
        "per_label": _by_label(truth, sets[USUAL_METRIC], labels),
        **_agreement({name: [p.label_sets[decoders[name][USUAL_METRIC]].labels for p in made[name]] for name in runs},
                     examples),
    }  # fmt: skip


def _decoders(predictor: Predictor, decode: str | None) -> dict[str, str]:
    """By metric. A run that has not been tuned uses its own decoder for everything."""
    tuned = predictor.trained.decisions
    return {m: decode or (BEST + m if m in tuned else predictor.default_decoder) for m in FIVE}


def _sets(predictions: Sequence[Prediction], decoder: str, labels: Sequence[str]) -> sparse.csr_array:
    return to_matrix([prediction.label_sets[decoder].labels for prediction in predictions], labels)


def _judged(metric: str, truth: sparse.csr_array, sets: dict[str, sparse.csr_array]) -> dict[str, Any]:
    """By run: the score, its interval, and how it compares with the first run's."""
    first = next(iter(sets.values()))
    sure = intervals(truth, sets, [metric])
    return {
        name: {
            "score": scores(truth, own)[metric],
            "interval": sure[name][metric],
            "against_first": None if own is first else paired(metric, truth, [own], first),
        }
        for name, own in sets.items()
    }


def _by_label(truth: sparse.csr_array, sets: dict[str, sparse.csr_array], labels: list[str]) -> list[dict[str, Any]]:
    """F1 of every label that is true somewhere, by run; where the runs differ most comes first."""
    by_run = {name: per_label(truth, own, labels) for name, own in sets.items()}
    rows = [
        {
            "label": label,
            "support": int(row["support"]),
            "f1": {name: float(by_run[name][place]["f1"]) for name in sets},
        }
        for place, (label, row) in enumerate(zip(labels, next(iter(by_run.values())), strict=True))
        if row["support"]
    ]
    return sorted(rows, key=lambda row: (min(row["f1"].values()) - max(row["f1"].values()), -row["support"]))


def _agreement(generated: dict[str, list[tuple[str, ...]]], examples: Sequence[Example]) -> dict[str, Any]:
    """How many examples each run alone gets right as a whole, and some on which the runs part."""
    right = {
        name: [set(own) == set(example.labels or ()) for own, example in zip(found, examples, strict=True)]
        for name, found in generated.items()
    }
    alone = dict.fromkeys(generated, 0)
    shown: list[dict[str, Any]] = []
    everybody = nobody = 0
    for place, example in enumerate(examples):
        winners = [name for name in generated if right[name][place]]
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
                    "predicted": {name: list(found[place]) for name, found in generated.items()},
                }
            )
    return {"right": {"all": everybody, "none": nobody, "alone": alone}, "disagreements": shown}
