"""A trace tells what the search did: the same labels, the same probabilities, words where they stand."""

from __future__ import annotations

import json
from math import log

import numpy as np
import pytest
import torch

from orderfree.decisions.records import Decisions
from orderfree.errors import OrderfreeError
from orderfree.inference import Predictor
from orderfree.report.examples import CANDIDATES_SHOWN, generation
from orderfree.report.trace import Trace, trace
from orderfree.types import Example
from unit_models import made_model

TEXT = Example("1", text="two red  fish\nswim, in a Big red pond")


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("decoder", ["greedy", "beam", "joint", "rescore"])
@pytest.mark.parametrize("kind", ["lstm", "sgm", "seq2set", "chain"])
def test_steps_have_the_probability_of_the_path(seed: int, decoder: str, kind: str) -> None:
    predictor = Predictor(made_model(seed, "mle" if kind == "chain" else "ocd", label_decoder=kind))
    told = trace(predictor, TEXT, decoder)
    assert tuple(step.taken for step in told.steps) == (*told.chosen.labels, None)
    encoded = predictor.trained.featurizer.encode(TEXT)
    found = predictor.search(predictor.start(predictor.trained.featurizer.collate([encoded.arrays])), decoder)
    assert sum(log(step.prob) for step in told.steps) == pytest.approx(float(found.log_probs[0, 0]), abs=1e-4)
    for t, step in enumerate(told.steps):
        assert step.probs.sum() == pytest.approx(1, abs=1e-5)
        before = predictor.labels.known(told.chosen.labels[:t])
        assert not step.probs[before].any()


def test_greedy_takes_the_most_probable_at_every_step() -> None:
    predictor = Predictor(made_model(4))
    names = (*predictor.labels.names, None)
    told = trace(predictor, TEXT, "greedy")
    assert [names[int(step.probs.argmax())] for step in told.steps] == [step.taken for step in told.steps]
    assert told.sets_of == "beam"  # greedy holds one set; those beside it are the beam's
    assert len(told.sets) > 1


def test_set_sizes_that_forbid_are_told() -> None:
    predictor = Predictor(made_model(1)).adjusted(min_labels=2, max_labels=2)
    told = trace(predictor, TEXT, "beam")
    assert [step.may_stop for step in told.steps] == [False, False, True]
    assert [step.must_stop for step in told.steps] == [False, False, True]


def test_a_decoder_without_order_is_told_by_the_beam() -> None:
    predictor = Predictor(made_model(2))
    told = trace(predictor, TEXT, "br")
    assert (told.told_by, told.sets_of) == ("beam", "beam")
    assert tuple(step.taken for step in told.steps)[:-1] == trace(predictor, TEXT, "beam").chosen.labels
    assert set(told.chosen.labels) == {n for n, p in zip(predictor.labels.names, probs(told), strict=True) if p >= 0.5}


def probs(told: Trace) -> np.ndarray:
    assert told.br_probs is not None
    return told.br_probs


def test_a_model_without_a_label_decoder_says_what_it_can() -> None:
    told = trace(Predictor(made_model(1, sequence=None)), TEXT)
    assert (told.told_by, told.steps, told.sets, told.sequence_probs) == (None, (), (), None)
    assert probs(told).shape == (4,)


@pytest.mark.parametrize(("encoder", "beside"), [("bilstm", 0), ("hybrid", 1)])
@pytest.mark.parametrize("kind", ["lstm", "seq2set"])
def test_attention_is_over_words_where_they_stand(encoder: str, beside: int, kind: str) -> None:
    told = trace(Predictor(made_model(1, encoder=encoder, label_decoder=kind)), TEXT, "beam")
    assert told.spans is not None
    assert TEXT.text is not None
    words = [TEXT.text[slice(*span)] for span in told.spans if span is not None]
    assert words == ["two", "red", "fish", "swim", ",", "in", "a", "Big", "red", "pond"]
    assert len(told.spans) == len(words) + beside  # the linear part of a hybrid is one state for the whole text
    for step in told.steps:
        assert step.attention is not None
        assert step.attention.shape == (len(told.spans),)
        # what Seq2Set reads from its first decoder is read from no word
        total = step.attention.sum()
        assert total == pytest.approx(1, abs=1e-5) if kind == "lstm" else 0 < total < 1


@torch.inference_mode()
def test_attention_is_that_of_the_step() -> None:
    """Against the slow twin: one step at a time, through the attention itself."""
    predictor = Predictor(made_model(5, encoder="bilstm"))
    told = trace(predictor, TEXT, "beam")
    decoder = predictor.network.label_decoder
    encoded = predictor.trained.featurizer.encode(TEXT)
    given = predictor.start(predictor.trained.featurizer.collate([encoded.arrays]))
    state, previous = given.state, torch.tensor([4])
    assert decoder is not None
    assert state is not None
    for step in told.steps:
        output, _, _ = decoder.recur(decoder.embed(previous)[:, None], state)
        _, weights = decoder.attention(output, state.memory, state.mask)
        np.testing.assert_allclose(step.attention, weights[0, 0], atol=1e-6)
        _, state = decoder.step(previous, state)
        previous = torch.tensor(predictor.labels.known([step.taken or "a"]))


def test_no_words_where_the_encoder_sees_the_whole_text() -> None:
    told = trace(Predictor(made_model(1, encoder="sparse")), TEXT, "beam")
    assert (told.spans, told.word_weights) == (None, None)
    assert all(step.attention is None for step in told.steps)


