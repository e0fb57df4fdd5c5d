"""Searches over a distribution of sets, against every set of a small problem."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, permutations

import pytest
import torch
from torch import Tensor

from orderfree.decoding.beam import Limits
from orderfree.decoding.search import searches
from orderfree.decoding.sets import label_shares, membership, merged_sets, plain_sets, set_log_prob, weighted_sets
from orderfree.testing.contracts import prefix_model
from orderfree.types import DecodeInput, DecoderState
from speed.exhaustive import all_sequences, path_log_prob

L, B = 4, 5
WIDE = Limits(width=200, max_labels=L)


@pytest.fixture(scope="module")
def given() -> DecodeInput:
    """A model that knows which labels were taken, not in which order: merging permutations of a set is exact then."""
    generator = torch.Generator().manual_seed(4)
    table = 1.5 * torch.randn(B, 2**L, L + 1, generator=generator)  # logits for every input and set taken

    def step(previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        taken, which = state.extra
        taken = taken | torch.where(previous < L, 2**previous, 0)
        return table[which, taken], replace(state, extra=(taken, which))

    nothing = torch.zeros(1, B, 1)
    extra = (torch.zeros(B, dtype=torch.int64), torch.arange(B))
    state = DecoderState(nothing, nothing, torch.zeros(B, 1, 1), torch.ones(B, 1, dtype=torch.bool), extra)
    return DecodeInput(L, step, state, torch.randn(B, L, generator=generator))


def every_set(given: DecodeInput, place: int, with_odds: bool) -> dict[frozenset[int], float]:
    """P(set | x): the sum over all orders of it, weighed with the odds of binary relevance where asked."""
    row = torch.tensor([place])
    state = given.state.select(row, row)
    found: dict[frozenset[int], float] = {}
    for sequence in all_sequences(L, WIDE):
        log_prob = path_log_prob(given.step, state, sequence, L, renormalise=True)
        if with_odds:
            log_prob += float(given.br_logits[place, list(sequence)].sum())
        key = frozenset(sequence)
        found[key] = found.get(key, 0.0) + float(torch.tensor(log_prob).exp())
    total = sum(found.values())
    return {key: value / total for key, value in found.items()}


@pytest.mark.parametrize("with_odds", [False, True])
def test_a_wide_beam_finds_the_whole_distribution(given: DecodeInput, with_odds: bool) -> None:
    sets, probs = (weighted_sets if with_odds else plain_sets)(given, WIDE)
    for place in range(B):
        expected = every_set(given, place, with_odds)
        found: dict[frozenset[int], float] = {}
        for chosen, prob in zip(sets[place], probs[place].tolist(), strict=True):
            key = frozenset(chosen.nonzero()[:, 0].tolist())
            found[key] = found.get(key, 0.0) + prob
        assert {key: value for key, value in found.items() if value > 1e-9} == pytest.approx(expected, abs=1e-4)


def test_marginals_are_shares_of_the_probability(given: DecodeInput) -> None:
    probs = searches["marginal"].log_odds(given, WIDE).sigmoid()
    for place in range(B):
        sets = every_set(given, place, with_odds=True)
        for label in range(L):
            share = sum(value for key, value in sets.items() if label in key)
            assert probs[place, label].item() == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize("with_odds", [False, True])
def test_the_two_shares_of_a_label_differ_by_the_odds(given: DecodeInput, with_odds: bool) -> None:
    shares = label_shares(*(weighted_sets if with_odds else plain_sets)(given, WIDE))
    sets = every_set(given, 0, with_odds)
    for label in range(L):
        assert shares[0, label].item() == pytest.approx(sum(sets[key] for key in sets if label in key), abs=1e-4)


def test_permutations_of_a_set_in_a_beam_become_one() -> None:
    sequences = [[1, 0, 3], [2, 3, 3], [0, 1, 3], [3, 3, 3], [0, 3, 3]]
    log_probs = [math.log(p) if p else float("-inf") for p in (0.4, 0.2, 0.1, 0.05, 0)]
    merged = merged_sets(sequences, log_probs, 3)
    assert [labels for labels, _ in merged] == [[1, 0], [2], []]
    assert [math.exp(log_prob) for _, log_prob in merged] == pytest.approx([0.5, 0.2, 0.05])


def f1(one: frozenset[int], other: frozenset[int]) -> float:
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 1.0


@pytest.mark.parametrize("fewest", [0, 2])
def test_no_set_has_a_higher_expected_f1(given: DecodeInput, fewest: int) -> None:
    limits = Limits(width=200, min_labels=fewest, max_labels=L)
    found = searches["expected_f1"](given, limits)
    chosen = membership(found.sequences[:, 0], L)
    own_sets, own_probs = plain_sets(given, limits)
    for place in range(B):
        sets = [frozenset(row.nonzero()[:, 0].tolist()) for row in own_sets[place]]
        probs = own_probs[place].tolist()

        def expected(wanted: frozenset[int], sets=sets, probs=probs) -> float:
            return sum(prob * f1(wanted, other) for other, prob in zip(sets, probs, strict=True))

        every = [frozenset(c) for n in range(fewest, L + 1) for c in combinations(range(L), n)]
        mine = frozenset(chosen[place].nonzero()[:, 0].tolist())
        assert expected(mine) == pytest.approx(max(map(expected, every)), abs=1e-5)
        assert found.scores[place, 0].item() == pytest.approx(expected(mine), abs=1e-5)
        assert len(mine) >= fewest


@pytest.mark.parametrize("renormalise", [True, False])
def test_the_probability_of_a_set_is_the_sum_over_its_orders(renormalise: bool) -> None:
    """On a model that minds the order, for every set of four labels, the empty one included."""
    step, state = prefix_model(1, L, seed=7)
    one = torch.tensor([0])
    subsets = [subset for n in range(L + 1) for subset in combinations(range(L), n)]
    for subset in subsets:
        chosen = torch.zeros(1, L, dtype=torch.bool)
        chosen[0, list(subset)] = True
        found = set_log_prob(DecodeInput(L, step, state, None), chosen, Limits(renormalise=renormalise))
        orders = [path_log_prob(step, state.select(one, one), order, L, renormalise) for order in permutations(subset)]
        assert float(found) == pytest.approx(float(torch.tensor(orders).logsumexp(0)), abs=1e-4)


def test_the_probabilities_of_all_sets_add_up_to_one() -> None:
    step, state = prefix_model(2**L, L, seed=3)
    state = state.select(torch.zeros(2**L, dtype=torch.int64), torch.zeros(2**L, dtype=torch.int64))  # one input
    every = torch.tensor([[number >> label & 1 for label in range(L)] for number in range(2**L)]).bool()
    found = set_log_prob(DecodeInput(L, step, state, None), every, Limits(max_labels=L))
    assert float(found.exp().sum()) == pytest.approx(1, abs=1e-4)


def test_sets_of_many_labels_get_a_lower_bound() -> None:
    num_labels = 7
    step, state = prefix_model(1, num_labels, seed=1)
    chosen = torch.ones(1, num_labels, dtype=torch.bool)
    found = float(set_log_prob(DecodeInput(num_labels, step, state, None), chosen, Limits()))
    one = torch.tensor([0])
    orders = [
        path_log_prob(step, state.select(one, one), order, num_labels, True)
        for order in permutations(range(num_labels))
    ]
    exact = float(torch.tensor(orders).logsumexp(0))
    assert max(orders) < found < exact


def test_joint_decoding_raises_the_odds_to_a_power(given: DecodeInput) -> None:
    for power in (0.0, 0.5, 2.0):
        found = searches["joint"](given, replace(WIDE, br_power=power))
        scaled = replace(given, br_logits=power * given.br_logits)
        expected = searches["joint"](scaled, WIDE)
        assert torch.equal(found.sequences, expected.sequences)
        torch.testing.assert_close(found.scores, expected.scores)
    path = searches["beam"](given, WIDE)
    assert torch.equal(searches["joint"](given, replace(WIDE, br_power=0.0)).sequences[:, 0], path.sequences[:, 0])
