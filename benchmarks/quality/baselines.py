"""Linear classifiers a user would pick instead, each as a function from features and C to scores of labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from layout import METRICS, Seconds
from scipy import sparse
from thresholds import Cut, best_thresholds, sets_at

from orderfree.build import encoder_options, featurizer_class, load_config
from orderfree.config import Config
from orderfree.data.corpus import Corpus
from orderfree.data.featurizers import Featurizer, encode_all
from orderfree.metrics.at_k import top_labels
from orderfree.metrics.counts import Matrix
from orderfree.metrics.scores import scores
from orderfree.training.prepare import prepare
from orderfree.types import Example

WORDS = "model.encoder_options.leads=[]"  # over the preset fast: single words, in at least two documents
ALONE = "model.encoder_options.neighbours=0"  # a baseline is what a user would write down in ten lines
ABOVE_ZERO = 1e-12


@dataclass(frozen=True)
class Job:
    """What a system is fitted on, and where it may write."""

    train: Path
    valid: Path
    folder: Path
    seed: int
    threads: int


@dataclass(frozen=True)
class Scorer:
    """A fitted linear system."""

    score: Callable[[sparse.csr_matrix], Matrix]  # (N, V) -> (N, L), sparse where it scores some labels only
    bytes: int


Fit = Callable[[sparse.csr_matrix, sparse.csr_array, float, Job], Scorer]  # (features, targets (N, L) bool, C, job)


@dataclass(frozen=True)
class Baseline:
    fit: Fit
    grid: tuple[float, ...]  # values of C; the best micro-F1 on validation decides
    preset: str | None = None  # whose features; None: tf-idf words
    own_thresholds: bool = False  # True: it says yes where its scores are above 0, whatever the metric


def svm(features: sparse.csr_matrix, targets: sparse.csr_array, c: float, job: Job) -> Scorer:
    from sklearn.svm import LinearSVC

    return _one_vs_rest(LinearSVC(C=c, random_state=job.seed), features, targets, job)


def logistic(features: sparse.csr_matrix, targets: sparse.csr_array, c: float, job: Job) -> Scorer:
    from sklearn.linear_model import LogisticRegression

    return _one_vs_rest(LogisticRegression(C=c, solver="liblinear", random_state=job.seed), features, targets, job)


def _one_vs_rest(classifier: Any, features: sparse.csr_matrix, targets: sparse.csr_array, job: Job) -> Scorer:
    from joblib import parallel_config
    from sklearn.multiclass import OneVsRestClassifier

    with parallel_config("threading"):  # liblinear lets go of the interpreter; processes would hold copies of the data
        model = OneVsRestClassifier(classifier, n_jobs=job.threads).fit(features, targets.toarray().astype(int))
    return Scorer(model.decision_function, _array_bytes(model.estimators_))


def chain(features: sparse.csr_matrix, targets: sparse.csr_array, c: float, job: Job) -> Scorer:
    """Later links learn from predictions on examples the earlier ones had not seen (cv=3), as they will in use."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import ClassifierChain

    class Link(LogisticRegression):
        """Logistic regression that stands fitting to one class: all examples of a rare label may lie in one fold."""

        def fit(self, x: Any, y: np.ndarray, sample_weight: Any = None) -> Any:
            if np.unique(y).size > 1:
                return super().fit(x, y, sample_weight)
            self.classes_ = np.unique(y)  # what it predicts, as its score is below 0
            self.coef_, self.intercept_, self.n_features_in_ = np.zeros((1, x.shape[1])), -np.ones(1), x.shape[1]
            return self

    link = Link(C=c, solver="liblinear", random_state=job.seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # many labels are rarer than the folds
        # labels are numbered from frequent to rare, and so is the chain
        model = ClassifierChain(link, order=range(targets.shape[1]), cv=3).fit(features, targets.toarray().astype(int))
    return Scorer(model.decision_function, _array_bytes(model.estimators_))


def _array_bytes(estimators: Sequence[Any]) -> int:
    solved = [estimator for estimator in estimators if hasattr(estimator, "coef_")]  # a constant has nothing to store
    return sum(estimator.coef_.nbytes + estimator.intercept_.nbytes for estimator in solved)


def libmultilabel(technique: str) -> Fit:
    """LibMultiLabel's linear method with the options its documentation uses."""

    def fit(features: sparse.csr_matrix, targets: sparse.csr_array, c: float, job: Job) -> Scorer:
        import libmultilabel.linear as linear
        import psutil

        class Labels(sparse.csc_matrix):
            """LibMultiLabel 0.10 counts labels with `sum(axis=2)`, which older SciPy took for 0 and newer refuses."""

            def sum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
                return super().sum(axis=0 if axis == 2 else axis, dtype=dtype, out=out)

        np.random.seed(job.seed)  # its cross-validation draws from here
        options = f"-s 2 -B 1 -e 0.0001 -q -m {job.threads} -c {c}"
        train_linear = getattr(linear, f"train_{technique}")
        with patch.object(psutil, "cpu_count", return_value=job.threads):  # it takes as many threads as there are cores
            model = train_linear(Labels(targets.astype(float)), features, options=options, verbose=False)
        return Scorer(model.predict_values, model.weights.nbytes + np.asarray(model.thresholds).nbytes)

    return fit


MARGINS, LIKELIHOODS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0), (1.0, 4.0, 16.0, 64.0)
BASELINES = {
    "svm": Baseline(svm, MARGINS),
    "logistic": Baseline(logistic, LIKELIHOODS),
    "chain": Baseline(chain, LIKELIHOODS),
    "libmultilabel-1vsrest": Baseline(libmultilabel("1vsrest"), MARGINS),
    # its own cross-validation fits each label dozens of times already: its default C, no grid
    "libmultilabel-thresholding": Baseline(libmultilabel("thresholding"), (1.0,), own_thresholds=True),
}


