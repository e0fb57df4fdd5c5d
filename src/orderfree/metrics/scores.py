"""Scores of predicted label sets, as in the paper's appendix "Evaluation Metrics".

What an empty denominator means:

- A label that is neither true nor predicted anywhere has precision, recall and F1 0, and so has a label that is
  never predicted (precision) or never true (recall): scikit-learn's `zero_division=0`. Micro scores likewise.
- An example without labels that is predicted to have none is correct: its precision, recall and F1 are 1.
  If only one of the two sets is empty, all three are 0.

Labels never seen in training cannot be predicted. They stay in the evaluation and count as misses: without
them a corpus would look easier after training on less of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy import sparse

from ..errors import DataError
from .counts import Matrix, count

FIVE = ("macro_f1", "micro_f1", "example_f1", "subset_accuracy", "hamming_accuracy")  # the paper's, in its order


def scores(targets: Matrix, predictions: Matrix) -> dict[str, float]:
    """Every score of (N, L) predictions; the paper's five first, then their average, then further scores."""
    labels, examples = count(targets, predictions)
    everything = labels.pooled()
    five = {
        "macro_f1": labels.f1(),
        "micro_f1": everything.f1(),
        "example_f1": examples.f1(of_nothing=1),
        "subset_accuracy": examples.fp + examples.fn == 0,
        "hamming_accuracy": (everything.tp + everything.tn) / (targets.shape[0] * targets.shape[1]),
    }
    means = {name: float(np.mean(values)) for name, values in five.items()}
    macro_precision, macro_recall = float(np.mean(labels.precision())), float(np.mean(labels.recall()))
    return {
        **means,
        "average": sum(means.values()) / len(means),
        "macro_f1_of_means": _harmonic_mean(macro_precision, macro_recall),
        "micro_precision": float(everything.precision()[0]),
        "micro_recall": float(everything.recall()[0]),
        "macro_precision": macro_precision,
        "macro_recall": macro_recall,
        "example_precision": float(np.mean(examples.precision(of_nothing=1))),
        "example_recall": float(np.mean(examples.recall(of_nothing=1))),
        "predicted_labels_per_example": float(np.mean(examples.tp + examples.fp)),
        "true_labels_per_example": float(np.mean(examples.tp + examples.fn)),
    }


def _harmonic_mean(first: float, second: float) -> float:
    return 2 * first * second / (first + second) if first + second > 0 else 0.0


def per_label(targets: Matrix, predictions: Matrix, names: Sequence[str]) -> list[dict[str, str | int | float]]:
    """One row per label, in the order of `names`."""
    labels, _ = count(targets, predictions)
    columns = zip(
        names,
        (labels.tp + labels.fn).tolist(),
        (labels.tp + labels.fp).tolist(),
        labels.precision().tolist(),
        labels.recall().tolist(),
        labels.f1().tolist(),
        strict=True,
    )
    return [
        dict(zip(("label", "support", "predicted", "precision", "recall", "f1"), row, strict=True)) for row in columns
    ]


def to_matrix(label_sets: Sequence[Iterable[str]], names: Sequence[str]) -> sparse.csr_array:
    """Label sets as a sparse (N, L) bool matrix, columns in the order of `names`."""
    column_of = {name: column for column, name in enumerate(names)}
    columns: list[int] = []
    ends = [0]
    for label_set in label_sets:
        try:
            columns += sorted({column_of[label] for label in label_set})
        except KeyError as unknown:
            raise DataError(f"label {unknown} is not among the {len(column_of):,} labels to score.") from None
        ends.append(len(columns))
    shape = (len(label_sets), len(column_of))
    return sparse.csr_array((np.ones(len(columns), dtype=bool), columns, ends), shape=shape, dtype=bool)


def evaluation_labels(model_labels: Sequence[str], label_sets: Iterable[Iterable[str]]) -> tuple[list[str], list[str]]:
    """The labels to score on, the model's own first, and those among them that the model never saw in training."""
    known = set(model_labels)
    unseen = sorted({label for label_set in label_sets for label in label_set if label not in known})
    return [*model_labels, *unseen], unseen
