"""Scores on the validation part while training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ..data.corpus import Corpus
from ..decisions.records import probabilities, sets_at
from ..decoding.search import searches
from ..evaluation import decode_corpus
from ..inference import Predictor
from ..metrics.thresholds import best_threshold
from .distributed.processes import ALONE, Team


@dataclass(frozen=True, slots=True)
class Validation:
    scores: dict[str, dict[str, float]]  # decoder -> metric -> value
    threshold: float | None  # of binary relevance, tuned on this very data for micro-F1


def validate(predictor: Predictor, corpus: Corpus, decoders: Sequence[str], team: Team = ALONE) -> Validation:
    """Scores of every decoder; thresholds are tuned for micro-F1. Several processes share the batches, and the sum of
    what they decoded has every row once."""
    decoded = decode_corpus(predictor, corpus, decoders, share=(team.rank, team.size))
    decoded = replace(decoded, targets=team.added(torch.from_numpy(decoded.targets)).numpy())
    br_threshold, by_decoder = None, {}
    for decoder in decoders:
        sets = team.added(decoded.outputs[decoder])
        if searches[decoder].log_odds is not None:
            fixed = predictor.trained.config.decoding.br_threshold if decoder == "br" else None
            threshold = fixed if fixed is not None else best_threshold(probabilities(sets), decoded.targets)[0]
            br_threshold = threshold if decoder == "br" else br_threshold
            sets = sets_at(sets, threshold, predictor.limits)
        by_decoder[decoder] = decoded.scores(sets)
    return Validation(by_decoder, br_threshold)
