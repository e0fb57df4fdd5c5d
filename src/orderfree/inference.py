"""Predictor: the single road from examples to label sets, used by the command line and everything above it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import overload

import numpy as np
import torch
from torch import Tensor

from .build import check_decoder, decoders_of, is_shortlisted, search_limits
from .checkpoint import TrainedModel, load_model
from .data.featurizers import Encoded, encode_all
from .data.inputs import Input, as_examples
from .decisions.promised import CandidateList, candidate_lists, make_promise, promised_settings
from .decisions.records import Decision, default_decoder
from .decoding.beam import Limits
from .decoding.search import searches
from .decoding.sets import merged_sets, set_log_prob, step_marginals
from .errors import OrderfreeError, nearest
from .promises.promise import Promise
from .system.plugins import load_plugins
from .types import DecodeInput, EncoderInput, Example, Hypotheses, LabelSet, on_device

CHUNK = 16  # batches read ahead, so that texts of similar length are decoded together
CHUNK_CHARACTERS = 1 << 24  # no more once their texts are as long as this: memory stays flat, however long a text is


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model predicts for one example. `labels`, `probability` and `alternatives` are those of the first decoder
    that was asked for."""

    example: Example
    label_sets: dict[str, LabelSet]  # by decoder
    probs: np.ndarray | None  # (L,) binary-relevance probabilities; None where the model has no such decoder
    truncated: bool
    marginals: np.ndarray | None = None  # (L,) step marginals of the label decoder, where they were asked for
    candidates: CandidateList | None = None  # where they were asked for
    nearest: float | None = None  # cosine of the most similar training example, where the model remembers some

    @property
    def labels(self) -> tuple[str, ...]:
        """In the order they were generated, or by falling probability where the decoder has no order."""
        return self._chosen.labels

    @property
    def probability(self) -> float:
        """Of the whole set, under the decoder; for `expected_f1`, its expected F1."""
        return min(math.exp(self._chosen.log_prob), 1.0)

    @property
    def alternatives(self) -> tuple[tuple[tuple[str, ...], float], ...]:
        """Other sets the search held, best first, each with its probability; none where a threshold decides."""
        return tuple((labels, min(math.exp(log_prob), 1.0)) for labels, log_prob in self._chosen.alternatives)

    @property
    def _chosen(self) -> LabelSet:
        return next(iter(self.label_sets.values()))


