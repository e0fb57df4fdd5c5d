"""How a prediction came about: the steps of the label decoder, what it looked at, and what it might have said instead.

trace(predictor, Example("1", text="wheat exports rose")).steps[0].taken
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..build import check_decoder
from ..data.featurizers import encode_all
from ..decoding.search import searches
from ..decoding.sets import label_shares, plain_sets, set_log_prob_br
from ..inference import Predictor
from ..nn.graphs import GraphModel
from ..types import DecodeInput, EncoderInput, Example, HybridInput, Hypotheses, LabelSet

PLAIN = "beam"  # what the label decoder says alone; told where the chosen decoder has no order or no other sets
Span = tuple[int, int]  # first character of the text, and the one behind the last


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the label decoder: softmax(o_t + M_t) (Eq. 4), before min_labels and max_labels forbid anything."""

    probs: np.ndarray  # (L + 1,) of every label, and of stopping behind them
    taken: str | None  # None: it stopped
    prob: float  # of what was taken
    may_stop: bool  # False: there are fewer than min_labels
    must_stop: bool  # True: there are max_labels
    attention: np.ndarray | None  # (T,) over `Trace.spans`; None: this decoder has none over words


@dataclass(frozen=True, slots=True)
class WordWeights:
    """What the words of a text add to the linear score of one label."""

    label: str
    words: tuple[tuple[str, float], ...]  # the heaviest first, for or against


@dataclass(frozen=True, slots=True)
class PossibleSet:
    labels: tuple[str, ...]
    log_prob: float  # of the label decoder; the permutations found are added up
    br_log_prob: float | None  # of binary relevance (Eq. 13)


@dataclass(frozen=True, slots=True)
class Trace:
    """Parts that the model cannot tell are empty or None."""

    chosen: LabelSet
    told_by: str | None  # the decoder whose path `steps` are
    steps: tuple[Step, ...]
    sets_of: str | None  # the decoder whose beam `sets` are
    sets: tuple[PossibleSet, ...]
    br_probs: np.ndarray | None  # (L,)
    br_thresholds: np.ndarray | None  # (L,)
    sequence_probs: np.ndarray | None  # (L,) share of the plain sets (`decoding/sets.py`) that hold the label
    spans: tuple[Span | None, ...] | None  # where the states the attention reads stand in the text; None: nowhere
    word_weights: tuple[WordWeights, ...] | None  # of the labels chosen, where the encoder is linear in the words
    truncated: bool


@torch.inference_mode()
def trace(predictor: Predictor, example: Example, decoder: str | None = None, words: int = 12) -> Trace:
    """One example, decoded and explained; `words`: how many of the heaviest to name for each label."""
    decoder = decoder or predictor.default_decoder
    name = predictor.decision(decoder).search
    check_decoder(predictor.decoders, name)
    encoded = encode_all(predictor.trained.featurizer, [example])[0]
    inputs = predictor.trained.featurizer.collate([encoded.arrays])
    given = predictor.start(inputs)
    found = predictor.search(given, decoder)
    plain = predictor.search(given, PLAIN) if PLAIN in predictor.decoders else None
    path, told_by = (found, name) if searches[name].has_order else (plain, PLAIN)
    beam, sets_of = (found, name) if found.scores.shape[1] > 1 else (plain, PLAIN)
    spans = _spans(predictor, example, inputs)
    chosen = predictor.label_sets(found, given.labels)[0]
    return Trace(
        chosen,
        told_by if path is not None else None,
        tuple(_steps(predictor, given, path.sequences[0, 0].tolist(), spans)) if path is not None else (),
        sets_of if beam is not None else None,
        tuple(_possible_sets(predictor, given, beam)) if beam is not None else (),
        predictor.of_all_labels(given.br_logits.sigmoid(), given)[0] if given.br_logits is not None else None,
        _br_thresholds(predictor, decoder) if given.br_logits is not None else None,
        _shares(predictor, given) if plain is not None else None,
        spans,
        _word_weights(predictor, inputs, chosen.labels, words),
        encoded.truncated,
    )


def likeliest(predictor: Predictor, step: Step, most: int) -> list[int]:
    """Numbers of the labels (of stopping: L) that were likeliest at a step, and of what was taken."""
    taken = len(predictor.labels) if step.taken is None else predictor.labels.ids[step.taken]
    shown = [place for place in np.argsort(-step.probs, kind="stable")[:most].tolist() if step.probs[place] > 0]
    return shown if taken in shown else [*shown[: most - 1], taken]


def _steps(
    predictor: Predictor, given: DecodeInput, sequence: list[int], spans: tuple[Span | None, ...] | None
) -> Iterator[Step]:
    """Every step of a sequence that is known: all of them in one call of the decoder."""
    label_decoder = predictor.network.label_decoder
    assert label_decoder is not None, "a path was found by a label decoder"
    assert given.state is not None, "a label decoder starts from a state"
    eos, limits = given.num_labels, predictor.limits
    labels = [label for label in sequence if label != eos]
    read: list[Tensor] = []
    attention = getattr(label_decoder, "attention", None)  # a chain of classifiers has none
    hook = attention.register_forward_hook(lambda _, __, out: read.append(out[1])) if attention is not None else None
    try:
        logits, _ = label_decoder.unroll(torch.tensor([[eos, *labels]], device=predictor.device), given.state)
    finally:
        if hook is not None:
            hook.remove()
    weights = torch.cat(read, dim=1)[0] if read and spans is not None else None  # (K, T)
    for t, taken in enumerate([*labels, eos]):
        mask = torch.zeros(eos + 1, dtype=torch.bool, device=predictor.device)
        mask[labels[:t]] = True
        scores = logits[0, t].float()  # (L + 1,)
        scores = scores.masked_fill(mask, float("-inf")) if limits.renormalise else scores
        probs = scores.softmax(dim=-1).masked_fill(mask, 0.0)  # (L + 1,)
        most = min(limits.max_labels, eos)
        name = taken if given.labels is None or taken == eos else int(given.labels[0, taken])
        yield Step(
            np.append(predictor.of_all_labels(probs[None, :eos], given)[0], float(probs[eos])),
            predictor.labels.names[name] if taken != eos else None,
            float(probs[taken]),
            t >= min(limits.min_labels, most),
            t == most,
            weights[t, : len(spans)].numpy(force=True) if weights is not None and spans is not None else None,
        )


