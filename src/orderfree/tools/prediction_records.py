"""What `orderfree predict` writes of each prediction."""

from __future__ import annotations

from typing import Any

from ..data.hierarchy import Hierarchy
from ..inference import Prediction, Predictor


def prediction_record(
    predictor: Predictor, prediction: Prediction, decoder: str, parents: Hierarchy | None, probs: str
) -> dict[str, Any]:
    """What `orderfree predict` writes of one prediction. `probs`: all, predicted or none; `parents` are said too."""
    label_set = prediction.label_sets[decoder]
    labels = label_set.labels if parents is None else parents.closed(label_set.labels)
    shown = None
    if prediction.probs is not None and probs != "none":
        names = predictor.labels.names if probs == "all" else labels
        shown = {name: round(float(prediction.probs[predictor.labels.ids[name]]), 6) for name in names}
    record: dict[str, Any] = {
        "id": prediction.example.id,
        "labels": list(labels),
        "decoder": predictor.decision(decoder).search,
        "log_prob": label_set.log_prob,
        "probs": shown,
    }
    if prediction.candidates is not None:
        listed = [{"labels": list(names), "prob": prob} for names, prob in prediction.candidates.sets]
        record["candidates"] = listed
        record["outside"] = {"possible": prediction.candidates.outside, "prob": prediction.candidates.outside_prob}
    return record


def abstaining(record: dict[str, Any], prob: float, below: float) -> dict[str, Any]:
    """The record of a prediction with the probability of its set; without labels where that is too low: they are
    `withheld` then."""
    withheld = {"labels": [], "withheld": record["labels"]} if prob < below else {}
    return {**record, **withheld, "prob": prob, "abstained": prob < below}
