"""Label marginals: exact for a wide beam, and sensible for a narrow one."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch

from orderfree.decoding.beam import Limits
from orderfree.decoding.sets import step_marginals
from orderfree.testing.contracts import decode_input
from orderfree.types import DecoderState

LABELS = 4


def by_hand(given, place: int, min_labels: int) -> torch.Tensor:
    """The slow twin: every sequence of one input, its probability, and the labels it holds."""
    totals = torch.zeros(LABELS)
    for size in range(LABELS + 1):
        for sequence in itertools.permutations(range(LABELS), size):
            row = torch.tensor([place])
            state, previous, log_prob, taken = given.state.select(row, row), LABELS, 0.0, []
            for t, label in enumerate((*sequence, LABELS)):
                logits, state = given.step(torch.tensor([previous]), state)
                forbidden = [*taken, *([LABELS] if t < min_labels else [])]
                if t == LABELS:  # all labels are said: <eos> is certain
                    break
                logits[0, forbidden] = float("-inf")
                log_prob += float(logits[0].log_softmax(0)[label])
                taken, previous = [*taken, label], label
            totals[list(sequence)] += torch.tensor(log_prob).exp()
    return totals


@pytest.mark.parametrize("min_labels", [0, 2])
def test_a_wide_beam_is_exact(min_labels: int) -> None:
    given = decode_input(inputs=3, num_labels=LABELS, seed=2)
    found = step_marginals(given, Limits(width=200, min_labels=min_labels, max_labels=25))
    for place in range(3):
        assert torch.allclose(found[place], by_hand(given, place, min_labels), atol=1e-5)


def test_a_narrow_beam_gives_probabilities_to_all_labels() -> None:
    given = decode_input(inputs=5, num_labels=LABELS, seed=4)
    narrow = step_marginals(given, Limits(width=2, max_labels=25))
    exact = step_marginals(given, Limits(width=200, max_labels=25))
    assert (narrow > 0).all()
    assert (narrow <= 1).all()
    assert (narrow - exact).abs().mean() < 0.1


def test_at_most_so_many_labels() -> None:
    given = decode_input(inputs=4, num_labels=LABELS, seed=5)
    first, _ = given.step(torch.full((4,), LABELS), given.state)
    found = step_marginals(given, Limits(width=6, max_labels=1))
    assert torch.allclose(found, first.softmax(dim=1)[:, :LABELS].float(), atol=1e-6)


def test_a_row_does_not_depend_on_its_batch() -> None:
    given = decode_input(inputs=4, num_labels=LABELS, seed=6)
    together = step_marginals(given, Limits(width=3, max_labels=25))
    row = torch.tensor([2])
    alone = step_marginals(dataclasses.replace(given, state=given.state.select(row, row)), Limits(width=3))
    assert torch.allclose(together[2], alone[0], atol=1e-5)


def test_inputs_that_have_ended_are_left_alone() -> None:
    """Three of six inputs end after none, one and two labels at the latest; the others are what they are alone."""
    given = decode_input(inputs=6, num_labels=LABELS, seed=7)
    ends_after = {0: 0, 3: 1, 5: 2}
    fed = []

    def step(previous: torch.Tensor, state: DecoderState) -> tuple[torch.Tensor, DecoderState]:
        """`extra` says which input a row is of, and how far it has come."""
        place, said = state.extra
        fed.append(set(place.tolist()))
        logits, after = given.step(previous, dataclasses.replace(state, extra=given.state.extra))
        for number, labels in ends_after.items():
            logits[(place == number) & (said >= labels), LABELS] = 100.0
        return logits, dataclasses.replace(after, extra=(place, said + 1))

    limits = Limits(width=3, max_labels=25)
    extra = (torch.arange(6), torch.zeros(6, dtype=torch.long))
    state = dataclasses.replace(given.state, extra=extra)
    together = step_marginals(dataclasses.replace(given, step=step, state=state), limits)
    assert fed == [set(range(6)), {1, 2, 3, 4, 5}, {1, 2, 4, 5}, {1, 2, 4}]
    assert torch.allclose(together[0], torch.zeros(LABELS), atol=1e-6)
    assert (together[[3, 5]].sum(dim=1) <= torch.tensor([1.0, 2.0])).all(), "the expected size of a set"
    for place in range(6):
        row = torch.tensor([place])
        one = dataclasses.replace(given, step=step, state=state.select(row, row))
        assert torch.allclose(together[place], step_marginals(one, limits)[0], atol=1e-5)