@dataclass
class TrainedBaseline:
    labels: tuple[str, ...]
    choices: dict[str, dict[str, Any]]
    scorer: Scorer
    featurizer: Featurizer
    at_least_one: bool
    bytes: int
    in_vain: Seconds
    plain: tuple[str, ...] = ()

    def predict(self, examples: Sequence[Example], names: Sequence[str]) -> dict[str, sparse.csr_array]:
        found = self.scorer.score(_features(self.featurizer, examples))
        return {n: sets_at(found, self.choices[n]["threshold"], self.at_least_one) for n in names}

    def rank(self, examples: Sequence[Example]) -> np.ndarray:
        return top_labels(self.scorer.score(_features(self.featurizer, examples)))


def fit_baseline(system: Baseline, job: Job) -> TrainedBaseline:
    config = load_config(settings=[ALONE] if system.preset else [ALONE, WORDS], preset=system.preset)
    prepared = prepare(config, job.train, job.valid, job.folder)
    # liblinear knows no other type than double: changed once, for all labels and every C
    train_features, valid_features = (
        part.bag_matrix(prepared.featurizer.input_size).astype(np.float64) for part in (prepared.train, prepared.valid)
    )
    train_targets, valid_targets = (_targets(part) for part in (prepared.train, prepared.valid))
    at_least_one = () not in prepared.labels.combinations
    decide = _own_cuts if system.own_thresholds else best_thresholds
    kept: tuple[float, Scorer, dict[str, Cut], Seconds] | None = None
    all_fits = Seconds()
    for c in system.grid:
        began = Seconds.now()
        scorer = system.fit(train_features, train_targets, c, job)
        cuts = decide(scorer.score(valid_features), valid_targets, at_least_one)
        took = Seconds.now() - began
        all_fits += took
        if kept is None or cuts["micro_f1"].validation > kept[2]["micro_f1"].validation:
            kept = c, scorer, cuts, took
    assert kept is not None, "a grid has at least one value of C"
    c, _, cuts, took = kept
    everything = sparse.vstack([train_features, valid_features], format="csr")  # as our presets do, now all is chosen
    scorer = system.fit(everything, sparse.vstack([train_targets, valid_targets], format="csr"), c, job)
    choices = {m: {"c": c, "threshold": cut.threshold, "validation": cut.validation} for m, cut in cuts.items()}
    featurizer, size = _reopened(config, prepared.featurizer, job.folder / "features")
    return TrainedBaseline(
        prepared.labels.names, choices, scorer, featurizer, at_least_one, scorer.bytes + size, all_fits - took
    )


def _targets(part: Corpus) -> sparse.csr_array:
    """(N, L) bool."""
    labels, rows = part.label_entries()
    shape = (len(part), len(part.vocabulary))
    return sparse.csr_array((np.ones(len(rows), dtype=bool), (rows, labels)), shape=shape)


def _own_cuts(found: np.ndarray, targets: sparse.csr_array, at_least_one: bool) -> dict[str, Cut]:
    """The system has put its thresholds into the scores: it says yes above 0, not at it."""
    reached = scores(targets, sets_at(found, ABOVE_ZERO, at_least_one))
    return {metric: Cut(ABOVE_ZERO, reached[metric]) for metric in METRICS}


def _reopened(config: Config, featurizer: Featurizer, folder: Path) -> tuple[Featurizer, int]:
    """The featurizer as a user would load it, which remembers no text from before, and its size on disk."""
    folder.mkdir()
    featurizer.save(folder)
    size = sum(path.stat().st_size for path in folder.iterdir())
    return featurizer_class(config).load(folder, config.data, encoder_options(config)), size


def _features(featurizer: Featurizer, examples: Sequence[Example]) -> sparse.csr_matrix:
    """(N, V) of bags."""
    rows = [encoded.arrays for encoded in encode_all(featurizer, examples)]
    ends = np.cumsum([0, *(len(row["indices"]) for row in rows)])
    weights = np.concatenate([row["weights"] for row in rows]).astype(np.float64)
    places = np.concatenate([row["indices"] for row in rows])
    return sparse.csr_matrix((weights, places, ends), shape=(len(rows), featurizer.input_size))
