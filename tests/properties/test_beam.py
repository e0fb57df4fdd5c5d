"""Searches against their slow twins: every sequence of a small problem, scored one by one."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orderfree.decoding.beam import Limits, beam_search
from orderfree.decoding.search import searches
from orderfree.nn.label_decoder import LabelDecoder
from orderfree.testing.contracts import decode_input, prefix_model, rows_of
from orderfree.types import DecodeInput, DecoderState, EncoderOutput, Hypotheses, Step
from speed.exhaustive import all_sequences, exhaustive_search, loop_beam, path_log_prob

FULL = 1000  # wider than the number of sequences of four labels (65)
quick = settings(max_examples=25, deadline=None, derandomize=True)


@st.composite
def all_limits(draw: st.DrawFn, width: int | None = None) -> Limits:
    fewest = draw(st.integers(0, 3))
    most = draw(st.integers(max(fewest, 1), 5))
    return Limits(width or draw(st.integers(1, 8)), fewest, most, draw(st.booleans()))


labels_and_seed = st.tuples(st.integers(1, 4), st.integers(0, 10_000))


def one(state: DecoderState, place: int) -> DecoderState:
    row = torch.tensor([place])
    return state.select(row, row)


def listed(found: Hypotheses, place: int, num_labels: int) -> list[tuple[tuple[int, ...], float, float]]:
    """(labels, score, log_prob) of every hypothesis of one input."""
    rows = zip(
        found.sequences[place].tolist(), found.scores[place].tolist(), found.log_probs[place].tolist(), strict=True
    )
    return [
        (tuple(i for i in s if i != num_labels), score, log_prob) for s, score, log_prob in rows if score > -math.inf
    ]


def assert_same_ranking(found: list[tuple[tuple[int, ...], float, float]], expected: list) -> None:
    """Equal scores place by place; each sequence has the score it is listed with (near ties may swap)."""
    true_score = dict(expected)
    assert len(found) == len(expected)
    assert len({labels for labels, _, _ in found}) == len(found)
    for (labels, score, _), (_, best) in zip(found, expected, strict=True):
        assert score == pytest.approx(best, abs=1e-4)
        assert score == pytest.approx(true_score[labels], abs=1e-4)


@quick
@given(labels_and_seed, all_limits(width=FULL))
def test_a_full_width_beam_is_exhaustive(problem, limits: Limits) -> None:
    num_labels, seed = problem
    step, state = prefix_model(3, num_labels, seed)
    found = beam_search(step, state, num_labels, limits, None)
    for place in range(3):
        assert_same_ranking(
            listed(found, place, num_labels), exhaustive_search(step, one(state, place), num_labels, limits)
        )


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.integers(0, 100), st.booleans())
@torch.no_grad()
def test_the_same_with_a_real_label_decoder(seed: int, renormalise: bool) -> None:
    torch.manual_seed(seed)
    decoder = LabelDecoder(4, 5, embedding=4, hidden=6, layers=2, dropout=0.0).eval()
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter)
    mask = torch.arange(3) < torch.tensor([3, 1])[:, None]
    encoded = EncoderOutput(torch.randn(2, 3, 5) * mask[..., None], mask, torch.randn(1, 2, 5))
    state = decoder.start(encoded)
    limits = Limits(FULL, 0, 4, renormalise)
    found = beam_search(decoder.step, state, 4, limits, None)
    for place in range(2):
        assert_same_ranking(listed(found, place, 4), exhaustive_search(decoder.step, one(state, place), 4, limits))


@quick
@given(labels_and_seed, all_limits(), st.booleans())
def test_a_beam_over_tensors_is_the_beam_in_plain_python(problem, limits: Limits, joint: bool) -> None:
    num_labels, seed = problem
    step, state = prefix_model(4, num_labels, seed)
    bonus = torch.randn(4, num_labels, generator=torch.Generator().manual_seed(seed)) if joint else None
    found = beam_search(step, state, num_labels, limits, bonus)
    for place in range(4):
        own = None if bonus is None else bonus[place]
        expected = loop_beam(step, one(state, place), num_labels, limits, own)
        for (labels, score, path), (true_labels, true_score, true_path) in zip(
            listed(found, place, num_labels), expected, strict=True
        ):
            assert labels == true_labels
            assert (score, path) == pytest.approx((true_score, true_path), abs=1e-4)


def naive_greedy(step: Step, state: DecoderState, num_labels: int, limits: Limits) -> tuple[tuple[int, ...], float]:
    labels: list[int] = []
    total, previous = 0.0, num_labels
    most = min(limits.max_labels, num_labels)
    while True:
        logits, state = step(torch.tensor([previous]), state)
        probabilities = logits[0].clone()
        if limits.renormalise:
            probabilities[labels] = -math.inf
        log_probs = probabilities.log_softmax(dim=-1).tolist()
        allowed = [label for label in range(num_labels) if label not in labels] if len(labels) < most else []
        if len(labels) >= min(limits.min_labels, most):
            allowed.append(num_labels)
        previous = max(allowed, key=lambda action: log_probs[action])
        total += log_probs[previous]
        if previous == num_labels:
            return tuple(labels), total
        labels.append(previous)


@quick
@given(labels_and_seed, all_limits(width=1))
def test_width_one_is_greedy(problem, limits: Limits) -> None:
    num_labels, seed = problem
    step, state = prefix_model(4, num_labels, seed)
    for found in (
        beam_search(step, state, num_labels, limits, None),
        searches["greedy"](DecodeInput(num_labels, step, state, None), Limits(7, *_rest(limits))),
    ):
        for place in range(4):
            ((labels, score, _),) = listed(found, place, num_labels)
            expected, total = naive_greedy(step, one(state, place), num_labels, limits)
            assert labels == expected
            assert score == pytest.approx(total, abs=1e-4)


def _rest(limits: Limits) -> tuple[int, int, bool]:
    return limits.min_labels, limits.max_labels, limits.renormalise


@quick
@given(labels_and_seed, all_limits())
def test_any_width_keeps_the_limits_and_scores_what_it_returns(problem, limits: Limits) -> None:
    num_labels, seed = problem
    step, state = prefix_model(3, num_labels, seed)
    found = beam_search(step, state, num_labels, limits, None)
    allowed = set(all_sequences(num_labels, limits))
    for place in range(3):
        hypotheses = listed(found, place, num_labels)
        assert 1 <= len(hypotheses) <= limits.width
        assert [score for _, score, _ in hypotheses] == sorted((score for _, score, _ in hypotheses), reverse=True)
        for labels, score, log_prob in hypotheses:
            assert labels in allowed
            slow = path_log_prob(step, one(state, place), labels, num_labels, limits.renormalise)
            assert score == log_prob == pytest.approx(slow, abs=1e-4)


@quick
@given(labels_and_seed, all_limits(), st.sampled_from(searches.names()))
def test_the_rest_of_the_batch_changes_nothing(problem, limits: Limits, name: str) -> None:
    """Inputs end at different steps, so some leave the batch while others go on."""
    num_labels, seed = problem
    given_input = decode_input(9, num_labels, seed)
    together = searches[name](given_input, limits)
    for place in range(9):
        alone = rows_of(given_input, torch.tensor([place]))
        own = listed(searches[name](alone, limits), 0, num_labels)
        batched = listed(together, place, num_labels)
        assert [labels for labels, _, _ in batched] == [labels for labels, _, _ in own]
        assert [s for _, s, _ in batched] == pytest.approx([s for _, s, _ in own], abs=1e-4)


@pytest.mark.parametrize("width", [1, 2])
def test_inputs_that_stay_keep_their_own_odds_when_others_leave(width: int) -> None:
    """Binary relevance ends the first six inputs at once and keeps the last three going."""
    step, state = prefix_model(9, 4, seed=0)
    sizes: list[int] = []

    def counting(previous: torch.Tensor, state: DecoderState) -> tuple[torch.Tensor, DecoderState]:
        sizes.append(len(previous))
        return step(previous, state)

    odds = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
    odds += torch.tensor([-40.0] * 6 + [4.0] * 3)[:, None]
    limits = Limits(width)
    together = searches["joint"](DecodeInput(4, counting, state, odds), limits)
    assert sizes[-1] <= 3 * width < sizes[0], "nothing left the batch: this test shows nothing"
    for place in range(9):
        alone = DecodeInput(4, step, one(state, place), odds[place : place + 1])
        own, batched = listed(searches["joint"](alone, limits), 0, 4), listed(together, place, 4)
        assert [labels for labels, _, _ in batched] == [labels for labels, _, _ in own]
        assert [s for _, s, _ in batched] == pytest.approx([s for _, s, _ in own], abs=1e-4)


def brute_force(given_input: DecodeInput, place: int, limits: Limits) -> dict[tuple[int, ...], tuple[float, float]]:
    """Every allowed sequence -> (log P_path, log P_br), from Eq. 13 and 14."""
    probabilities = given_input.br_logits[place].sigmoid().tolist()
    scored = {}
    for labels in all_sequences(given_input.num_labels, limits):
        path = path_log_prob(
            given_input.step, one(given_input.state, place), labels, given_input.num_labels, limits.renormalise
        )
        br = math.prod(p if label in labels else 1 - p for label, p in enumerate(probabilities))
        scored[labels] = (path, math.log(br))
    return scored


@quick
@given(labels_and_seed, all_limits(width=FULL))
def test_joint_decoding_maximises_the_product_of_both_decoders(problem, limits: Limits) -> None:
    """Eq. 15-16: multiplying odds step by step ranks as P_path × P_br does over complete sequences."""
    num_labels, seed = problem
    given_input = decode_input(2, num_labels, seed)
    found = searches["joint"](given_input, limits)
    for place in range(2):
        scored = brute_force(given_input, place, limits)
        product = {labels: path + br for labels, (path, br) in scored.items()}
        hypotheses = listed(found, place, num_labels)
        best = hypotheses[0][0]
        assert product[best] == pytest.approx(max(product.values()), abs=1e-4)
        # odds are P_br up to a factor that all sequences share: the probability of the empty set
        nothing = sum(math.log(1 - p) for p in given_input.br_logits[place].sigmoid().tolist())
        for labels, score, log_prob in hypotheses:
            assert score + nothing == pytest.approx(product[labels], abs=1e-3)
            assert log_prob == pytest.approx(scored[labels][0], abs=1e-4)


@quick
@given(labels_and_seed, all_limits())
def test_rescoring_ranks_the_plain_beams_hypotheses_by_p_br(problem, limits: Limits) -> None:
    num_labels, seed = problem
    given_input = decode_input(2, num_labels, seed)
    found, plain = searches["rescore"](given_input, limits), searches["beam"](given_input, limits)
    for place in range(2):
        scored = brute_force(given_input, place, limits)
        hypotheses = listed(found, place, num_labels)
        in_beam = [labels for labels, _, _ in listed(plain, place, num_labels)]
        expected = sorted(in_beam, key=lambda labels: (-round(scored[labels][1], 5), in_beam.index(labels)))
        assert [labels for labels, _, _ in hypotheses] == expected
        for labels, score, log_prob in hypotheses:
            assert score == pytest.approx(scored[labels][1], abs=1e-3)
            assert log_prob == pytest.approx(scored[labels][0], abs=1e-4)


def test_all_sequences_by_hand() -> None:
    assert all_sequences(2, Limits()) == [(), (0,), (1,), (0, 1), (1, 0)]
    assert all_sequences(3, Limits(min_labels=2, max_labels=2)) == list(permutations(range(3), 2))
    assert all_sequences(2, Limits(min_labels=5)) == [(0, 1), (1, 0)]


@pytest.mark.parametrize("renormalise", [True, False])
def test_exhaustive_probabilities(renormalise: bool) -> None:
    """Renormalised (Eq. 4), the probabilities of all sequences add up to 1; unmasked, repeats take their share."""
    step, state = prefix_model(1, 3, seed=0)
    ranked = exhaustive_search(step, state, 3, Limits(renormalise=renormalise))
    total = sum(math.exp(score) for _, score in ranked)
    assert total == pytest.approx(1.0, abs=1e-5) if renormalise else total < 0.999


def set_model(inputs: int, num_labels: int, seed: int) -> tuple[Step, DecoderState]:
    """A step whose logits depend on which labels were taken, not on their order."""
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(num_labels, 8, generator=generator)
    out = torch.randn(8, num_labels + 1, generator=generator)
    own = torch.randn(inputs, 8, generator=generator)

    def step(previous: torch.Tensor, state: DecoderState) -> tuple[torch.Tensor, DecoderState]:
        taken = state.hidden[0].clone()  # (R, L)
        rows = (previous < num_labels).nonzero()[:, 0]
        taken[rows, previous[rows]] = 1.0
        logits = torch.tanh(taken @ mix + state.cell[0]) @ out * 2
        return logits, DecoderState(taken[None], state.cell, state.memory, state.mask)

    hidden = torch.zeros(1, inputs, num_labels)
    memory, mask = torch.zeros(inputs, 1, 1), torch.ones(inputs, 1, dtype=torch.bool)
    return step, DecoderState(hidden, own[None], memory, mask)


@quick
@given(labels_and_seed, all_limits(width=FULL), st.booleans())
def test_merged_hypotheses_have_the_probability_of_their_set(problem, limits: Limits, with_bonus: bool) -> None:
    num_labels, seed = problem
    limits = Limits(limits.width, limits.min_labels, limits.max_labels, limits.renormalise, merge_sets=True)
    step, state = set_model(2, num_labels, seed)
    generator = torch.Generator().manual_seed(seed)
    bonus = torch.randn(2, num_labels, generator=generator) if with_bonus else None
    found = beam_search(step, state, num_labels, limits, bonus)
    for place in range(2):
        expected: dict[frozenset[int], float] = {}
        own = bonus[place] if bonus is not None else None
        for sequence, score in exhaustive_search(step, one(state, place), num_labels, limits, own):
            expected[frozenset(sequence)] = expected.get(frozenset(sequence), 0.0) + math.exp(score)
        rows = listed(found, place, num_labels)
        assert {frozenset(labels) for labels, _, _ in rows} == set(expected)
        assert len(rows) == len(expected)
        for labels, score, log_prob in rows:
            assert math.exp(score) == pytest.approx(expected[frozenset(labels)], rel=1e-3)
            odds = sum(float(own[label]) for label in labels) if own is not None else 0.0
            assert score - odds == pytest.approx(log_prob, abs=1e-3)
