"""The examples that a report shows, each with the steps that led to its prediction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..data.hierarchy import Hierarchy
from ..evaluation import closed, judge, known_parts, predict_for_scores
from ..evaluation.watching import comparable, shift_of
from ..inference import Prediction, Predictor
from ..types import Example
from .trace import likeliest, trace

EXAMPLES_SHOWN = 30
TEXT_SHOWN = 600  # characters
CANDIDATES_SHOWN = 5  # at every step of an example
SETS_SHOWN = 8  # of a list that holds the true one


def evaluate_with_examples(
    predictor: Predictor, examples: Iterable[Example], decoders: Sequence[str], hierarchy: Hierarchy | None = None
) -> dict[str, Any]:
    """What `evaluate` returns, and the examples that the report shows."""
    own = [predictor.default_decoder]
    compared = own if comparable(predictor, own) and not comparable(predictor, decoders) else []
    raw = predict_for_scores(predictor, examples, [*decoders, *compared])
    shift = shift_of(predictor, raw)
    predictions = raw if hierarchy is None else [closed(prediction, hierarchy) for prediction in raw]
    scores = judge(predictor, predictions, decoders)
    shown = shown_examples(predictor, known_parts(predictor, predictions), scores["default_decoder"])
    return {**scores, "shift": None if shift is None else shift.to_json(), "examples_shown": shown}


def shown_examples(predictor: Predictor, predictions: Sequence[Prediction], decoder: str) -> list[dict[str, Any]]:
    """Mostly the surest mistakes, and a few the model got right; each with how it came about."""

    def right(prediction: Prediction) -> bool:
        return set(prediction.label_sets[decoder].labels) == set(prediction.example.labels or ())

    surest = sorted(predictions, key=lambda prediction: -prediction.label_sets[decoder].log_prob)
    wrong = [prediction for prediction in surest if not right(prediction)][: EXAMPLES_SHOWN * 2 // 3]
    correct = [prediction for prediction in predictions if right(prediction)][: EXAMPLES_SHOWN - len(wrong)]
    chosen = [*wrong, *correct]
    return [
        {
            "id": prediction.example.id,
            "text": (prediction.example.text or "")[:TEXT_SHOWN],
            "target": list(prediction.example.labels or ()),
            "predicted": list(prediction.label_sets[decoder].labels),
            "log_prob": prediction.label_sets[decoder].log_prob,
            "possible": possible,
            "generation": generation(predictor, prediction.example, decoder),
        }
        for prediction, possible in zip(chosen, possible_sets(predictor, chosen), strict=True)
    ]


def possible_sets(predictor: Predictor, predictions: Sequence[Prediction]) -> list[dict[str, Any] | None]:
    """The list of sets that the model promises to hold the true one, for each prediction, in as many as are shown;
    None where it makes no such promise."""
    promise = predictor.surest_candidates
    if promise is None:
        return [None] * len(predictions)
    found = predictor.predict([prediction.example for prediction in predictions], candidates=promise.level)
    lists = [one.candidates for one in found if one.candidates is not None]
    return [
        {
            "level": promise.level,
            "sets": [{"labels": list(labels), "prob": prob} for labels, prob in one.sets[:SETS_SHOWN]],
            "more": max(len(one.sets) - SETS_SHOWN, 0),
            "outside": one.outside,
            "doubtful": one.doubtful,
        }
        for one in lists
    ]


def generation(predictor: Predictor, example: Example, decoder: str) -> dict[str, Any]:
    """How one prediction came about: the steps of the label decoder, or where there is none the likeliest labels of
    binary relevance."""
    told = trace(predictor, example, decoder, words=0)
    names = (*predictor.labels.names, None)
    br: Sequence[float] = [] if told.br_probs is None else told.br_probs.tolist()

    def said(place: int) -> dict[str, Any]:
        return {"label": names[place], "br": br[place] if place < len(br) else None}

    if told.steps:
        steps = [
            {
                "taken": step.taken,
                "prob": step.prob,
                "may_stop": step.may_stop,
                "must_stop": step.must_stop,
                "candidates": [
                    {**said(place), "prob": float(step.probs[place])}
                    for place in likeliest(predictor, step, CANDIDATES_SHOWN)
                ],
            }
            for step in told.steps
        ]
        return {"told_by": told.told_by, "steps": steps, "br": []}
    thresholds = [0.5] * len(br) if told.br_thresholds is None else told.br_thresholds.tolist()
    likely = np.argsort(-np.asarray(br), kind="stable")[: 2 * CANDIDATES_SHOWN].tolist()
    decided = [
        {**said(place), "threshold": thresholds[place], "taken": names[place] in told.chosen.labels} for place in likely
    ]
    return {"told_by": None, "steps": [], "br": decided}
