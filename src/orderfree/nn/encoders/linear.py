"""One linear classifier a label on the tf-idf bag, solved by liblinear: what a user would try first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn
from torch.nn import functional as F

from ...config import BagOptions
from ...types import BagInput, EncoderOutput
from . import encoders


class LinearOptions(BagOptions):
    """One linear classifier a label on the tf-idf bag, solved before training; its scores are the only state."""

    loss: Literal["squared_hinge", "logistic"] = Field("squared_hinge", description="a linear SVM, or logistic")
    c: Annotated[float, Field(gt=0)] = Field(1.0, description="liblinear's C: larger fits the training part closer")
    folds: Annotated[int, Field(ge=2)] = Field(
        5, description="the decoders are trained on scores of classifiers that have not seen the example, from folds"
    )


@encoders.register("linear")
class LinearEncoder(nn.Module):
    """scores = W x + b. Decoders must not be trained on scores of examples W was solved with, which are too good to be
    true: `solve` also returns out-of-fold scores, and a batch of training examples brings its own."""

    Options = LinearOptions
    input_kind: ClassVar[str] = "bag"

    def __init__(self, options: LinearOptions, input_size: int, dropout: float, num_labels: int) -> None:
        super().__init__()
        self.options = options
        self.output_size = num_labels
        terms = torch.zeros(input_size, num_labels)  # (V, L): a row is gathered for each term
        self.terms = nn.Parameter(terms, requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(num_labels), requires_grad=False)

    def forward(self, inputs: BagInput) -> EncoderOutput:
        scores = inputs.scores  # (B, L)
        if scores is None:
            bag = F.embedding_bag(
                inputs.indices, self.terms, inputs.offsets, mode="sum", per_sample_weights=inputs.weights
            )
            scores = bag + self.bias
        mask = torch.ones(len(scores), 1, dtype=torch.bool, device=scores.device)  # (B, 1)
        return EncoderOutput(scores[:, None], mask, scores[None], scores)

    def solve(self, features: Any, targets: np.ndarray, seed: int, out_of_fold: bool = True) -> np.ndarray | None:
        """Sets W and b from all examples: features (N, V) sparse, targets (N, L) bool.

        -> (N, L) scores of each example from classifiers solved on the other folds."""
        weights, bias = one_vs_rest(features, targets, self.options)
        self.terms.copy_(torch.from_numpy(weights.T))
        self.bias.copy_(torch.from_numpy(bias))
        if not out_of_fold:
            return None
        folds = min(self.options.folds, len(targets))
        fold_of = np.random.default_rng(seed).permutation(len(targets)) % folds  # (N,)
        scores = np.zeros(targets.shape, dtype=np.float32)
        for fold in range(folds):
            held_out = fold_of == fold
            weights, bias = one_vs_rest(features[~held_out], targets[~held_out], self.options)
            scores[held_out] = features[held_out] @ weights.T + bias
        return scores


def one_vs_rest(features: Any, targets: np.ndarray, options: LinearOptions) -> tuple[np.ndarray, np.ndarray]:
    """Weights (L, V) and biases (L,), both float32; a label that all or no examples have gets a constant score."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    features = features.astype(np.float64)  # once for all labels: liblinear knows no other type
    weights = np.zeros((targets.shape[1], features.shape[1]), dtype=np.float32)
    bias = np.where(targets.all(axis=0), 1.0, -1.0).astype(np.float32)

    def solve(label: int) -> None:
        solver = (
            LinearSVC(C=options.c, random_state=0)
            if options.loss == "squared_hinge"
            else LogisticRegression(C=options.c, solver="liblinear", random_state=0)
        ).fit(features, targets[:, label])
        weights[label], bias[label] = solver.coef_[0], solver.intercept_[0]

    undecided = np.flatnonzero(targets.any(axis=0) & ~targets.all(axis=0))
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # liblinear lets go of the interpreter while it works
        list(pool.map(solve, undecided.tolist()))
    return weights, bias
