"""Searches on problems whose answer can be checked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from orderfree.decoding.beam import Limits, beam_search
from orderfree.decoding.search import searches
from orderfree.decoding.sets import membership, set_log_prob_br
from orderfree.testing.contracts import prefix_model
from orderfree.types import DecodeInput, DecoderState

A, B, C, EOS = range(4)


def transition_step(previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
    return TRANSITIONS[previous].log(), state


# From the start A looks best (0.6), but leads into a coin toss; B (0.4) goes on to C for certain.
TRANSITIONS = torch.tensor(
    [
        #  A     B     C    eos      after
        [0.00, 0.25, 0.35, 0.40],  # A
        [0.02, 0.00, 0.96, 0.02],  # B
        [0.02, 0.03, 0.00, 0.95],  # C
        [0.60, 0.40, 0.00, 0.00],  # the start
    ]
)


def transitions(width: int, **limits) -> list[tuple[list[int], float]]:
    _, state = prefix_model(1, 3, 0)
    found = beam_search(transition_step, state, 3, Limits(width, renormalise=False, **limits), None)
    return [
        ([label for label in sequence if label != EOS], math.exp(score))
        for sequence, score in zip(found.sequences[0].tolist(), found.scores[0].tolist(), strict=True)
    ]


def test_greedy_takes_the_tempting_first_label() -> None:
    assert transitions(1) == [([A], pytest.approx(0.6 * 0.4))]


def test_a_beam_of_two_finds_the_better_path() -> None:
    """B, C: 0.4 × 0.96 × 0.95 = 0.3648 beats A alone: 0.6 × 0.4 = 0.24."""
    (best, score), (second, next_score) = transitions(2)
    assert (best, score) == ([B, C], pytest.approx(0.3648))
    assert (second, next_score) == ([A], pytest.approx(0.24))


def test_a_forbidden_length_changes_the_answer() -> None:
    assert transitions(9, max_labels=1)[0] == ([A], pytest.approx(0.24))
    assert transitions(9, min_labels=3)[0][0] == [A, B, C]
    assert all(len(labels) >= 2 for labels, probability in transitions(9, min_labels=2) if probability > 0)


BR_LOGITS = torch.tensor([[2.0, -1.0, 0.5], [-3.0, -2.0, -1.0]])


def br(thresholds: Tensor | None = None, **limits) -> tuple[list[list[int]], list[float]]:
    found = searches["br"](DecodeInput(3, None, None, BR_LOGITS, thresholds), Limits(**limits))
    assert (found.sequences[..., -1] == EOS).all()
    return [[i for i in s if i != EOS] for s in found.sequences[:, 0].tolist()], found.log_probs[:, 0].tolist()


def test_binary_relevance_takes_what_reaches_the_threshold_most_probable_first() -> None:
    labels, log_probs = br()
    assert labels == [[A, C], []]
    p = [[1 / (1 + math.exp(-x)) for x in row] for row in BR_LOGITS.tolist()]
    assert log_probs[0] == pytest.approx(math.log(p[0][0] * (1 - p[0][1]) * p[0][2]))
    assert log_probs[1] == pytest.approx(math.log((1 - p[1][0]) * (1 - p[1][1]) * (1 - p[1][2])))


def test_a_probability_equal_to_the_threshold_is_enough() -> None:
    found = searches["br"](DecodeInput(2, None, None, torch.tensor([[0.0, -0.001]])), Limits())
    assert found.sequences[0, 0].tolist() == [0, 2]


def test_thresholds_are_per_label() -> None:
    # probabilities: 0.88 0.27 0.62 | 0.05 0.12 0.27
    assert br(torch.tensor([0.9, 0.2, 0.7]))[0] == [[B], []]
    assert br(torch.tensor([0.01, 0.2, 0.2]))[0] == [[A, C, B], [C, A]]


def test_binary_relevance_keeps_min_and_max_labels() -> None:
    assert br(min_labels=1)[0] == [[A, C], [C]]
    assert br(min_labels=2)[0] == [[A, C], [C, B]]
    assert br(min_labels=9)[0] == [[A, C, B], [C, B, A]]
    assert br(max_labels=1)[0] == [[A], []]
    assert br(torch.full((3,), 0.01), max_labels=2)[0] == [[A, C], [C, B]]


def test_membership() -> None:
    sequences = torch.tensor([[[2, 0, 3, 3], [3, 3, 3, 3]]])
    assert membership(sequences, 3).tolist() == [[[True, False, True], [False, False, False]]]


def test_set_log_prob_by_hand() -> None:
    logits = torch.tensor([math.log(3), 0.0])  # 3/4 and 1/2
    for chosen, probability in (([1, 1], 3 / 8), ([1, 0], 3 / 8), ([0, 1], 1 / 8), ([0, 0], 1 / 8)):
        assert set_log_prob_br(logits, torch.tensor(chosen).bool()).exp().item() == pytest.approx(probability)


def test_the_probabilities_of_all_sets_add_up_to_one() -> None:
    sets = torch.cartesian_prod(*[torch.tensor([False, True])] * 3)
    assert set_log_prob_br(BR_LOGITS[0], sets).exp().sum().item() == pytest.approx(1.0)


def test_set_log_prob_does_not_overflow() -> None:
    value = set_log_prob_br(torch.tensor([500.0, -500.0]), torch.tensor([False, True]))
    assert value.item() == pytest.approx(-1000.0)


def test_joint_decoding_can_overrule_either_decoder_by_hand() -> None:
    """P_path prefers B, C; binary relevance holds C for nearly impossible, and A stands alone."""
    _, state = prefix_model(1, 3, 0)
    br_logits = torch.tensor([[0.0, 0.0, -5.0]])
    given = DecodeInput(3, transition_step, state, br_logits)
    limits = Limits(9, renormalise=False)
    assert searches["beam"](given, limits).sequences[0, 0].tolist()[:3] == [B, C, EOS]
    found = searches["joint"](given, limits)
    assert found.sequences[0, 0].tolist()[:2] == [A, EOS]
    assert found.scores[0, 0].item() == pytest.approx(math.log(0.24))


def test_rescoring_may_leave_the_most_probable_path_by_hand() -> None:
    _, state = prefix_model(1, 3, 0)
    given = DecodeInput(3, transition_step, state, torch.tensor([[3.0, -3.0, -3.0]]))
    found = searches["rescore"](given, Limits(2, renormalise=False))
    assert found.sequences[0, 0].tolist()[:2] == [A, EOS]
    assert found.scores[0, 0].item() == pytest.approx(3 * math.log(1 / (1 + math.exp(-3))))
    assert found.log_probs[0, 0].item() == pytest.approx(math.log(0.24))


@pytest.mark.parametrize("name", ["greedy", "beam", "joint", "rescore"])
def test_a_search_without_its_decoder_says_so(name: str) -> None:
    with pytest.raises(AssertionError, match="the model has none"):
        searches[name](DecodeInput(3, None, None, BR_LOGITS), Limits())


def test_linear_is_a_threshold_on_the_encoders_scores() -> None:
    scores = torch.tensor([[0.4, -0.2, 0.1], [-1.0, -2.0, -3.0]])
    found = searches["linear"](DecodeInput(3, None, None, None, torch.full((3,), 0.5), scores), Limits())
    assert membership(found.sequences[:, 0], 3).tolist() == [[True, False, True], [False, False, False]]
