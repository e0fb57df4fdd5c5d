"""Searches over a distribution of sets, against every set of a small problem."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from torch import Tensor

from orderfree.decoding.beam import Limits
from orderfree.decoding.exhaustive import all_sequences, path_log_prob
from orderfree.decoding.search import membership, searches, set_distribution
from orderfree.types import DecodeInput, DecoderState

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
    sets, probs = set_distribution(given, WIDE, given.br_logits if with_odds else None)
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


def f1(one: frozenset[int], other: frozenset[int]) -> float:
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 1.0


@pytest.mark.parametrize("fewest", [0, 2])
def test_no_set_has_a_higher_expected_f1(given: DecodeInput, fewest: int) -> None:
    limits = Limits(width=200, min_labels=fewest, max_labels=L)
    found = searches["expected_f1"](given, limits)
    chosen = membership(found.sequences[:, 0], L)
    own_sets, own_probs = set_distribution(given, limits)
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