def _possible_sets(predictor: Predictor, given: DecodeInput, found: Hypotheses) -> Iterator[PossibleSet]:
    """The sets a beam holds, in its order."""
    best = predictor.label_sets(found, given.labels)[0]
    for labels, log_prob in ((best.labels, best.log_prob), *best.alternatives):
        br_log_prob = None
        if given.br_logits is not None:
            ids = [np.array(predictor.labels.known(labels), dtype=np.int64)]
            members = torch.from_numpy(predictor.labels.one_hot(ids)).to(predictor.device)  # (1, L)
            members = members if given.labels is None else members.gather(1, given.labels)  # (1, C)
            br_log_prob = float(set_log_prob_br(given.br_logits, members))
        yield PossibleSet(labels, log_prob, br_log_prob)


def _br_thresholds(predictor: Predictor, decoder: str) -> np.ndarray:
    """(L,) those the prediction was made with, where it was made with `br`; else those `br` has by itself."""
    found = predictor.thresholds(decoder if predictor.decision(decoder).search == "br" else "br")
    return np.full(len(predictor.labels), 0.5) if found is None else found.numpy(force=True)


def _shares(predictor: Predictor, given: DecodeInput) -> np.ndarray:
    return predictor.of_all_labels(label_shares(*plain_sets(given, predictor.limits)), given)[0]  # (L,)


def _parts(predictor: Predictor, inputs: EncoderInput) -> Iterator[tuple[Any, Any, Any]]:
    """Encoder, featurizer and input; of every part, where there are several side by side. A graph tells no parts."""
    if isinstance(predictor.network, GraphModel):
        return
    encoder: Any = predictor.network.encoder
    featurizer: Any = predictor.trained.featurizer
    if not isinstance(inputs, HybridInput):
        yield encoder, featurizer, inputs
        return
    for name, part in inputs.parts.items():
        yield encoder.parts[name], featurizer.parts[name], part


def _spans(predictor: Predictor, example: Example, inputs: EncoderInput) -> tuple[Span | None, ...] | None:
    """Where the encoder's states stand in the text; those that stand for all of it nowhere. None: all do."""
    spans: list[Span | None] = []
    for encoder, featurizer, part in _parts(predictor, inputs):
        if hasattr(featurizer, "spans"):
            spans += featurizer.spans(example.text)
        else:
            spans += [None] * encoder(part).states.shape[1]
    return tuple(spans) if any(spans) else None


def _word_weights(
    predictor: Predictor, inputs: EncoderInput, labels: tuple[str, ...], words: int
) -> tuple[WordWeights, ...] | None:
    """Exact for an encoder whose scores are sums over words; no other is guessed at."""
    for encoder, featurizer, part in _parts(predictor, inputs):
        if getattr(featurizer, "scorer", None) is not None and featurizer.term_names is not None:
            return tuple(_heaviest_of_scorer(predictor, part, featurizer, labels, words))
        if hasattr(encoder, "contributions") and featurizer.term_names is not None:
            return tuple(_heaviest(predictor, encoder.contributions(part), part, featurizer, labels, words))
    return None


def _heaviest(
    predictor: Predictor, added: Tensor, bag: Any, featurizer: Any, labels: tuple[str, ...], words: int
) -> Iterator[WordWeights]:
    """added (N, L): what each term adds."""
    for label in labels:
        yield _summed(label, bag, added[:, predictor.labels.ids[label]].tolist(), featurizer.term_names, words)


def _heaviest_of_scorer(
    predictor: Predictor, bag: Any, featurizer: Any, labels: tuple[str, ...], words: int
) -> Iterator[WordWeights]:
    """The same where a shortlist's classifiers score labels."""
    terms, weights = bag.indices.numpy(force=True), bag.weights.numpy(force=True)
    for label in labels:
        added = featurizer.scorer.contributions(terms, weights, predictor.labels.ids[label])  # (N,)
        yield _summed(label, bag, added.tolist(), featurizer.term_names, words)


def _summed(label: str, bag: Any, added: list[float], names: list[str], words: int) -> WordWeights:
    """added (N,): what each term adds. A word that stands for several terms counts with their sum."""
    total: dict[str, float] = {}
    for term, weight in zip(bag.indices.tolist(), added, strict=True):
        name = names[term] if term < len(names) else "(meaning of the whole text)"  # the sentence embedding
        total[name] = total.get(name, 0.0) + weight
    heaviest = sorted(total.items(), key=lambda pair: -abs(pair[1]))[:words]
    return WordWeights(label, tuple(heaviest))
