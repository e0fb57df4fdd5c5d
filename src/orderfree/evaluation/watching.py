"""Whether the inputs of a model have changed: what `promises/shift.py` compares, taken from predictions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from threading import Lock

import numpy as np

from ..data.featurizers import bag_part
from ..inference import Prediction, Predictor
from ..promises.shift import Looks, Reference, Shift, compare
from ..types import Example

log = logging.getLogger(__name__)
BLOCK = 500  # texts of a service that are compared at once


def looks_of(predictor: Predictor, predictions: Sequence[Prediction], decoder: str) -> Looks:
    """What is looked at of predictions that this decoder has made."""
    sets = [prediction.label_sets[decoder] for prediction in predictions]
    numbers = {
        "set_probability": np.exp([found.log_prob for found in sets]),
        "set_size": np.array([len(found.labels) for found in sets], dtype=float),
    }
    bag = bag_part(predictor.trained.featurizer)
    if bag is not None and bag.terms is not None:
        shares = [bag.unknown_share(prediction.example.text or "") for prediction in predictions]
        numbers["unknown_words"] = np.array(shares)
    nearest = [prediction.nearest for prediction in predictions]
    if all(cosine is not None for cosine in nearest):
        numbers["nearest"] = np.array(nearest, dtype=float)
    ids = [number for found in sets for number in predictor.labels.known(found.labels)]
    return Looks(numbers, np.bincount(ids, minlength=len(predictor.labels)), len(sets))


def reference_of(predictor: Predictor, examples: Iterable[Example]) -> Reference:
    """How these examples look to the model, to compare later ones with."""
    decoder = predictor.default_decoder
    return Reference.of(looks_of(predictor, list(predictor.predict(examples, [decoder])), decoder), decoder)


def shift_of(predictor: Predictor, predictions: Sequence[Prediction]) -> Shift | None:
    """How predictions compare with the model's reference; None: it has none, or another decoder has made them."""
    reference = predictor.trained.decisions.reference
    if reference is None or not predictions or reference.decoder not in predictions[0].label_sets:
        return None
    return compare(reference, looks_of(predictor, predictions, reference.decoder))


class Watch:
    """Compares the texts of a service with the reference of its model, one block after another."""

    def __init__(self, predictor: Predictor, block: int = BLOCK) -> None:
        self.predictor, self.block = predictor, block
        self.newest: Shift | None = None  # of the last full block
        self._parts: list[Looks] = []
        self._lock = Lock()

    def saw(self, predictions: Sequence[Prediction]) -> None:
        """Predictions of the reference's decoder count; others are left out."""
        reference = self.predictor.trained.decisions.reference
        if reference is None or not predictions or reference.decoder not in predictions[0].label_sets:
            return
        looks = looks_of(self.predictor, predictions, reference.decoder)
        with self._lock:
            self._parts.append(looks)
            if sum(part.examples for part in self._parts) >= self.block:
                self.newest = compare(reference, Looks.together(self._parts))
                self._parts = []
                if self.newest is not None and self.newest.shifted:
                    log.warning(self.newest.sentence)
