"""From requests to answers, through the Predictor. What is here runs in the thread that owns the model."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

import numpy as np

from .._version import __version__
from ..build import check_decoder
from ..decisions.promised import CandidateList, candidate_lists
from ..decisions.records import BEST
from ..decoding.search import searches
from ..errors import OrderfreeError
from ..inference import Prediction, Predictor
from ..report.trace import Step, Trace, likeliest, trace
from ..types import Example, LabelSet
from .familiar import caveat, typical_texts
from .problems import shortened
from .schema import (
    Alternatives,
    AlternativeSet,
    Candidate,
    CandidateSet,
    ComparedLabel,
    DecodeOptions,
    DecoderFacts,
    ExplainAnswer,
    Generation,
    LabelWords,
    LimitsAnswer,
    ModelAnswer,
    Outside,
    PossibleSets,
    PredictAnswer,
    PredictRequest,
    RankedSet,
    ServiceLimits,
    SetAnswer,
    StepAnswer,
    WeighedWord,
)

COMPARED = 12  # labels of the comparison, besides those chosen


def asked_for(predictor: Predictor, options: DecodeOptions) -> tuple[Predictor, str, str]:
    """The predictor with these options, the decoder to ask it for, and the decoder's plain name; wrong ones refused."""
    if options.decoder is not None and options.optimize_for is not None:
        raise OrderfreeError(
            "`decoder` names a decoder and `optimize_for` chooses one by validation; give only one of them."
        )
    chosen = predictor.default_decoder if options.optimize_for is None else BEST + options.optimize_for
    decoder = chosen if options.decoder is None else options.decoder
    if options.decoder is not None and options.decoder.startswith(BEST):
        raise OrderfreeError(f"`decoder` is {decoder!r}; give the metric as `optimize_for`.")
    name = predictor.decision(decoder).search
    check_decoder(predictor.decoders, name)
    if options.thresholds is not None and searches[name].log_odds is None:
        using = [known for known in predictor.decoders if searches[known].log_odds is not None]
        raise OrderfreeError(
            f"the decoder {name!r} has no thresholds; decoders with thresholds: {', '.join(using) or 'none'}."
        )
    if isinstance(options.thresholds, dict):
        # before `adjusted`, which looks for a similar name among all labels: there may be a hundred thousand
        for label in options.thresholds:
            if label not in predictor.labels.ids:
                raise OrderfreeError(f"thresholds: {shortened(label)!r} is no label of this model; see /v1/model.")
    adjusted = predictor.adjusted(options.thresholds, options.min_labels, options.max_labels)
    adjusted.decision(decoder)  # a promise may not hold with these options
    return adjusted, decoder, name


def predict_texts(predictor: Predictor, decoder: str, candidates: float | None, texts: list[str]) -> list[Prediction]:
    examples = [Example(str(place), text=text) for place, text in enumerate(texts)]
    return list(predictor.predict(examples, [decoder], candidates=candidates))


def predict_answer(
    predictor: Predictor, decoder: str, plain: str, asked: PredictRequest, found: list[Prediction]
) -> bytes:
    answers = []
    for one in found:
        chosen = one.label_sets[decoder]
        answer = set_answer(predictor, chosen, one.probs, one.truncated, asked.probs, asked.alternatives)
        if one.candidates is not None:
            answer.candidates, answer.outside = _listed(one.candidates)
        if asked.abstain_below is not None:
            answer.prob = predictor.set_prob(decoder, chosen)
            answer.abstained = answer.prob < asked.abstain_below
            answer.withheld = list(chosen.labels) if answer.abstained else []
            answer.labels = [] if answer.abstained else answer.labels
        answers.append(answer)
    return PredictAnswer(decoder=plain, predictions=answers).model_dump_json().encode()


def _listed(found: CandidateList) -> tuple[list[CandidateSet], Outside]:
    sets = [CandidateSet(labels=list(names), prob=prob) for names, prob in found.sets]
    return sets, Outside(possible=found.outside, prob=found.outside_prob)


def set_answer(
    predictor: Predictor,
    found: LabelSet,
    probs: np.ndarray | None,
    truncated: bool,
    which: str = "predicted",
    alternatives: int = 0,
) -> SetAnswer:
    shown = None
    if probs is not None and which != "none":
        ids = predictor.labels.ids
        names = predictor.labels.names if which == "all" else found.labels
        shown = {name: round(float(probs[ids[name]]), 6) for name in names}
    others = [
        AlternativeSet(labels=list(labels), log_prob=log_prob) for labels, log_prob in found.alternatives[:alternatives]
    ]
    return SetAnswer(
        labels=list(found.labels), log_prob=found.log_prob, probs=shown, alternatives=others, truncated=truncated
    )


def explain_texts(predictor: Predictor, decoder: str, candidates: int, texts: list[str]) -> list[ExplainAnswer]:
    return [_explain(predictor, decoder, candidates, text) for text in texts]