class Predictor:
    """A trained model ready to decode. `limits` can be replaced to change width and set sizes."""

    def __init__(self, trained: TrainedModel) -> None:
        self.trained = trained
        self.network = trained.network.eval()
        # an exported network keeps its weights to itself, and runs on the CPU
        self.device = next((weights.device for weights in trained.network.parameters()), torch.device("cpu"))
        self.labels = trained.labels
        self.limits: Limits = search_limits(trained.config, trained.labels)
        self.own_thresholds: float | Mapping[str, float] | None = None  # before those tuned on validation
        self.own_min_labels: int | None = None  # asked for by the caller, before that of named thresholds
        self.decoders = decoders_of(trained.config, is_shortlisted(trained.network))
        self.default_decoder = default_decoder(trained.config, trained.decisions)

    @classmethod
    def load(cls, directory: Path | str, plugins: Iterable[str] = ()) -> Predictor:
        """The model in a directory that `train` has written. `plugins`: modules to import first, which register parts
        that the model needs."""
        load_plugins(plugins)
        return cls(load_model(directory))

    def adjusted(
        self,
        thresholds: float | Mapping[str, float] | None = None,
        min_labels: int | None = None,
        max_labels: int | None = None,
    ) -> Predictor:
        """The same model decoded otherwise; nothing of it is copied. `thresholds`: of all labels, or by name."""
        if min_labels is not None and max_labels is not None and min_labels > max_labels:
            raise OrderfreeError(f"min_labels is {min_labels}, more than max_labels, which is {max_labels}; lower it.")
        if isinstance(thresholds, Mapping):
            self._refuse_unknown(thresholds)
        fewest = self.limits.min_labels if min_labels is None else min(min_labels, len(self.labels))
        most = self.limits.max_labels if max_labels is None else min(max_labels, len(self.labels))
        if max_labels is None:
            most = max(most, fewest)
        other = copy(self)
        other.own_thresholds = thresholds
        other.own_min_labels = self.own_min_labels if min_labels is None else min_labels
        other.limits = replace(self.limits, min_labels=min(fewest, most), max_labels=most)
        return other

    @torch.inference_mode()
    def start(self, inputs: EncoderInput) -> DecodeInput:
        """Everything the searches need of one batch; the encoder runs once for all of them."""
        encoded = self.network.encoder(on_device(inputs, self.device))
        label_decoder, br_decoder = self.network.label_decoder, self.network.br_decoder
        br_logits = br_decoder(encoded) if br_decoder is not None else None  # (B, L)
        _refuse_nan(br_logits, encoded.scores)
        return DecodeInput(
            len(self.labels) if encoded.labels is None else encoded.labels.shape[1],
            label_decoder.step if label_decoder is not None else None,
            label_decoder.start(encoded) if label_decoder is not None else None,
            br_logits,
            scores=encoded.scores,
            labels=encoded.labels,
            sets=encoded.sets,
            set_log_probs=encoded.set_log_probs,
        )

    @torch.inference_mode()
    def search(self, decode_input: DecodeInput, decoder: str) -> Hypotheses:
        """`decoder` names a search or a stored decision, as `decisions/records.py` says. Labels are numbered as in
        `decode_input`: by their position among the candidates, where it has some."""
        decision, thresholds = self.decision(decoder), self.thresholds(decoder)
        if thresholds is not None and decode_input.labels is not None:
            thresholds = thresholds[decode_input.labels]  # (B, C)
        decode_input = replace(decode_input, thresholds=thresholds)
        hypotheses = searches[decision.search](decode_input, self.limits_of(decision))
        _refuse_nan(hypotheses.log_probs)
        return hypotheses

    def decision(self, decoder: str) -> Decision:
        """What a decoder stands for; an error where it stands for a promise that does not hold as this is set."""
        decision = self.trained.decisions.look_up(decoder)
        if decision.promise is not None:
            if self.own_thresholds is not None:
                raise OrderfreeError(f"{decoder} are thresholds that keep a promise; leave out the other thresholds.")
            decision.promise.refuse_other(promised_settings(self.limits_of(decision), decision.search))
        return decision

    def limits_of(self, decision: Decision) -> Limits:
        limits = decision.limits(self.limits)
        if self.own_min_labels is not None:  # what the caller asks for precedes what is stored
            limits = replace(limits, min_labels=self.limits.min_labels)
        return limits

    def candidate_promise(self, level: float) -> Promise:
        """What lists of candidate sets promise at this level; an error where that does not hold as this is set."""
        promise = self.trained.decisions.candidate_promise(level)
        promise.refuse_other(promised_settings(self.limits, None))
        return promise

    @property
    def surest_candidates(self) -> Promise | None:
        """The promise of lists of candidate sets with the highest level that holds as this is set; None: there is
        none."""
        settings = promised_settings(self.limits, None)
        holding = [promise for promise in self.trained.decisions.candidates.values() if promise.holds_with(settings)]
        return max(holding, key=lambda promise: promise.level, default=None)

    def thresholds(self, decoder: str) -> Tensor | None:
        """(L,) the probabilities at which this decoder says yes; None: it has none, or one half for all labels."""
        decision, changed = self.decision(decoder), self.own_thresholds
        value = changed if changed is not None and not isinstance(changed, Mapping) else decision.thresholds
        if searches[decision.search].log_odds is None or (value is None and changed is None):
            return None
        each = torch.as_tensor(0.5 if value is None else value, dtype=torch.float32, device=self.device)
        each = each.expand(len(self.labels)).clone()  # (L,)
        for label, threshold in changed.items() if isinstance(changed, Mapping) else ():
            each[self.labels.ids[label]] = threshold
        return each

    @overload
    def predict(  # type: ignore[overload-overlap]  # what has a length becomes a list
        self,
        inputs: Collection[Input],
        decoders: Sequence[str] | None = None,
        marginals: bool = False,
        candidates: float | None = None,
    ) -> list[Prediction]: ...

    @overload
    def predict(
        self,
        inputs: Iterable[Input],
        decoders: Sequence[str] | None = None,
        marginals: bool = False,
        candidates: float | None = None,
    ) -> Iterator[Prediction]: ...

    def predict(
        self,
        inputs: Iterable[Input],
        decoders: Sequence[str] | None = None,
        marginals: bool = False,
        candidates: float | None = None,
    ) -> list[Prediction] | Iterator[Prediction]:
        """Predictions for texts, dicts or examples, in their order: a list for a list or column, and for an iterator an
        iterator, whose memory does not grow.

        `decoders`: searches or decisions (`decisions/records.py`), by default the model's own. `marginals`: also the
        step marginals (`decoding/sets.py`) of every label, if the model has a label decoder.
        `candidates`: also a list of label sets that keeps the promise of this level."""
        decoders = decoders or [self.default_decoder]
        limit = None if candidates is None else self.candidate_promise(candidates).limit
        for decoder in decoders:
            check_decoder(self.decoders, self.decision(decoder).search)
        predictions = self._predictions(as_examples(inputs, self.trained.config.data), decoders, marginals, limit)
        return list(predictions) if isinstance(inputs, Sized) else predictions

    def _predictions(
        self, examples: Iterable[Example], decoders: Sequence[str], marginals: bool, limit: float | None
    ) -> Iterator[Prediction]:
        size = self.trained.config.decoding.batch_size
        for chunk in read_ahead(examples, CHUNK * size):
            encoded = encode_all(self.trained.featurizer, chunk)
            order = sorted(range(len(chunk)), key=lambda index: encoded[index].length)
            predictions: dict[int, Prediction] = {}
            for start in range(0, len(order), size):
                places = order[start : start + size]
                batch_predictions = self._predict_batch(
                    [chunk[p] for p in places], [encoded[p] for p in places], decoders, marginals, limit
                )
                predictions.update(zip(places, batch_predictions, strict=True))
            yield from (predictions[index] for index in range(len(chunk)))

    def set_prob(self, decoder: str, label_set: LabelSet) -> float:
        """The probability that a set this decoder has predicted is right, repaired where validation chose a repair."""
        prob = min(math.exp(label_set.log_prob), 1.0)
        repair = self.trained.decisions.set_repairs.get(decoder)
        return prob if repair is None else float(repair(np.array(prob)))

    def predict_proba(self, inputs: Iterable[Input], decoder: str | None = None, repaired: bool = False) -> np.ndarray:
        """(N, L) the probability of every label: `br`, or `marginal`, its share of the weighted sets
        (`decoding/sets.py`).

        `repaired`: those of `br` as validation chose to repair them. Thresholds are those of the others."""
        probable = [name for name in self.decoders if searches[name].log_odds is not None]
        name = decoder or probable[0]
        log_odds = searches[name].log_odds if name in probable else None
        if log_odds is None:
            raise OrderfreeError(f"{name!r} gives no probabilities of labels; those that do: {', '.join(probable)}.")
        rows = [
            self.of_all_labels(log_odds(decode_input, self.limits).sigmoid(), decode_input)
            for _, decode_input in self.batches(inputs)
        ]
        probs = np.concatenate([np.zeros((0, len(self.labels)), dtype=np.float32), *rows])
        repair = self.trained.decisions.label_repair if repaired and name == "br" else None
        return probs if repair is None else repair(probs)

    def set_log_prob(self, inputs: Iterable[Input], sets: Iterable[Collection[str]]) -> np.ndarray:
        """(N,) log P(set | x) of the label decoder, whatever the order: one set of label names for each example."""
        if "beam" not in self.decoders:
            raise OrderfreeError("this model has no label decoder, so it cannot give the probability of a whole set.")
        wanted = iter(sets)
        rows = [np.zeros(0, dtype=np.float32)]
        for chunk, decode_input in self.batches(inputs):
            names = [tuple(row) for row in islice(wanted, len(chunk))]
            if len(names) < len(chunk):
                raise OrderfreeError("there are fewer sets than examples; give one for each.")
            self._refuse_unknown(name for row in names for name in row)
            ids = [np.array(self.labels.known(row), dtype=np.int64) for row in names]
            chosen = torch.from_numpy(self.labels.one_hot(ids)).to(self.device)  # (B, L)
            sizes = chosen.sum(dim=1)  # (B,)
            chosen = chosen if decode_input.labels is None else chosen.gather(1, decode_input.labels)  # (B, C)
            log_probs = set_log_prob(decode_input, chosen, self.limits)  # (B,)
            # a label outside the shortlist is never generated
            rows.append(log_probs.masked_fill(chosen.sum(dim=1) < sizes, float("-inf")).cpu().numpy())
        return np.concatenate(rows)

    def promise(
        self, inputs: Iterable[Input], goal: str, confidence: float | None = None, decoder: str = "br"
    ) -> Promise:
        """Makes a promise on labelled inputs, which the model must not have seen, and keeps it in the model:
        `recall=0.9` and `precision=0.95` as thresholds of a decoder, for `predict(…, ["thresholds:recall=0.9"])`;
        `candidates=0.9` for `predict(…, candidates=0.9)`. `confidence` None: on average over calibration data."""
        examples = as_examples(inputs, self.trained.config.data)
        promise, self.trained.decisions = make_promise(self, examples, goal, confidence, decoder)
        return promise

    def _refuse_unknown(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.labels.ids:
                raise OrderfreeError(f"{name!r} is no label of this model.{nearest(name, list(self.labels.names))}")

    def batches(self, inputs: Iterable[Input]) -> Iterator[tuple[list[Example], DecodeInput]]:
        """In the order of the inputs."""
        remaining = as_examples(inputs, self.trained.config.data)
        with torch.inference_mode():
            while chunk := list(islice(remaining, self.trained.config.decoding.batch_size)):
                rows = encode_all(self.trained.featurizer, chunk)
                yield chunk, self.start(self.trained.featurizer.collate([row.arrays for row in rows]))

    def _predict_batch(
        self,
        examples: list[Example],
        encoded: list[Encoded],
        decoders: Sequence[str],
        marginals: bool,
        limit: float | None = None,
    ) -> list[Prediction]:
        decode_input = self.start(self.trained.featurizer.collate([row.arrays for row in encoded]))
        sets = {
            decoder: self.label_sets(self.search(decode_input, decoder), decode_input.labels) for decoder in decoders
        }
        probs = (
            None
            if decode_input.br_logits is None
            else self.of_all_labels(decode_input.br_logits.sigmoid(), decode_input)
        )  # (B, L)
        wanted = marginals and decode_input.step is not None
        with torch.inference_mode():
            stepped = step_marginals(decode_input, self.limits) if wanted else None  # (B, L)
        _refuse_nan(stepped)
        shares = None if stepped is None else self.of_all_labels(stepped, decode_input)
        lists = None if limit is None else candidate_lists(self, decode_input, limit)
        return [
            Prediction(
                example,
                {decoder: sets[decoder][b] for decoder in decoders},
                probs[b] if probs is not None else None,
                encoded[b].truncated,
                shares[b] if shares is not None else None,
                lists[b] if lists is not None else None,
                float(encoded[b].arrays["nearest"]) if "nearest" in encoded[b].arrays else None,
            )
            for b, example in enumerate(examples)
        ]

    def of_all_labels(self, values: Tensor, decode_input: DecodeInput) -> np.ndarray:
        """(B, L) from what a search says of its candidates (B, C); 0 for labels outside a shortlist."""
        if decode_input.labels is not None:
            everything = values.new_zeros(len(values), len(self.labels))
            values = everything.scatter(1, decode_input.labels, values)
        array: np.ndarray = values.cpu().numpy()
        return array

    def label_sets(self, hypotheses: Hypotheses, candidates: Tensor | None = None) -> list[LabelSet]:
        """The best sequence of every input as a set. Hypotheses that hold the same set are permutations of it, so the
        probability of the set is at least their sum. candidates (B, C): the labels that sequences are numbered by."""
        sequences = hypotheses.sequences
        if candidates is not None:
            ids = torch.nn.functional.pad(candidates, (0, 1), value=len(self.labels))  # (B, C + 1)
            sequences = ids.gather(1, sequences.flatten(1)).view_as(sequences)  # (B, W, K)
        return [
            self._label_set(row, log_probs)
            for row, log_probs in zip(sequences.tolist(), hypotheses.log_probs.tolist(), strict=True)
        ]

    def _label_set(self, sequences: list[list[int]], log_probs: list[float]) -> LabelSet:
        merged = merged_sets(sequences, log_probs, len(self.labels))
        named = [(tuple(self.labels.names[i] for i in ids), log_prob) for ids, log_prob in merged]
        (labels, log_prob), *others = named
        return LabelSet(labels, log_prob, tuple(others))


def load(directory: Path | str, plugins: Iterable[str] = ()) -> Predictor:
    """A trained model ready to predict: `orderfree.load("runs/news").predict(["wheat exports rose"])`."""
    return Predictor.load(directory, plugins)


def _refuse_nan(*computed: Tensor | None) -> None:
    """Numbers that are none would be sorted as if they were large: labels would be said that nothing speaks for."""
    if any(values is not None and values.isnan().any() for values in computed):
        raise OrderfreeError(
            "the model computes scores that are not numbers: its weights or the features are far too large; check the "
            "features, or train the model again with a lower training.learning_rate."
        )


def read_ahead(examples: Iterable[Example], most: int) -> Iterator[list[Example]]:
    """Examples in lists of `most`, or of fewer where their texts are long."""
    chunk: list[Example] = []
    characters = 0
    for example in examples:
        chunk.append(example)
        characters += len(example.text or "") + getattr(example.features, "size", 0)
        if len(chunk) == most or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
