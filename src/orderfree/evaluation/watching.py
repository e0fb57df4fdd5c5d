"""Whether the inputs of a model have changed: what `promises/shift.py` compares, taken from predictions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from ..data.featurizers import bag_part
from ..decisions.promised import promised_settings
from ..inference import Prediction, Predictor
from ..promises.shift import Looks, Reference, Shift, compare
from ..types import Example

log = logging.getLogger(__name__)
BLOCK = 500  # texts of a service that are compared at once


def looks_of(predictor: Predictor, predictions: Sequence[Prediction], decoder: str) -> Looks:
    """What is looked at of predictions that this decoder has made."""
    sets = [prediction.label_sets[decoder] for prediction in predictions]
    numbers = {
        "set_probability": np.exp([label_set.log_prob for label_set in sets]),
        "set_size": np.array([len(label_set.labels) for label_set in sets], dtype=float),
    }
    bag = bag_part(predictor.trained.featurizer)
    if bag is not None and bag.terms is not None:
        shares = [bag.unknown_share(prediction.example.text or "") for prediction in predictions]
        numbers["unknown_words"] = np.array(shares)
    nearest = [prediction.nearest for prediction in predictions]
    if all(cosine is not None for cosine in nearest):
        numbers["nearest"] = np.array(nearest, dtype=float)
    ids = [label for label_set in sets for label in predictor.labels.known(label_set.labels)]
    return Looks(numbers, np.bincount(ids, minlength=len(predictor.labels)), len(sets))


def references_of(
    predictor: Predictor, examples: Iterable[Example], decoders: Sequence[str] = ()
) -> dict[str, Reference]:
    """How these examples look to the model's own decoder and to others, to compare later ones with."""
    every = list(dict.fromkeys([predictor.default_decoder, *decoders]))
    predictions = list(predictor.predict(examples, every))
    return {
        decoder: Reference.of(looks_of(predictor, predictions, decoder), _settings(predictor, decoder))
        for decoder in every
    }


def _settings(predictor: Predictor, decoder: str) -> dict[str, Any]:
    decision = predictor.decision(decoder)
    return promised_settings(predictor.limits_of(decision), decision.search)


def comparable(predictor: Predictor, decoders: Iterable[str]) -> str | None:
    """The first of these decoders that has a reference, made with the same settings of decoding."""
    references = predictor.trained.decisions.references
    if predictor.own_thresholds is not None:
        return None
    return next((d for d in decoders if d in references and references[d].settings == _settings(predictor, d)), None)


def shift_of(predictor: Predictor, predictions: Sequence[Prediction]) -> Shift | None:
    """How predictions compare with the model's reference; None: it has none of the decoders that made them."""
    decoder = comparable(predictor, predictions[0].label_sets if predictions else ())
    if decoder is None:
        return None
    return compare(predictor.trained.decisions.references[decoder], looks_of(predictor, predictions, decoder))


class Watch:
    """Compares the texts of a service with the references of its model, one block of texts of a decoder after
    another."""

    def __init__(self, predictor: Predictor, block: int = BLOCK) -> None:
        self.predictor, self.block = predictor, block
        self.newest: Shift | None = None  # of the last full block
        self._parts: dict[str, list[Looks]] = {}  # by decoder
        self._lock = Lock()

    def saw(self, predictions: Sequence[Prediction]) -> None:
        """Predictions of decoders that have a reference count; others are left out."""
        decoder = comparable(self.predictor, predictions[0].label_sets if predictions else ())
        if decoder is None:
            return
        looks = looks_of(self.predictor, predictions, decoder)
        with self._lock:
            parts = self._parts.setdefault(decoder, [])
            parts.append(looks)
            if sum(part.examples for part in parts) >= self.block:
                self.newest = compare(self.predictor.trained.decisions.references[decoder], Looks.together(parts))
                parts.clear()
                if self.newest is not None and self.newest.shifted:
                    log.warning(self.newest.sentence)
