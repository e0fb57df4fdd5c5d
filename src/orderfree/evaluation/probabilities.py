"""How honest probabilities are: of labels and of whole sets, and the repairs that validation chooses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..checkpoint import TrainedModel
from ..data.corpus import Corpus
from ..decoding.sets import membership
from ..inference import Predictor
from ..metrics.calibration import brier_score, calibration_by_group, expected_calibration_error, reliability
from ..metrics.counts import Matrix
from ..metrics.recalibration import find_repair

LIKELY = 0.01  # cells below this probability are no test of calibration, and there are very many


def judged_cells(probs: np.ndarray, truth: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and truth (C,) of all examples and labels (N, L) but those that are not known."""
    judged = ~np.isnan(probs)
    return probs[judged], _dense(truth)[judged]


def _dense(truth: Matrix) -> np.ndarray:
    """(N, L) bool. A sparse matrix that is asked for no cells at all answers with what is no array."""
    return (truth if isinstance(truth, np.ndarray) else truth.toarray()).astype(bool)


def label_calibration(predictor: Predictor, probs: np.ndarray, truth: Matrix) -> dict[str, Any]:
    """How honest label probabilities are by the frequency of labels in training (group: its digits), and what the
    repair that validation chose makes of them."""
    rows, columns = np.nonzero(probs >= LIKELY)  # what is not known is NaN, and not among them
    cells, true = probs[rows, columns].astype(float), _dense(truth)[rows, columns]
    digits = np.array([len(str(count)) for count in predictor.labels.counts])[columns]
    repair = predictor.trained.decisions.label_repair
    return {
        "from": LIKELY,
        "by_digits_of_frequency": calibration_by_group(cells, true, digits),
        "repair": None if repair is None else repair.kind,
        "repaired_calibration_error": None if repair is None else expected_calibration_error(repair(cells), true),
        "repaired_brier_score": None if repair is None else brier_score(repair(cells), true),
    }


def set_calibration(sure: np.ndarray, right: np.ndarray, sizes: np.ndarray) -> dict[str, Any]:
    """How honest the probabilities of whole sets are (N,), all together and by the size of the predicted set."""
    return {
        "expected_calibration_error": expected_calibration_error(sure, right),
        "brier_score": brier_score(sure, right),
        "reliability": reliability(sure, right),
        "by_size": calibration_by_group(sure, right, sizes),
    }


def repair_probabilities(trained: TrainedModel, corpus: Corpus) -> dict[str, Any]:
    """Chooses repairs of label probabilities, and of the probabilities of the default decoder's sets, on a validation
    corpus, and stores them in the decisions; what they change there."""
    predictor = Predictor(trained)
    decoder = predictor.default_decoder
    cells: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    sets: list[tuple[float, bool]] = []
    for batch in corpus.batches(predictor.trained.config.decoding.batch_size):
        decode_input = predictor.start(batch.inputs)
        truth = batch.targets.numpy()
        unknown = batch.unknown is not None and bool(batch.unknown.any())  # it is not known which sets are right
        if unknown or decode_input.labels is not None:  # nor are shortlists repaired
            continue
        if decode_input.br_logits is not None:
            probs = decode_input.br_logits.sigmoid().cpu().numpy()
            rows, columns = np.nonzero(probs >= LIKELY)
            cells.append((probs[rows, columns], truth[rows, columns], batch.rows.numpy()[rows]))
        hypotheses = predictor.search(decode_input, decoder)
        predicted = membership(hypotheses.sequences[:, 0], decode_input.num_labels).cpu().numpy()  # (B, L)
        right = (predicted == truth).all(axis=1)
        label_sets = predictor.label_sets(hypotheses)
        sets += [(min(math.exp(one.log_prob), 1.0), bool(same)) for one, same in zip(label_sets, right, strict=True)]
    probs, true, example = (np.concatenate(part) for part in zip(*cells, strict=True)) if cells else (np.zeros(0),) * 3
    of_labels, label_scores = find_repair(probs, true.astype(bool), example.astype(int))
    sure, correct = np.array(sets, dtype=float).reshape(-1, 2).T
    of_sets, set_scores = find_repair(sure, correct.astype(bool))
    trained.decisions = replace(trained.decisions, label_repair=of_labels, set_repairs={decoder: of_sets})
    return {"labels": label_scores, "sets": {"decoder": decoder, **set_scores}}
