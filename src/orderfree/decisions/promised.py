"""Promises of a model: made on calibration examples, and the lists of candidate sets that keep them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch

from ..data.labels import LabelVocabulary
from ..data.seen import SeenTexts
from ..decoding.beam import Limits
from ..decoding.search import searches
from ..decoding.sets import membership
from ..errors import DataError, OrderfreeError
from ..promises.promise import CANDIDATES, Promise, check_confidence, parse_goal, set_promise
from ..promises.sets import list_lengths, true_scores
from ..types import DecodeInput, Example
from .goals import promised_thresholds
from .records import Decisions

LIST_WIDTH = 50  # sets that the search keeps of an example for a list of candidates
SEEN_ALLOWED = 0.1  # share of calibration texts that may be repetitions of training texts


class Trained(Protocol):
    """What a promise needs of a TrainedModel."""

    provenance: dict[str, Any]
    decisions: Decisions


class Calibrated(Protocol):
    """What a promise needs of a Predictor."""

    @property
    def trained(self) -> Trained: ...

    labels: LabelVocabulary
    limits: Limits

    def predict_proba(self, inputs: Iterable[Any], decoder: str | None = None) -> np.ndarray: ...

    def batches(self, inputs: Iterable[Any]) -> Iterator[tuple[list[Example], DecodeInput]]: ...


@dataclass(frozen=True, slots=True)
class CandidateList:
    """Label sets of which one is the true one, as promised, the most probable first."""

    sets: tuple[tuple[tuple[str, ...], float], ...]  # labels and probability of each set
    outside: bool  # whether "none of these" is an answer too: what the search found is not probable enough
    outside_prob: float  # of all sets that the search did not find

    @property
    def doubtful(self) -> bool:
        """Whether there is more than one answer: a person should look."""
        return len(self.sets) + self.outside != 1


def promised_settings(limits: Limits, search: str | None) -> dict[str, Any]:
    """The settings of decoding that a promise rests on; search None: of lists of candidate sets."""
    settings: dict[str, Any] = {"min_labels": limits.min_labels, "max_labels": limits.max_labels}
    if search is None or searches[search].over_sets:
        settings["renormalise"] = limits.renormalise
    if search is not None and searches[search].over_sets:
        settings |= {"beam_width": limits.width, "br_power": limits.br_power}
    return settings


def make_promise(
    predictor: Calibrated, examples: Iterable[Example], goal: str, confidence: float | None, decoder: str
) -> tuple[Promise, Decisions]:
    """A promise on calibration examples, and the decisions of the model with it."""
    wanted = parse_goal(goal)
    if wanted is None:
        raise OrderfreeError(f"{goal!r} is no promise; expected recall=0.9, precision=0.95 or candidates=0.9.")
    check_confidence(confidence)
    known = _calibration_examples(predictor, examples)
    ids, decisions = predictor.labels.ids, predictor.trained.decisions
    missed = np.array([sum(name not in ids for name in set(e.labels or ())) for e in known])  # (N,)
    if wanted[0] == CANDIDATES:
        whole = [example for example in known if not example.unknown]
        scores, probs = _set_scores(predictor, whole)
        promise = set_promise(scores, probs, wanted[1], confidence, int(missed.sum()))
        promise = replace(promise, settings=promised_settings(predictor.limits, None))
        return promise, replace(decisions, candidates={**decisions.candidates, f"{wanted[1]:g}": promise})
    probs, targets = predictor.predict_proba(known, decoder), _targets(predictor, known)  # (N, L)
    hidden = _hidden(predictor, known)
    named = promised_thresholds(probs, targets, missed, goal, decoder, predictor.limits, confidence, hidden)
    assert named.promise is not None, "the thresholds of a promise"
    settings = promised_settings(replace(predictor.limits, min_labels=named.min_labels), decoder)
    promise = replace(named.promise, settings=settings)
    return promise, replace(decisions, named={**decisions.named, goal: replace(named, promise=promise)})


def _calibration_examples(predictor: Calibrated, examples: Iterable[Example]) -> list[Example]:
    known = [example for example in examples if example.unknown is not None]
    for key in ("texts", "valid_texts"):
        seen = SeenTexts(predictor.trained.provenance, key)
        for example in known:
            seen.look(example)
        if seen.share > SEEN_ALLOWED:
            raise DataError(
                f"the model has learned from about {seen.share:.0%} of the calibration texts, and no promise about "
                "new data can rest on them; give labelled examples that the model has not seen."
            )
    if not any(name in predictor.labels.ids for example in known for name in example.labels or ()):
        raise DataError("no calibration example has a label that the model knows; check the labels of the file.")
    return known


def _targets(predictor: Calibrated, examples: Sequence[Example]) -> np.ndarray:
    """(N, L) bool"""
    ids = [np.array(predictor.labels.known(example.labels or ()), dtype=np.int64) for example in examples]
    return predictor.labels.one_hot(ids)


def _hidden(predictor: Calibrated, examples: Sequence[Example]) -> np.ndarray | None:
    """(N, L) bool: of which labels it is not known whether an example has them; None: of none."""
    if not any(example.unknown for example in examples):
        return None
    ids = [np.array(predictor.labels.known(example.unknown or ()), dtype=np.int64) for example in examples]
    return predictor.labels.one_hot(ids)


def _set_scores(predictor: Calibrated, examples: Sequence[Example]) -> tuple[np.ndarray, np.ndarray]:
    """(N,) the score of the true set of every example, as `promises/sets.py` says, and (N, W) the probabilities of the
    sets found."""
    rows, found, ids = [np.zeros(0)], [np.zeros((0, LIST_WIDTH))], predictor.labels.ids
    for chunk, decode_input in predictor.batches(examples):
        sets, probs = sets_found(predictor, decode_input)
        truth = _targets(predictor, chunk)  # (B, L)
        unknown = np.array([any(name not in ids for name in example.labels or ()) for example in chunk])  # (B,)
        same = (sets == truth[:, None]).all(axis=2) & (probs > 0) & ~unknown[:, None]  # (B, W)
        rows.append(true_scores(probs, np.where(same.any(axis=1), same.argmax(axis=1), -1)))
        found.append(np.pad(probs, ((0, 0), (0, LIST_WIDTH - probs.shape[1]))))
    return np.concatenate(rows), np.concatenate(found)


def sets_found(predictor: Calibrated, decode_input: DecodeInput) -> tuple[np.ndarray, np.ndarray]:
    """Sets (B, W, L) bool of the label decoder, their probabilities (B, W) merged over orders, largest first."""
    if decode_input.step is None:
        raise OrderfreeError("this model has no label decoder, and so no probability of a set as a whole.")
    limits = replace(predictor.limits, width=LIST_WIDTH, merge_sets=True)
    with torch.inference_mode():
        hypotheses = searches["beam"](decode_input, limits)
    sets = membership(hypotheses.sequences, decode_input.num_labels)  # (B, W, L), or (B, W, C) of a shortlist
    if decode_input.labels is not None:
        everything = sets.new_zeros(*sets.shape[:2], len(predictor.labels))  # (B, W, L)
        sets = everything.scatter(2, decode_input.labels[:, None].expand_as(sets), sets)
    return sets.cpu().numpy(), hypotheses.scores.double().exp().cpu().numpy()


def candidate_lists(predictor: Calibrated, decode_input: DecodeInput, limit: float) -> list[CandidateList]:
    """For each input the shortest list of label sets within the limit of a promise."""
    sets, probs = sets_found(predictor, decode_input)
    lengths, outside = list_lengths(probs, limit)
    names = predictor.labels.names
    return [
        CandidateList(
            tuple((tuple(names[i] for i in np.flatnonzero(sets[b, w])), float(probs[b, w])) for w in range(length)),
            bool(outside[b]),
            max(1 - float(probs[b].sum()), 0.0),
        )
        for b, length in enumerate(lengths)
    ]
