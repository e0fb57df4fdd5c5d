"""One linear classifier per label on the tf-idf bag, solved by liblinear: a strong baseline."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import scipy.sparse
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from ...config import BagOptions
from ...scoring.combination import Combination
from ...types import BagInput, EncoderOutput
from . import encoders


class LinearOptions(BagOptions):
    """One linear classifier per label on the tf-idf bag, solved before training; its scores are the only state."""

    loss: Literal["squared_hinge", "logistic"] = Field("squared_hinge", description="a linear SVM, or logistic")
    c: Annotated[float, Field(gt=0)] | None = Field(
        None, description="liblinear's C: larger fits the training part closer; null: the best on a held-out fold"
    )
    rare: Annotated[int, Field(ge=0)] = Field(
        0, description="examples of a label that has fewer than this weigh more, by the square root; 0: all the same"
    )
    neighbours: Annotated[int, Field(ge=0, le=1000)] = Field(
        0,
        description="so many training examples most like a new one have votes on its labels; the model directory then "
        "holds the terms of up to 50,000 training examples. 0: none",
    )
    folds: Annotated[int, Field(ge=2)] = Field(
        5, description="the decoders are trained on scores of classifiers that have not seen the example, from folds"
    )
    shortlist: Annotated[int, Field(ge=2, le=10_000)] = Field(
        100,
        description="with more than ten times as many labels, an example is scored on its so many most promising "
        "labels only; labels outside its shortlist count as missed",
    )
    refit: bool = Field(
        False, description="solve once more, on the validation part as well, when all choices have been made on it"
    )


FEW = 10  # up to so many times the labels of a shortlist, all labels are scored densely
SUMMARY = 128  # size of the state of a shortlist


@encoders.register("linear")
class LinearEncoder(nn.Module):
    """scores = W x + b; with `neighbours`, combined with the votes of similar examples. Decoders must not be trained on
    scores of the examples W was solved with, which are too optimistic: `solve` also returns out-of-fold scores, and a
    batch of training examples contains them.

    With many labels (`shortlist`), the featurizer's scorer proposes candidates and scores them; the encoder sums the
    embeddings of the candidates, weighted by their probabilities."""

    Options = LinearOptions
    input_kind: ClassVar[str] = "bag"
    scores_labels: ClassVar[bool] = True

    def __init__(self, options: LinearOptions, input_size: int, dropout: float, num_labels: int) -> None:
        super().__init__()
        self.options = options
        self.c = options.c  # None until it is solved
        self.shortlisted = num_labels > FEW * options.shortlist
        self.output_size = SUMMARY if self.shortlisted else num_labels
        self.candidates: nn.EmbeddingBag | None = None
        self.combination: Combination | None = None
        if self.shortlisted:
            self.candidates = nn.EmbeddingBag(num_labels, SUMMARY, mode="sum")
            return
        terms = torch.zeros(input_size, num_labels)  # (V, L): one row per term
        self.terms = nn.Parameter(terms, requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(num_labels), requires_grad=False)
        self.combination = Combination(num_labels) if options.neighbours else None

    def forward(self, inputs: BagInput) -> EncoderOutput:
        scores = inputs.scores  # (B, L), or (B, C) of a shortlist
        if self.candidates is not None:
            assert scores is not None, "the featurizer of a shortlisted model scores the candidates"
            assert inputs.labels is not None, "and says which labels they are"
            summary = self.candidates(inputs.labels, per_sample_weights=scores.sigmoid())  # (B, SUMMARY)
            mask = torch.ones(len(scores), 1, dtype=torch.bool, device=scores.device)  # (B, 1)
            known = inputs.labels, inputs.sets, inputs.set_log_probs
            return EncoderOutput(summary[:, None], mask, summary[None], scores, *known)
        if scores is None:
            bag = F.embedding_bag(
                inputs.indices, self.terms, inputs.offsets, mode="sum", per_sample_weights=inputs.weights
            )
            scores = bag + self.bias
            if self.combination is not None and inputs.votes is not None:
                scores = self.combination(scores, inputs.votes)
        mask = torch.ones(scores.shape[0], 1, dtype=torch.bool, device=scores.device)  # (B, 1)
        return EncoderOutput(scores[:, None], mask, scores[None], scores)

    def contributions(self, inputs: BagInput) -> Tensor:
        """(N, L): the contribution of every term of a bag to the score of every label; the score is their sum plus bias
        and votes."""
        added = inputs.weights[:, None] * self.terms[inputs.indices]
        return added if self.combination is None else self.combination.margin * added

    def solve(
        self,
        features: Any,
        targets: np.ndarray,
        seed: int,
        out_of_fold: bool = True,
        weights: np.ndarray | None = None,
        optional: np.ndarray | None = None,
    ) -> np.ndarray | None:
        """Sets W and b from all examples: features (N, V) sparse, targets (N, L) bool; weights (N, L) or (N, 1): the
        weight of each decision, 0 if it is not known; optional (V,) bool: features that are left out (their weights
        are 0) if C is searched for and the held-out fold is clearly better without them.

        -> (N, L) scores of each example from classifiers solved on the other folds."""
        features = features.astype(np.float64)  # converted once: liblinear supports no other type
        folds = min(self.options.folds, len(targets))
        fold_of = np.random.default_rng(seed).permutation(len(targets)) % folds  # (N,)
        loss, rare, scored = self.options.loss, self.options.rare, {}

        def held_out_scores(fold: int, c: float) -> np.ndarray:
            held_out = fold_of == fold
            kept_weights = None if weights is None else weights[~held_out]
            terms, bias = one_vs_rest(features[~held_out], targets[~held_out], loss, c, kept_weights, rare)
            margins: np.ndarray = features[held_out] @ terms.T + bias
            return margins

        if self.c is None:
            # the scores of the best C are those of the first fold and are not computed again
            first = fold_of == 0
            known = None if weights is None else np.broadcast_to(weights > 0, targets.shape)[first]

            def value(scores: np.ndarray) -> float:
                return best_cut(scores if known is None else np.where(known, scores, -np.inf), targets[first])

            self.c, scored[0] = best_c(partial(held_out_scores, 0), value)
            if optional is not None and optional.any():
                all_features, features = features, without(features, optional)
                if value(held_out_scores(0, self.c)) > value(scored[0]) + CLEARLY:
                    self.c, scored[0] = best_c(partial(held_out_scores, 0), value)
                else:
                    features = all_features
        terms, bias = one_vs_rest(features, targets, loss, self.c, weights, rare)
        self.terms.copy_(torch.from_numpy(terms.T))
        self.bias.copy_(torch.from_numpy(bias))
        if not out_of_fold:
            return None
        scores = np.zeros(targets.shape, dtype=np.float32)
        for fold in range(folds):
            scores[fold_of == fold] = scored[fold] if fold in scored else held_out_scores(fold, self.c)
        return scores


CLEARLY = 0.001  # micro-F1; smaller differences depend on the fold


def without(features: Any, columns: np.ndarray) -> Any:
    """(N, V) sparse, of the same width, with these columns (V,) set to zero."""
    rest = (features @ scipy.sparse.diags_array(np.where(columns, 0.0, 1.0))).tocsr()
    rest.eliminate_zeros()
    return rest


COARSE, FINE, SMALLEST, LARGEST = 4.0, 2.0, 1 / 64, 4.0  # larger values of C take long and gain nothing


def best_c(
    scores_at: Callable[[float], np.ndarray], value_of: Callable[[np.ndarray], float]
) -> tuple[float, np.ndarray]:
    """The C whose scores (N, L) have the highest value, and these scores: hill climbing from 1 by factors of four, then
    one step by two in both directions. Good values were between 1/8 (abstracts, noisy tags) and 1 (news)."""
    values: dict[float, float] = {}
    kept: tuple[float, np.ndarray] | None = None

    def value(c: float) -> float:
        nonlocal kept
        if c not in values:
            scores = scores_at(c)
            values[c] = value_of(scores)
            if kept is None or values[c] > values[kept[0]]:
                kept = c, scores
        return values[c]

    best = 1.0
    step = 1 / COARSE if value(1 / COARSE) > value(1.0) else COARSE  # small values first: they are solved faster
    while SMALLEST <= best * step <= LARGEST and value(best * step) > value(best):
        best *= step
    max((best / FINE, best * FINE), key=value)
    assert kept is not None
    return kept


def best_cut(scores: np.ndarray, targets: np.ndarray) -> float:
    """The highest micro-F1 that one threshold on these scores reaches."""
    order = np.argsort(-scores, axis=None)
    hits = np.cumsum(targets.ravel()[order])
    predicted = np.arange(1, len(order) + 1)
    return float((2 * hits / (predicted + max(int(targets.sum()), 1))).max())


HEAVIEST = 4.0  # largest weight of an example


def example_weights(counts: np.ndarray, rare: int) -> np.ndarray:
    """(L,) the weight of a positive example of each label relative to a negative one, larger for rare labels: 2 with a
    quarter of `rare` positives, 4 with a sixteenth or fewer."""
    return np.sqrt(rare / np.maximum(counts, 1)).clip(1.0, HEAVIEST)


# liblinear's dual solver takes about half the time of the primal one (docs/explain/experiments.md) and ends close to
# the same optimum, but it uses one global random generator: two solvers at once would not be reproducible.
ALONE = 2  # threads: up to here one dual solver is about as fast as parallel primal ones, for half the work
ONE_GENERATOR = Lock()


def one_vs_rest(
    features: Any, targets: np.ndarray, loss: str, c: float, weights: np.ndarray | None = None, rare: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Terms (L, V) and biases (L,), both float32; a label that all or no examples have gets a constant score.

    weights (N, L) or (N, 1): the weight of each decision; decisions with weight 0 are ignored."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    terms = np.zeros((targets.shape[1], features.shape[1]), dtype=np.float32)
    counted = None if weights is None else np.broadcast_to(weights, targets.shape)  # (N, L)
    yes, no = (targets, ~targets) if counted is None else (targets & (counted > 0), ~targets & (counted > 0))
    bias = np.where(no.any(axis=0), -1.0, 1.0).astype(np.float32)
    heavy = example_weights(yes.sum(axis=0), rare)  # (L,)

    threads = torch.get_num_threads()
    dual = loss == "squared_hinge" and threads <= ALONE

    def solve(label: int) -> None:
        classes = {True: heavy[label], False: 1.0}
        solver = (
            LinearSVC(C=c, class_weight=classes, dual=dual, tol=0.01 if dual else 1e-4, random_state=0)
            if loss == "squared_hinge"
            else LogisticRegression(C=c, class_weight=classes, solver="liblinear")
        ).fit(features, targets[:, label], sample_weight=None if counted is None else counted[:, label])
        terms[label], bias[label] = solver.coef_[0], solver.intercept_[0]

    undecided = np.flatnonzero(yes.any(axis=0) & no.any(axis=0))
    with warnings.catch_warnings(), ONE_GENERATOR, ThreadPoolExecutor(1 if dual else threads) as pool:
        # a label that has not fully converged after a thousand iterations is accurate enough
        warnings.simplefilter("ignore", ConvergenceWarning)
        list(pool.map(solve, undecided.tolist()))  # liblinear releases the interpreter lock while it works
    return terms, bias