def _explain(predictor: Predictor, decoder: str, candidates: int, text: str) -> ExplainAnswer:
    told = trace(predictor, Example("0", text=text), decoder)
    generation = alternatives = None
    if told.told_by is not None:
        steps = [_step(predictor, told, step, candidates) for step in told.steps]
        generation = Generation(decoder=told.told_by, steps=steps)
    if told.sets_of is not None:
        alternatives = Alternatives(decoder=told.sets_of, sets=_sets(told))
    weights = None
    if told.word_weights is not None:
        weights = [
            LabelWords(label=one.label, words=[WeighedWord(word=word, weight=weight) for word, weight in one.words])
            for one in told.word_weights
        ]
    return ExplainAnswer(
        decoder=predictor.decision(decoder).search,
        prediction=set_answer(predictor, told.chosen, told.br_probs, told.truncated),
        generation=generation,
        spans=None if told.spans is None else [span for span in told.spans if span is not None],
        word_weights=weights,
        words_missing=_words_missing(predictor, told),
        caveat=caveat(predictor, text),
        alternatives=alternatives,
        possible=_possible(predictor, text),
        comparison=_comparison(predictor, told),
    )


def _possible(predictor: Predictor, text: str) -> PossibleSets | None:
    promise = predictor.surest_candidates
    if promise is None:
        return None
    ((_, given),) = predictor.batches([Example("0", text=text)])
    (found,) = candidate_lists(predictor, given, promise.limit)
    sets, outside = _listed(found)
    return PossibleSets(promise=promise.sentence, sets=sets, outside=outside, doubtful=found.doubtful)


def _step(predictor: Predictor, told: Trace, step: Step, candidates: int) -> StepAnswer:
    names = (*predictor.labels.names, None)
    br = told.br_probs
    attention = None
    if step.attention is not None and told.spans is not None:
        attention = [round(float(w), 5) for w, span in zip(step.attention, told.spans, strict=True) if span is not None]
    return StepAnswer(
        taken=step.taken,
        prob=step.prob,
        may_stop=step.may_stop,
        must_stop=step.must_stop,
        candidates=[
            Candidate(
                label=names[place],
                prob=float(step.probs[place]),
                br_prob=float(br[place]) if br is not None and names[place] is not None else None,
            )
            for place in likeliest(predictor, step, candidates)
        ],
        attention=attention,
    )


def _sets(told: Trace) -> list[RankedSet]:
    return [
        RankedSet(
            labels=list(one.labels),
            prob=min(exp(one.log_prob), 1.0),
            br_prob=None if one.br_log_prob is None else min(exp(one.br_log_prob), 1.0),
        )
        for one in told.sets
    ]


def _comparison(predictor: Predictor, told: Trace) -> list[ComparedLabel]:
    """Labels that were chosen, and those either decoder finds most probable, by falling probability."""
    size = len(predictor.labels)
    both = np.stack([probs if probs is not None else np.zeros(size) for probs in (told.br_probs, told.sequence_probs)])
    highest = both.max(axis=0)  # (L,)
    chosen = set(predictor.labels.known(told.chosen.labels))
    order = np.argsort(-highest, kind="stable").tolist()
    shown = chosen | set(order[:COMPARED])

    def at(probs: np.ndarray | None, place: int) -> float | None:
        return None if probs is None else float(probs[place])

    return [
        ComparedLabel(
            label=predictor.labels.names[place],
            chosen=place in chosen,
            br_prob=at(told.br_probs, place),
            br_threshold=at(told.br_thresholds, place),
            sequence_prob=at(told.sequence_probs, place),
        )
        for place in order
        if place in shown
    ]


def _words_missing(predictor: Predictor, told: Trace) -> str | None:
    if told.word_weights is not None or any(step.attention is not None for step in told.steps):
        return None
    encoder = predictor.trained.config.model.encoder
    if told.spans is not None:
        return "This model has no label decoder with attention, so the words behind a label are not known."
    return f"The encoder {encoder!r} reads the text as a whole, so the words behind a label are not known."


def describe(predictor: Predictor, name: str, limits: ServiceLimits, examples: Sequence[str]) -> ModelAnswer:
    trained = predictor.trained
    return ModelAnswer(
        name=name,
        version=__version__,
        encoder=trained.config.model.encoder,
        labels=dict(zip(trained.labels.names, trained.labels.counts, strict=True)),
        decoders=[
            DecoderFacts(
                name=known, has_order=searches[known].has_order, has_threshold=searches[known].log_odds is not None
            )
            for known in predictor.decoders
        ],
        default_decoder=predictor.decision(predictor.default_decoder).search,
        best_decoder=trained.decisions.searches,
        promises={name: promise.sentence for name, promise in trained.decisions.promises.items()},
        min_labels=predictor.limits.min_labels,
        max_labels=predictor.limits.max_labels,
        max_words=trained.config.data.max_words,
        examples=list(examples) or typical_texts(predictor),
        limits=LimitsAnswer(
            body_bytes=limits.body_bytes,
            texts=limits.texts,
            characters=limits.characters,
            seconds=limits.seconds,
            queue=limits.queue,
            probs=limits.probs,
        ),
    )
