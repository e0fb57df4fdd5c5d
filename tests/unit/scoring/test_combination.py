"""Margins and votes as one score: against scikit-learn, and where there is nothing to learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from orderfree.scoring import combination as module
from orderfree.scoring.combination import Combination

ROWS, LABELS = 3000, 3


def example(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Margins, votes and labels; of the second label the votes say nothing."""
    draw = torch.Generator().manual_seed(seed)
    margins, votes = (torch.randn(ROWS, LABELS, generator=draw) for _ in range(2))
    logits = 2 * margins + torch.tensor([1.5, 0.0, 0.5]) * votes + torch.tensor([-1.0, 0.5, 0.0])
    return margins, votes, torch.rand(ROWS, LABELS, generator=draw) < logits.sigmoid()


def test_as_logistic_regression_where_labels_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAWN", (1e-9, 1e-9, 1e-9))
    margins, votes, targets = example()
    combination = Combination(LABELS)
    combination.fit(margins, votes, targets)
    for label in range(LABELS):
        columns = np.stack([margins[:, label], votes[:, label]], axis=1)
        twin = LogisticRegression(C=1e9, tol=1e-8).fit(columns, targets[:, label])
        (a, b), c = twin.coef_[0], twin.intercept_[0]
        ours = [float(part[label]) for part in (combination.margin, combination.vote, combination.offset)]
        assert np.array(ours) / ours[0] == pytest.approx(np.array([a, max(b, 0.0), c]) / a, abs=1e-3)


def test_scores_are_as_long_as_margins() -> None:
    margins, votes, targets = example()
    combination = Combination(LABELS)
    combination.fit(margins, votes, targets)
    assert combination.margin.mean() == pytest.approx(1.0, abs=0.25)


def test_a_rare_label_is_drawn_towards_all_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four examples: at least a third of the way from its own regression to the one that all labels share, while
    labels with a thousand examples stay where they are."""
    margins, votes, targets = example()
    few = targets.clone()
    few[:, 1] = False
    few[targets[:, 1].nonzero()[:4, 0], 1] = True
    fitted = {}
    for name, drawn in (("own", (1e-9,) * 3), ("drawn", module.DRAWN), ("shared", (1e9,) * 3)):
        monkeypatch.setattr(module, "DRAWN", drawn)
        combination = Combination(LABELS)
        combination.fit(margins, votes, few)
        fitted[name] = torch.stack([combination.margin, combination.vote])  # (2, L)
    way = (fitted["drawn"] - fitted["own"]) / (fitted["shared"] - fitted["own"])  # (2, L)
    assert (way[:, 1] > 1 / 3).all()
    assert (way[:, [0, 2]].abs() < 0.15).all()


def test_what_does_not_count_is_not_there() -> None:
    margins, votes, targets = example()
    wrong = torch.cat([targets, ~targets[:500]])
    weights = torch.cat([torch.ones(ROWS, 1), torch.zeros(500, 1)])
    with_wrong, without = Combination(LABELS), Combination(LABELS)
    without.fit(margins, votes, targets)
    with_wrong.fit(torch.cat([margins, margins[:500]]), torch.cat([votes, votes[:500]]), wrong, weights)
    # only the spread that margins are measured by has changed
    for name, values in without.state_dict().items():
        assert torch.allclose(with_wrong.state_dict()[name], values, atol=1e-2), name


def test_margins_upside_down_change_nothing() -> None:
    margins, votes, targets = example()
    combination = Combination(LABELS)
    combination.fit(-margins, votes, targets)
    assert torch.equal(combination(margins, votes), margins)


def test_labels_nobody_has_stay_finite() -> None:
    margins, votes, _ = example()
    combination = Combination(LABELS)
    combination.fit(margins, votes, torch.zeros(ROWS, LABELS, dtype=torch.bool))
    assert torch.isfinite(combination(margins, votes)).all()


def test_votes_that_say_the_contrary_leave_the_right_share() -> None:
    """They are not listened to, and the label is still given as often as it is there."""
    draw = torch.Generator().manual_seed(3)
    margins, votes = torch.randn(ROWS, LABELS, generator=draw), torch.randn(ROWS, LABELS, generator=draw) - 4
    against = torch.tensor([1.0, 1.0, -0.8])
    targets = torch.rand(ROWS, LABELS, generator=draw) < (3 * margins + against * (votes + 4) - 1).sigmoid()
    combination = Combination(LABELS)
    combination.fit(margins, votes, targets)
    assert combination.vote[2] == 0
    at_zero = (combination(margins, votes) > 0).double().mean(dim=0)
    assert at_zero[2] == pytest.approx(float(targets[:, 2].double().mean()), abs=0.05)


def test_of_very_many_decisions_some_are_fitted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    margins, votes, targets = example()
    some, every = Combination(LABELS), Combination(LABELS)
    every.fit(margins, votes, targets)
    monkeypatch.setattr(module, "DECISIONS", ROWS * LABELS // 2)
    some.fit(margins, votes, targets)
    for name, values in every.state_dict().items():
        assert torch.allclose(some.state_dict()[name], values, atol=0.25), name
        assert not torch.equal(some.state_dict()[name], values), name
