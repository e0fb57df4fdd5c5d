"""The metrics against scikit-learn, and fast paths against their slow twins, on random label matrices."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies
from scipy import sparse
from sklearn import metrics as reference

from orderfree.metrics.combinations import position_accuracy
from orderfree.metrics.scores import per_label, scores
from orderfree.metrics.thresholds import best_threshold

NAMES = "abcdef"
label_sets = st.sets(st.sampled_from(NAMES))


@st.composite
def matrix_pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Targets and predictions, some rows and columns emptied on purpose. Two labels at least: scikit-learn reads a
    single column as a binary problem."""
    shape = draw(st.tuples(st.integers(1, 8), st.integers(2, 6)))
    pair = draw(numpy_strategies.arrays(bool, (2, *shape)))
    pair &= draw(numpy_strategies.arrays(bool, (2, shape[0], 1)))
    pair &= draw(numpy_strategies.arrays(bool, (2, 1, shape[1])))
    return pair[0], pair[1]


def from_scikit_learn(targets: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    both_empty = np.mean(~targets.any(axis=1) & ~predictions.any(axis=1))
    result = {
        "subset_accuracy": reference.accuracy_score(targets, predictions),
        "hamming_accuracy": 1 - reference.hamming_loss(targets, predictions),
        "predicted_labels_per_example": predictions.sum() / len(targets),
        "true_labels_per_example": targets.sum() / len(targets),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about samples without labels even where told what to do
        for ours, theirs in (("macro", "macro"), ("micro", "micro"), ("example", "samples")):
            for name in ("precision", "recall", "f1"):
                score = getattr(reference, f"{name}_score")(targets, predictions, average=theirs, zero_division=0)
                result[f"{ours}_{name}"] = score + (both_empty if ours == "example" else 0)
        # Said the other way round, for F1, where scikit-learn can say it.
        samples_f1 = reference.f1_score(targets, predictions, average="samples", zero_division=1)
    assert result["example_f1"] == pytest.approx(samples_f1)
    return result


@given(matrix_pairs(), st.booleans(), st.booleans())
def test_scores_equal_scikit_learn(pair, sparse_targets, sparse_predictions):
    targets, predictions = pair
    ours = scores(
        sparse.csr_array(targets) if sparse_targets else targets,
        sparse.csr_matrix(predictions.astype(np.int8)) if sparse_predictions else predictions,
    )
    expected = from_scikit_learn(targets, predictions)
    assert {name: ours[name] for name in expected} == pytest.approx(expected)


@given(matrix_pairs())
def test_per_label_equals_scikit_learn(pair):
    targets, predictions = pair
    rows = per_label(targets, predictions, NAMES[: targets.shape[1]])
    columns = reference.precision_recall_fscore_support(targets, predictions, average=None, zero_division=0)
    for name, column in zip(("precision", "recall", "f1", "support"), columns, strict=True):
        assert [row[name] for row in rows] == pytest.approx(column)


@given(matrix_pairs(), st.randoms())
def test_scores_ignore_the_order_of_examples_and_labels(pair, random):
    targets, predictions = pair
    rows, columns = (random.sample(range(size), size) for size in targets.shape)
    shuffled = scores(targets[rows][:, columns], predictions[rows][:, columns])
    assert shuffled == pytest.approx(scores(targets, predictions))


@given(matrix_pairs(), st.data())
def test_best_threshold_equals_trying_them_all(pair, data):
    """Few distinct scores, so that equal ones are common."""
    targets, _ = pair
    levels = numpy_strategies.arrays(np.int8, targets.shape, elements=st.integers(0, 7))
    probs = data.draw(levels).astype(np.float32) / np.float32(7)
    threshold, micro_f1 = best_threshold(probs, sparse.csr_array(targets))
    brute_force = max(scores(targets, probs >= level)["micro_f1"] for level in np.unique(probs))
    assert micro_f1 == pytest.approx(brute_force)
    assert scores(targets, probs >= threshold)["micro_f1"] == pytest.approx(brute_force)


@given(st.lists(st.tuples(label_sets.map(sorted).flatmap(st.permutations), label_sets)))
def test_position_accuracy_equals_its_definition(examples):
    sequences, targets = [list(sequence) for sequence, _ in examples], [target for _, target in examples]
    expected = []
    for position in range(len(NAMES)):
        answers = [
            position < len(sequence) and sequence[position] in target
            for sequence, target in examples
            if position < len(sequence) or position < len(target)
        ]
        expected += [sum(answers) / len(answers)] if answers else []
    assert position_accuracy(sequences, targets) == pytest.approx(expected)
