"""Models and inputs made up at random, predicted in two ways that must agree.

    python benchmarks/reliability/fuzz_predictions.py [--cases 1000] [--seed 1] [--out FILE]

Every case is a small model with random weights, random limits of its search and random inputs, some of them of hostile
size, and is a function of its number. It checks three things:

- alone against batch: each input gets the same set, with every decoder, alone and among all others;
- what is written is JSON: no NaN or infinity, no label twice; or the case is refused in one sentence;
- unknown against absent: what a model says of labels that nobody has checked changes no score, and where nothing is
  unknown, scores of probabilities are those of scikit-learn.

Ends with 1 if any of this does not hold, or a case takes a gigabyte or long.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bounded import WRONG, Bounds, outcomes, run_fuzzer
from fuzz_models import KINDS, make_model
from sklearn.metrics import average_precision_score

from orderfree.checkpoint import TrainedModel
from orderfree.errors import OrderfreeError
from orderfree.evaluation import judge
from orderfree.inference import Prediction, Predictor
from orderfree.tools.prediction_records import prediction_record
from orderfree.types import Example

ROOT = Path(__file__).resolve().parents[2]
DECODERS = ("lstm", "sgm", "seq2set")
LABELS = ("abc", "abcdefgh")  # of which there are fewer sets than a beam holds, or more
WORDS = ("red", "fish", "a", "one", "in", "blue", "two", "unheard", "\u202e", "")
TIE = 1e-4  # log-probabilities nearer than this are equal but for rounding, which is another in another batch
BOUNDS = Bounds(megabytes=1024, processor_seconds=30, seconds=300)


def made_up(case: int, seed: int) -> tuple[random.Random, Predictor, list[Example]]:
    choice = random.Random(f"{seed} {case}")
    kind = choice.choice(sorted(KINDS))
    scale = choice.choice((0.3, 1.0, 3.0, 3.0, 10.0 ** choice.uniform(0, 38)))
    names = choice.choice(LABELS)
    sets = [names[: place + 1] for place in range(len(names))]  # the labels of a model are in the order of their names
    trained: TrainedModel = make_model(
        kind, torch.Generator().manual_seed(case), scale, sets, label_decoder=choice.choice(DECODERS)
    )
    decoding = trained.config.decoding.model_copy(update={"batch_size": choice.choice((1, 3, 64))})
    trained.config = trained.config.model_copy(update={"decoding": decoding})
    predictor = Predictor(trained)
    fewest, most = sorted(choice.choices(range(len(names) + 1), k=2))
    width = choice.choice((1, 2, 4, 8))
    predictor.limits = replace(predictor.limits, min_labels=fewest, max_labels=max(most, 1), width=width)
    return choice, predictor, [_example(choice, kind, names, number) for number in range(choice.randrange(2, 12))]


def _example(choice: random.Random, kind: str, names: str, number: int) -> Example:
    content: dict[str, Any]
    if kind == "dense":
        size = choice.choice((1.0, 1.0, 10.0 ** choice.uniform(-38, 38)))
        generator = np.random.default_rng(choice.randrange(1 << 30))
        frames = generator.normal(size=(choice.randrange(1, 5), 3)) * size
        content = {"features": np.clip(frames, -3e38, 3e38).astype(np.float32)}
    else:
        content = {"text": " ".join(choice.choices(WORDS, k=choice.choice((0, 1, 3, 30))))}
    labels = tuple(name for name in names if choice.random() < 0.4)
    unknown = tuple(name for name in names if name not in labels and choice.random() < 0.3)
    return Example(str(number), **content, labels=labels, unknown=unknown)


def tried(case: int, seed: int) -> str:
    try:
        choice, predictor, examples = made_up(case, seed)
        names = list(predictor.decoders)
        together = predictor.predict(examples, names, marginals=True)
        fault = _not_json(predictor, together, names) or _alone_differs(predictor, together, names)
        fault = fault or _unknown_counts(choice, predictor, together) or _other_ranking(predictor, together)
    except OrderfreeError:
        return "refused"
    except BaseException as error:
        return f"{WRONG}: {type(error).__name__}: {str(error)[:200]}"
    return f"{WRONG}: {fault}" if fault else "agrees"


def _not_json(predictor: Predictor, found: list[Prediction], names: list[str]) -> str | None:
    for prediction in found:
        for name in names:
            record = prediction_record(predictor, prediction, name, None, "all")
            try:
                json.dumps(record, allow_nan=False)
            except ValueError:
                return f"{name} writes what is no JSON"
            if len(set(record["labels"])) < len(record["labels"]):
                return f"{name} says a label twice"
    return None


def _alone_differs(predictor: Predictor, together: list[Prediction], names: list[str]) -> str | None:
    for among in together:
        (alone,) = predictor.predict([among.example], names, marginals=True)
        for name in names:
            one, other = alone.label_sets[name], among.label_sets[name]
            if set(one.labels) != set(other.labels) and not _tie(one, other):
                return f"{name} says {one.labels} alone and {other.labels} among others"
        if alone.marginals is not None and not np.allclose(alone.marginals, among.marginals, atol=1e-4):
            return "marginals differ alone and among others"
    return None


def _tie(one: Any, other: Any) -> bool:
    if abs(one.log_prob - other.log_prob) <= TIE * max(1.0, abs(one.log_prob)):
        return True
    return not (math.isfinite(one.log_prob) or math.isfinite(other.log_prob))


def _unknown_counts(choice: random.Random, predictor: Predictor, found: list[Prediction]) -> str | None:
    """Probabilities of unknown labels are drawn anew, and label sets get them or lose them."""
    before, after = (
        judge(predictor, predictions, ["br"]) for predictions in (found, _redrawn(choice, predictor, found))
    )
    for key in ("decoders", "ranking", "calibration", "precision_recall", "label_calibration", "per_label"):
        if json.dumps(before[key]) != json.dumps(after[key]):
            return f"{key} depends on what is said of unknown labels"
    return None


def _redrawn(choice: random.Random, predictor: Predictor, found: list[Prediction]) -> list[Prediction]:
    changed = []
    for prediction in found:
        lost = set(prediction.example.unknown or ())
        rows = {}
        for key in ("probs", "marginals"):
            row = getattr(prediction, key).copy()
            row[predictor.labels.known(lost)] = [choice.random() for _ in lost]
            rows[key] = row
        chosen = prediction.label_sets["br"]
        labels = (*(name for name in chosen.labels if name not in lost), *sorted(lost))
        changed.append(replace(prediction, label_sets={"br": replace(chosen, labels=labels)}, **rows))
    return changed


def _other_ranking(predictor: Predictor, found: list[Prediction]) -> str | None:
    """Mean average precision by scikit-learn, label by label, of the examples for which it is known."""
    scores = judge(predictor, found, ["br"])["ranking"]
    for key, rows in (("br", [p.probs for p in found]), ("sequence", [p.marginals for p in found])):
        each = []
        for column, name in enumerate(predictor.labels.names):
            known = [n for n, p in enumerate(found) if name not in (p.example.unknown or ())]
            truth = np.array([name in (found[n].example.labels or ()) for n in known], dtype=bool)
            if truth.any() and not truth.all():
                each.append(average_precision_score(truth, [rows[n][column] for n in known]))
        told = scores[key]["mean_average_precision"]
        if (told is None) != (not each) or (each and not math.isclose(told, np.mean(each), rel_tol=1e-6)):
            return f"the ranking of {key} is {told}, by scikit-learn {np.mean(each) if each else None}"
    return None


def fuzz(cases: int, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    for kind in KINDS:  # imports what they need, once for all processes
        make_model(kind, torch.Generator())
    told = outcomes(range(cases), lambda case: tried(case, seed), BOUNDS)
    wrong = {case: one for case, one in enumerate(told) if one.startswith(WRONG)}
    return {"cases": cases, "outcomes": dict(Counter(one for one in told if not one.startswith(WRONG))), "wrong": wrong}


if __name__ == "__main__":
    run_fuzzer(__doc__.splitlines()[0], ROOT / "benchmarks" / "results" / "fuzz_predictions.json", 1000, fuzz)