@pytest.mark.parametrize("encoder", ["linear", "hybrid"])
def test_word_weights_add_up_to_the_linear_score(encoder: str) -> None:
    predictor = Predictor(made_model(3, encoder=encoder)).adjusted(min_labels=2)
    told = trace(predictor, TEXT, "beam", words=100)
    encoded = predictor.trained.featurizer.encode(TEXT)
    scores = predictor.start(predictor.trained.featurizer.collate([encoded.arrays])).scores
    linear = predictor.network.encoder if encoder == "linear" else predictor.network.encoder.parts["linear"]
    assert told.word_weights is not None
    assert scores is not None
    assert [one.label for one in told.word_weights] == list(told.chosen.labels)
    for one in told.word_weights:
        place = predictor.labels.ids[one.label]
        score = sum(weight for _, weight in one.words) + float(linear.bias[place])
        assert score == pytest.approx(float(scores[0, place]), abs=1e-5)
        # a word among the first two is that word: it counts once, with all it adds
        assert sorted(word for word, _ in one.words) == ["big", "fish", "in", "pond", "red", "swim", "two"]


def test_sets_are_those_of_the_beam_with_both_probabilities() -> None:
    predictor = Predictor(made_model(6))
    told = trace(predictor, TEXT, "beam")
    expected = [(told.chosen.labels, told.chosen.log_prob), *told.chosen.alternatives]
    assert [(one.labels, one.log_prob) for one in told.sets] == expected
    for one in told.sets:
        odds = [p if name in one.labels else 1 - p for name, p in zip(predictor.labels.names, probs(told), strict=True)]
        assert one.br_log_prob == pytest.approx(np.log(odds).sum(), abs=1e-4)


def test_shares_of_the_label_decoder_are_exact_where_all_sets_are_seen() -> None:
    """16 sets of four labels: a beam that holds them all, against the probabilities of all of them."""
    from dataclasses import replace
    from itertools import combinations

    predictor = Predictor(made_model(7))
    predictor.limits = replace(predictor.limits, width=500, max_labels=4)
    names = predictor.labels.names
    sets = [chosen for size in range(5) for chosen in combinations(names, size)]
    exact = np.exp(predictor.set_log_prob([TEXT] * len(sets), sets))
    expected = [sum(p for chosen, p in zip(sets, exact, strict=True) if name in chosen) for name in names]
    # continuations of a set are those of its most probable order: close, not equal
    np.testing.assert_allclose(trace(predictor, TEXT, "beam").sequence_probs, expected, atol=0.15)


def test_an_unknown_decoder_is_refused() -> None:
    with pytest.raises(OrderfreeError, match="cannot be decoded with 'joint'"):
        trace(Predictor(made_model(1, sequence=None)), TEXT, "joint")


def test_one_threshold_for_all_or_label_by_label() -> None:
    predictor = Predictor(made_model(8))
    value = dict(zip(predictor.labels.names, probs(trace(predictor, TEXT)), strict=True))
    (label, highest), *_ = sorted(value.items(), key=lambda pair: -pair[1])

    def chosen(**options: object) -> set[str]:
        return set(trace(predictor.adjusted(**options), TEXT, "br").chosen.labels)  # type: ignore[arg-type]

    assert chosen(thresholds=0.0) == set(value)
    assert chosen(thresholds=float(highest)) == {label}
    assert chosen(thresholds={name: 1.0 for name in value if name != label} | {label: 0.0}) == {label}
    assert chosen(thresholds=0.0, max_labels=2) == set(sorted(value, key=lambda name: -value[name])[:2])
    assert chosen(thresholds=1.0, min_labels=1) == {label}
    assert predictor.own_thresholds is None  # the predictor itself is as it was
    with pytest.raises(OrderfreeError, match="'e' is no label"):
        predictor.adjusted({"e": 0.5})
    with pytest.raises(OrderfreeError, match="min_labels is 3, more than max_labels"):
        predictor.adjusted(min_labels=3, max_labels=2)


def test_thresholds_by_name_leave_the_tuned_ones_alone() -> None:
    trained = made_model(8)
    trained.decisions = Decisions({"br": {"micro_f1": 0.3}})
    own = Predictor(trained).adjusted({"b": 0.9}).thresholds("br")
    assert own is not None
    assert own.tolist() == pytest.approx([0.9 if name == "b" else 0.3 for name in trained.labels.names])
    assert Predictor(trained).thresholds("beam") is None


@pytest.mark.parametrize("decoder", ["joint", "br"])
def test_a_report_tells_the_steps_of_the_trace(decoder: str) -> None:
    predictor = Predictor(made_model(3))
    told, found = trace(predictor, TEXT, decoder), generation(predictor, TEXT, decoder)
    assert [step["taken"] for step in found["steps"]] == [step.taken for step in told.steps]
    for shown, step in zip(found["steps"], told.steps, strict=True):
        assert shown["taken"] in [one["label"] for one in shown["candidates"]]
        assert len(shown["candidates"]) <= CANDIDATES_SHOWN
        assert max(one["prob"] for one in shown["candidates"]) == pytest.approx(float(step.probs.max()))
    assert json.loads(json.dumps(found)) == found


def test_a_report_of_binary_relevance_alone() -> None:
    predictor = Predictor(made_model(3, None))
    found = generation(predictor, TEXT, "br")
    assert found["steps"] == []
    assert {one["label"] for one in found["br"] if one["taken"]} == set(trace(predictor, TEXT, "br").chosen.labels)
    probs = [one["br"] for one in found["br"]]
    assert probs == sorted(probs, reverse=True)
