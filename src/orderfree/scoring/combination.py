"""Margins of linear classifiers and votes of neighbours, as one score."""

from __future__ import annotations

import torch
from torch import Tensor, nn

NEWTON_STEPS, CLOSE = 30, 1e-4
DECISIONS = 8_000_000  # of examples on labels that are fitted to: of more, examples at even distances
DRAWN = (10.0, 10.0, 1.0)  # how strongly a label's a, b and c are drawn towards those of all labels


class Combination(nn.Module):
    """score = a margin + b vote + c for each label: a logistic regression on two numbers. It is as long as a margin, so
    that whatever reads scores cannot tell it from one."""

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.margin = nn.Parameter(torch.ones(num_labels), requires_grad=False)
        self.vote = nn.Parameter(torch.zeros(num_labels), requires_grad=False)
        self.offset = nn.Parameter(torch.zeros(num_labels), requires_grad=False)

    def forward(self, margins: Tensor, votes: Tensor) -> Tensor:
        return self.margin * margins + self.vote * votes + self.offset  # (B, L)

    def fit(self, margins: Tensor, votes: Tensor, targets: Tensor, weights: Tensor | None = None) -> None:
        """Margins (N, L) of classifiers that have not seen the example, votes (N, L) without its own, targets (N, L)
        bool; weights (N, 1) or (N, L): how much each decision counts.

        Newton's method, first with one a, b, c for all labels, then with each label's own, drawn towards these: a rare
        label has too few examples to say more. Where higher margins do not make labels likelier, all stays as it is."""
        fitted = min(len(margins), max(DECISIONS // margins.shape[1], 1))
        rows = torch.arange(fitted) * len(margins) // fitted  # (n,)
        margins, votes, targets = margins[rows], votes[rows], targets[rows]
        weights = None if weights is None else weights[rows]
        spread = margins.double().std(correction=0).clamp(min=1e-9)
        columns = margins.double() / spread, votes.double(), torch.ones_like(margins, dtype=torch.float64)
        inputs = torch.stack(columns)  # (3, N, L)
        counted = torch.ones_like(inputs[0]) if weights is None else weights.double().expand_as(inputs[0])
        shared = torch.zeros(3, 1, dtype=torch.float64)
        for _ in range(NEWTON_STEPS):
            gradient, curvature = _derivatives(inputs, targets, counted, shared.expand(3, inputs.shape[2]))
            step = torch.linalg.solve(curvature.sum(dim=0) + 1e-6 * torch.eye(3), gradient.sum(dim=1))  # (3,)
            shared = shared - step[:, None].clamp(-1.0, 1.0)
            if step.abs().max() < CLOSE:
                break
        if not shared[0] > 0:
            return
        by_label, drawn = shared.expand(3, inputs.shape[2]).clone(), torch.tensor(DRAWN, dtype=torch.float64)[:, None]
        for _ in range(NEWTON_STEPS):
            gradient, curvature = _derivatives(inputs, targets, counted, by_label)
            gradient = gradient + drawn * (by_label - shared)  # (3, L)
            step = torch.linalg.solve(curvature + torch.diag(drawn[:, 0]), gradient.T)  # (L, 3)
            by_label = by_label - step.T.clamp(-1.0, 1.0)
            if step.abs().max() < CLOSE:
                break
        by_label[:2].clamp_(min=0.0)  # a label is not less likely because its score or its neighbours say so
        for _ in range(NEWTON_STEPS):  # where they would have said so, the offset has to be found anew
            gradient, curvature = _derivatives(inputs, targets, counted, by_label)
            step = (gradient[2] + drawn[2] * (by_label[2] - shared[2])) / (curvature[:, 2, 2] + drawn[2])  # (L,)
            by_label[2] -= step.clamp(-1.0, 1.0)
            if step.abs().max() < CLOSE:
                break
        length = shared[0] / spread
        self.margin.copy_(by_label[0] / shared[0])
        self.vote.copy_(by_label[1] / length)
        self.offset.copy_(by_label[2] / length)


def _derivatives(inputs: Tensor, targets: Tensor, counted: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient (3, L) and curvature (L, 3, 3) of the logistic loss of each label at weights (3, L)."""
    probs = torch.einsum("inl,il->nl", inputs, weights).sigmoid()  # (N, L)
    gradient = torch.einsum("inl,nl->il", inputs, counted * (probs - targets.double()))
    curvature = torch.einsum("inl,jnl->lij", inputs * (counted * probs * (1 - probs)), inputs)
    return gradient, curvature
