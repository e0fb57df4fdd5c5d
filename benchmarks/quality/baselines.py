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
from thresholds import Cut, best_cuts, sets_at

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
    start: float  # the value of C from which the best one is looked for, metric by metric
    folds: int = 3  # of training and validation part, for scores of unseen examples; 1: those of the validation part
    searched: bool = True  # False: C stays at `start`
    highest: float = 256.0  # value of C
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


HARDEST = 16.0  # C of an SVM: beyond, liblinear needs a thousand rounds and a hundred times as long
BASELINES = {
    "svm": Baseline(svm, 1.0, highest=HARDEST),
    "logistic": Baseline(logistic, 16.0),
    "chain": Baseline(chain, 16.0, folds=1),  # it makes folds itself
    "libmultilabel-1vsrest": Baseline(libmultilabel("1vsrest"), 1.0, highest=HARDEST),
    # its own cross-validation fits each label dozens of times already
    "libmultilabel-thresholding": Baseline(
        libmultilabel("thresholding"), 1.0, folds=1, own_thresholds=True, highest=HARDEST
    ),
}
LOWEST = 1 / 64  # value of C


@dataclass
class TrainedBaseline:
    labels: tuple[str, ...]
    choices: dict[str, dict[str, Any]]
    scorers: dict[float, Scorer]  # by C
    featurizer: Featurizer
    at_least_one: bool
    bytes: int
    in_vain: Seconds
    plain: tuple[str, ...] = ()

    def predict(self, examples: Sequence[Example], names: Sequence[str]) -> dict[str, sparse.csr_array]:
        features = _features(self.featurizer, examples)
        cs = {self.choices[name]["c"] for name in names}
        found = {c: self.scorers[c].score(features) for c in cs}
        return {
            name: sets_at(found[chosen["c"]], as_threshold(chosen["threshold"]), self.at_least_one)
            for name, chosen in self.choices.items()
            if name in names
        }

    def rank(self, examples: Sequence[Example]) -> np.ndarray:
        return top_labels(self.scorers[self.choices["micro_f1"]["c"]].score(_features(self.featurizer, examples)))


def as_threshold(chosen: float | list[float]) -> float | np.ndarray:
    return np.array(chosen) if isinstance(chosen, list) else chosen


def fit_baseline(system: Baseline, job: Job) -> TrainedBaseline:
    config = load_config(settings=[ALONE] if system.preset else [ALONE, WORDS], preset=system.preset)
    prepared = prepare(config, job.train, job.valid, job.folder)
    parts = prepared.train, prepared.valid
    # liblinear knows no other type than double: changed once, for all labels and every C
    features = sparse.vstack([part.bag_matrix(prepared.featurizer.input_size) for part in parts], format="csr")
    features = features.astype(np.float64)
    targets = sparse.vstack([_targets(part) for part in parts], format="csr")
    at_least_one = () not in prepared.labels.combinations
    held_out = _held_out(system.folds, len(prepared.train), len(targets.indptr) - 1, job.seed)
    decide = _own_cuts if system.own_thresholds else best_cuts

    def cuts_at(c: float) -> dict[str, Cut]:
        found = [system.fit(features[~rows], targets[~rows], c, job).score(features[rows]) for rows in held_out]
        truth = sparse.vstack([targets[rows] for rows in held_out], format="csr")
        stack = sparse.vstack if sparse.issparse(found[0]) else np.vstack
        return decide(stack(found), truth, at_least_one)

    began = Seconds.now()
    tried = (
        search_c(cuts_at, system.start, system.highest) if system.searched else {system.start: cuts_at(system.start)}
    )
    in_vain = Seconds.now() - began
    best = {metric: max(tried, key=lambda c: tried[c][metric].value) for metric in METRICS}
    # as our presets do, now all is chosen
    scorers = {c: system.fit(features, targets, c, job) for c in sorted(set(best.values()))}
    choices = {m: {"c": c, "tried": sorted(tried), **tried[c][m].as_choice()} for m, c in best.items()}
    featurizer, size = _reopened(config, prepared.featurizer, job.folder / "features")
    size += scorers[best["micro_f1"]].bytes
    return TrainedBaseline(prepared.labels.names, choices, scorers, featurizer, at_least_one, size, in_vain)


def _held_out(folds: int, train: int, examples: int, seed: int) -> list[np.ndarray]:
    """(N,) bool for each fold: the examples that it scores."""
    if folds == 1:
        return [np.arange(examples) >= train]
    fold_of = np.random.default_rng(seed).permutation(examples) % folds
    return [fold_of == fold for fold in range(folds)]


def search_c(cuts_at: Callable[[float], dict[str, Cut]], start: float, highest: float) -> dict[float, dict[str, Cut]]:
    """Values of C with their cuts: from `start` on by factors of four, then of two, until for no metric the best one is
    on the edge of what was tried."""
    tried = {start: cuts_at(start)}
    for step in (4.0, 2.0):
        while True:
            best = {max(tried, key=lambda c: tried[c][metric].value) for metric in METRICS}
            near = {c * factor for c in best for factor in (step, 1 / step)}
            if not (new := {c for c in near if LOWEST <= c <= highest} - tried.keys()):
                break
            tried |= {c: cuts_at(c) for c in sorted(new)}
    return tried


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
