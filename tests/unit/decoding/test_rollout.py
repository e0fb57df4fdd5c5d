"""Rollout policies: who is chosen, where a row ends, and that rows leaving the batch change nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from orderfree.decoding.rollout import Choice, Policy, RolloutTask, policies, roll_out
from orderfree.testing.contracts import prefix_model
from orderfree.types import DecoderState, Rollout

# The most probable label that is not taken: what `sample` would do without chance.
argmax = Policy(lambda c: c.logits.masked_fill(c.taken, float("-inf")).argmax(dim=-1))


def random_targets(rows: int, num_labels: int, seed: int = 0) -> Tensor:
    return torch.rand(rows, num_labels, generator=torch.Generator().manual_seed(seed)) < 0.4


def rolled(policy: Policy, targets: Tensor, limits: Tensor | int, seed: int = 1, rank: Tensor | None = None) -> Rollout:
    rows, num_labels = targets.shape
    step, state = prefix_model(rows, num_labels, seed)
    limits = torch.full((rows,), limits) if isinstance(limits, int) else limits
    torch.manual_seed(seed)
    task = RolloutTask(targets, torch.arange(num_labels + 1) if rank is None else rank, limits)
    return roll_out(policy, step, state, task)


def well_formed(rollout: Rollout, num_labels: int, limits: Tensor) -> None:
    for sequence, active, limit in zip(
        rollout.sequence.tolist(), rollout.active.tolist(), limits.tolist(), strict=True
    ):
        length = sum(active)
        assert active == [True] * length + [False] * (len(active) - length)
        assert all(label == num_labels for label in sequence[length:])
        labels = [label for label in sequence[:length] if label != num_labels]
        assert len(set(labels)) == len(labels)
        if sequence[length - 1] == num_labels:
            assert labels == sequence[: length - 1]
        else:
            assert length == limit
        assert length <= limit


@pytest.mark.parametrize("policy", policies.names())
@pytest.mark.parametrize("limit", [1, 2, 4, 9])
def test_no_label_twice_and_every_row_ends_at_eos_or_its_limit(policy: str, limit: int) -> None:
    targets = random_targets(40, 6)
    limits = torch.full((40,), limit)
    rollout = rolled(policies[policy], targets, limit)
    well_formed(rollout, 6, limits)
    assert rollout.active.any(dim=0).all(), "no step is longer than the longest row needs"


def test_limits_of_each_row() -> None:
    limits = torch.arange(40) % 5 + 1
    rollout = rolled(policies["sample"], random_targets(40, 6), limits)
    well_formed(rollout, 6, limits)
    assert (rollout.active.sum(dim=1) == limits).sum() > 5, "some rows are cut off by their own limit"


def test_the_teacher_follows_rank_and_does_not_ask_the_model() -> None:
    def step(previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        raise AssertionError("a teacher does not ask the model")

    targets = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]]).bool()
    rank = torch.tensor([2, 0, 3, 1, 4])  # the order is 1, 3, 0, 2, <eos>
    _, state = prefix_model(3, 4, 0)
    rollout = roll_out(policies["teacher"], step, state, RolloutTask(targets, rank, torch.full((3,), 9)))
    assert rollout.sequence.tolist() == [[1, 3, 0, 4], [4, 4, 4, 4], [2, 4, 4, 4]]
    assert rollout.active.sum(dim=1).tolist() == [4, 1, 2]


def test_inputs_are_the_sequence_behind_the_start_symbol() -> None:
    rollout = Rollout(torch.tensor([[1, 3, 0, 4]]), torch.ones(1, 4, dtype=torch.bool))
    assert rollout.inputs(4).tolist() == [[4, 1, 3, 0]]


def test_sample_missing_takes_exactly_the_targets_and_then_eos() -> None:
    targets = random_targets(60, 5, seed=3)
    rollout = rolled(policies["sample_missing"], targets, 9)
    orders = set()
    for sequence, active, wanted in zip(rollout.sequence, rollout.active, targets, strict=True):
        *labels, last = sequence[active].tolist()
        assert last == 5
        assert sorted(labels) == wanted.nonzero()[:, 0].tolist()
        orders.add(tuple(labels) == tuple(sorted(labels)))
    assert orders == {True, False}, "the order is sampled, not fixed"


def test_rows_that_leave_the_batch_change_nothing() -> None:
    """The same choices row by row, where nothing can ever leave, and in one batch, where rows leave at many steps."""
    rows, num_labels = 33, 6
    step, state = prefix_model(rows, num_labels, seed=11)
    sizes: list[int] = []

    def counting(previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        sizes.append(len(previous))
        return step(previous, state)

    targets, rank = random_targets(rows, num_labels), torch.arange(num_labels + 1)
    limits = torch.arange(rows) % 7 + 1
    together = roll_out(argmax, counting, state, RolloutTask(targets, rank, limits))
    assert sizes[-1] < sizes[0], "nothing left the batch: this test shows nothing"
    for row in range(rows):
        place = torch.tensor([row])
        task = RolloutTask(targets[place], rank, limits[place])
        alone = roll_out(argmax, step, state.select(place, place), task)
        length = alone.sequence.shape[1]
        assert together.sequence[row, :length].tolist() == alone.sequence[0].tolist()
        assert together.active[row, :length].tolist() == alone.active[0].tolist()
        assert not together.active[row, length:].any()


def test_missing_and_taken_are_shown_to_the_policy() -> None:
    seen: list[Choice] = []

    def watch(choice: Choice) -> Tensor:
        seen.append(Choice(choice.logits, choice.taken.clone(), choice.missing.clone(), choice.rank))
        return torch.tensor([[1], [0], [2], [3]][len(seen) - 1])

    rolled(Policy(watch), torch.tensor([[True, False, True]]), 9)
    assert [c.taken[0].tolist() for c in seen] == [
        [False, False, False, False],
        [False, True, False, False],
        [True, True, False, False],
        [True, True, True, False],
    ]
    assert [c.missing[0].tolist() for c in seen] == [
        [True, False, True, False],
        [True, False, True, False],
        [False, False, True, False],
        [False, False, False, True],
    ]


@pytest.mark.parametrize("masked", [(), (1,), (0, 3)])
def test_gumbel_sampling_has_the_frequencies_of_the_softmax(masked: tuple[int, ...]) -> None:
    """One step for N rows with the same logits. With this N a wrong distribution stands far outside five standard
    deviations, and the seed is fixed."""
    n = 200_000
    logits = torch.tensor([0.3, -1.2, 1.5, 0.0, -0.4])
    taken = torch.zeros(n, 5, dtype=torch.bool)
    taken[:, list(masked)] = True
    torch.manual_seed(0)
    choice = Choice(logits.expand(n, -1), taken, ~taken, torch.arange(5))
    expected = logits.masked_fill(taken[0], float("-inf")).softmax(dim=-1)
    for policy in ("sample", "sample_missing"):
        counts = torch.bincount(policies[policy].choose(choice), minlength=5).float()
        deviation = (n * expected * (1 - expected)).sqrt()
        assert ((counts - n * expected).abs() <= 5 * deviation + 1e-6).all()
        free = expected > 0
        chi_square = ((counts - n * expected)[free].square() / (n * expected)[free]).sum()
        assert chi_square < 25


def test_the_same_seed_samples_the_same() -> None:
    targets = random_targets(20, 6)
    first, again, other = (rolled(policies["sample"], targets, 9, seed) for seed in (1, 1, 2))
    assert torch.equal(first.sequence, again.sequence)
    assert not (first.sequence.shape == other.sequence.shape and torch.equal(first.sequence, other.sequence))
