"""Eq. 11 and 12 by hand."""

from __future__ import annotations

import math

import pytest
import torch

from orderfree.config import ObjectiveConfig
from orderfree.objectives.multitask import Criterion, binary_cross_entropy, multitask
from orderfree.objectives.ocd import OCD, OCDOptions
from orderfree.objectives.teacher_forcing import MLE, MLEOptions
from orderfree.types import LossWeights, ModelOutput, Rollout, ScoredRollout

TARGETS = torch.tensor([[True, False], [False, False]])
BR_LOGITS = torch.tensor([[math.log(3), 0.0], [0.0, -math.log(3)]])  # probabilities 3/4, 1/2 | 1/2, 1/4
# by hand: -log 3/4 - log 1/2 for the first row, -log 1/2 - log 3/4 for the second; mean over rows
BR_LOSS = -math.log(3 / 4) - math.log(1 / 2)

ROLLOUT = Rollout(
    torch.tensor([[0, 2, 2], [2, 2, 2]]),
    torch.tensor([[True, True, False], [True, False, False]]),
)
LOGITS = torch.zeros(2, 3, 3)  # a uniform model: the loss of a step with one optimal action is log 3
OBJECTIVE = OCD(OCDOptions(), torch.arange(3))


def criterion(br_weight: float, normalise: str) -> Criterion:
    return Criterion(OBJECTIVE, settings=ObjectiveConfig(br_weight=br_weight, normalise=normalise))


def test_binary_cross_entropy_is_summed_over_labels_and_averaged_over_examples() -> None:
    assert binary_cross_entropy(BR_LOGITS, TARGETS).item() == pytest.approx(BR_LOSS)


@pytest.mark.parametrize("br_weight", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("normalise", "sequence_loss"), [("sequence", 3 * math.log(3) / 2), ("step", math.log(3))])
def test_both_parts(br_weight: float, normalise: str, sequence_loss: float) -> None:
    """Three active steps of log 3: per sequence 3 log 3 / 2, per step log 3."""
    loss = multitask(criterion(br_weight, normalise), ModelOutput(BR_LOGITS, ScoredRollout(ROLLOUT, LOGITS)), TARGETS)
    assert loss.terms["sequence"].item() == pytest.approx(sequence_loss)
    assert loss.terms["br"].item() == pytest.approx(BR_LOSS)
    assert loss.total.item() == pytest.approx(sequence_loss + br_weight * BR_LOSS)


@pytest.mark.parametrize("normalise", ["sequence", "step"])
def test_inactive_steps_do_not_count(normalise: str) -> None:
    """Neither in the value nor in the gradient, and neither do more of them."""
    logits = LOGITS.clone()
    logits[0, 2] = torch.tensor([9.0, -9.0, 4.0])
    logits[1, 1:] = torch.tensor([-5.0, 7.0, 1.0])
    logits.requires_grad_()
    before = multitask(criterion(1.0, normalise), ModelOutput(None, ScoredRollout(ROLLOUT, LOGITS)), TARGETS).total
    after = multitask(criterion(1.0, normalise), ModelOutput(None, ScoredRollout(ROLLOUT, logits)), TARGETS).total
    assert after.item() == pytest.approx(before.item())
    after.backward()
    assert logits.grad is not None
    assert (logits.grad[~ROLLOUT.active] == 0).all()
    assert (logits.grad[ROLLOUT.active] != 0).any(dim=-1).all()


def test_a_model_without_a_label_decoder() -> None:
    loss = multitask(Criterion(None, settings=ObjectiveConfig(br_weight=2.0)), ModelOutput(BR_LOGITS), TARGETS)
    assert loss.total.item() == pytest.approx(2 * BR_LOSS)
    assert list(loss.terms) == ["br"]


def test_a_model_without_a_binary_relevance_decoder() -> None:
    loss = multitask(criterion(2.0, "sequence"), ModelOutput(None, ScoredRollout(ROLLOUT, LOGITS)), TARGETS)
    assert loss.total.item() == pytest.approx(3 * math.log(3) / 2)
    assert list(loss.terms) == ["sequence"]


def test_terms_are_for_logging_and_the_total_is_for_learning() -> None:
    br_logits = BR_LOGITS.clone().requires_grad_()
    loss = multitask(criterion(1.0, "sequence"), ModelOutput(br_logits, ScoredRollout(ROLLOUT, LOGITS)), TARGETS)
    assert loss.total.requires_grad
    assert not any(term.requires_grad for term in loss.terms.values())


def test_maximum_likelihood_by_hand() -> None:
    objective = MLE(MLEOptions(), torch.arange(3))
    logits = torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [1, 1, 1]]]).log()
    rollout = Rollout(torch.tensor([[0, 2, 2]]), torch.tensor([[True, True, False]]))
    losses = objective.step_losses(logits, rollout, TARGETS[:1])
    assert losses[0, :2].tolist() == pytest.approx([-math.log(0.5), -math.log(0.7)])


def test_rare_first_turns_the_order_of_labels_around_and_keeps_eos_last() -> None:
    assert MLE(MLEOptions(), torch.arange(5)).rank.tolist() == [0, 1, 2, 3, 4]
    assert MLE(MLEOptions(order="rare_first"), torch.arange(5)).rank.tolist() == [3, 2, 1, 0, 4]


def test_plainly_absent_labels_count_less():
    """By hand: with focus 2 an absent label of probability p loses p^2 of -log(1 - p), a present one all of -log p."""
    logits = torch.tensor([[0.0, math.log(3.0), -math.log(3.0)]])  # p = 1/2, 3/4, 1/4
    targets = torch.tensor([[True, False, False]])
    expected = -math.log(1 / 2) - (3 / 4) ** 2 * math.log(1 / 4) - (1 / 4) ** 2 * math.log(3 / 4)
    assert float(binary_cross_entropy(logits, targets, 2.0)) == pytest.approx(expected, rel=1e-6)
    plain = -math.log(1 / 2) - math.log(1 / 4) - math.log(3 / 4)
    assert float(binary_cross_entropy(logits, targets)) == pytest.approx(plain, rel=1e-6)


def test_an_example_of_weight_two_counts_as_two() -> None:
    """The sum over a batch in which it stands twice, divided by the examples of the batch it stands in once."""
    twice = torch.tensor([0, 0, 1])
    rollout = Rollout(ROLLOUT.sequence[twice], ROLLOUT.active[twice])
    both = criterion(1.0, "sequence")
    doubled = multitask(both, ModelOutput(BR_LOGITS[twice], ScoredRollout(rollout, LOGITS[twice])), TARGETS[twice])
    heavy = torch.tensor([2.0, 1.0])
    weights = LossWeights(heavy, heavy[:, None])
    output = ModelOutput(BR_LOGITS, ScoredRollout(ROLLOUT, LOGITS))
    weighted = multitask(both, output, TARGETS, weights)
    for name, term in weighted.terms.items():
        assert term.item() == pytest.approx(doubled.terms[name].item() * 3 / 2), name
    same = multitask(both, output, TARGETS, LossWeights(torch.ones(2), torch.ones(2, 1)))
    assert same.total.item() == pytest.approx(multitask(both, output, TARGETS).total.item())
