"""Likely errors in the labels of a training file: where classifiers that have not seen an example contradict it.

cleanlab ranks them, and says which contradictions are as strong as the classifiers are sure of that label elsewhere
(confident learning, Northcutt et al. 2021).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from ..build import build_network, load_config
from ..config import Config
from ..data.labels import LabelVocabulary
from ..data.readers import ReadCounts, read_examples
from ..errors import ConfigError, DataError, MissingLibraryError
from ..inference import Predictor
from ..nn.br_decoder import Calibration
from ..system.processor import default_threads, use_processor
from ..training.prepare import Data, prepare
from ..training.solve import start_encoder
from ..types import Example, SparseVector

FEWEST = 10  # examples a label must have: classifiers that have seen a handful know too little to accuse anyone
UNLIKELY = 0.001  # a label that is neither given nor as probable as this counts as impossible
AT_ONCE = 256  # rows that are held with all their labels
TEXT_SHOWN = 200  # characters
OWN_SETTINGS = ("seed", "data.", "model.encoder_options.", "training.threads")


@dataclass(frozen=True)
class Opinion:
    """What a file says of its labels, and what classifiers say."""

    labels: LabelVocabulary
    targets: sparse.csc_array  # (N, L) bool: the file
    probs: sparse.csc_array  # (N, L) the classifiers; what is not held is 0
    unknown: sparse.csc_array  # (N, L) bool: True where the file says nothing

    def of_label(self, label: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows (R,) that say something of a label, whether they have it, and how probable that is."""
        unknown, has, probable = (part[:, [label]].toarray()[:, 0] for part in (self.unknown, self.targets, self.probs))
        rows = np.flatnonzero(~unknown)
        return rows, has[rows], probable[rows].astype(np.float64)


@dataclass(frozen=True)
class Suspect:
    position: int  # among the examples of the file, counted from 1
    id: str
    score: float  # probability of the least credible thing the file says of it, given or absent
    error: bool  # confident learning takes it for one
    labels: list[str]  # as the file has them
    wrong: dict[str, float]  # given but unlikely, with the probability of each, the least likely first
    missing: dict[str, float]  # absent but likely, the likeliest first
    text: str  # its beginning


def audit_config(settings: list[str], preset: str | None, folds: int) -> Config:
    """The linear classifiers of a preset; settings may change what they read and how they are solved."""
    for setting in settings:
        if not setting.strip().startswith(OWN_SETTINGS):
            raise ConfigError(
                f"--set {setting!r}: an audit has linear classifiers only; it knows seed, training.threads and what is "
                "under data and model.encoder_options."
            )
    encoder = load_config(None, None, preset).model.encoder
    if encoder != "linear":
        raise ConfigError(f"--preset {preset}: its encoder is {encoder}; an audit needs fast or best.")
    # neighbours with the same mistake would confirm one another
    own = ["model.encoder_options.neighbours=0", *settings, f"model.encoder_options.folds={folds}"]
    return load_config(None, own, preset)


def out_of_fold(config: Config, path: Path, say: Callable[[str], None]) -> Opinion:
    """Of linear classifiers, each example judged by those that were solved on the other folds."""
    _refuse_stream(path)
    use_processor(config.training.threads or default_threads())
    torch.manual_seed(config.seed)
    with tempfile.TemporaryDirectory(prefix="orderfree-") as cache:
        prepared = prepare(config, _bags(config, path), [], Path(cache), say)  # nothing is held out
        corpus = prepared.train
        network = build_network(config, prepared.featurizer.input_size, len(prepared.labels))
        start_encoder(network, corpus, Path(cache), config.seed, say)
        calibrate = next(part for part in network.modules() if isinstance(part, Calibration))
        assert corpus.scores is not None, "a network that is trained further has out-of-fold scores"
        numbers, rows = corpus.label_entries()
        shape = len(corpus), len(prepared.labels)
        targets = _matrix(rows, numbers, shape)
        unsaid = corpus.unknown()
        unknown = sparse.csc_array(shape, dtype=bool) if unsaid is None else sparse.csc_array(unsaid)
        with torch.inference_mode():
            parts = (
                calibrate(torch.from_numpy(corpus.scores[start : start + AT_ONCE])).sigmoid().numpy()  # (B, L)
                for start in range(0, len(corpus), AT_ONCE)
            )
            return Opinion(prepared.labels, targets, _probable(parts, targets), unknown)


def of_model(predictor: Predictor, path: Path) -> Opinion:
    """Of a model, which is honest only where it was not trained on the file. Labels it does not have are not judged."""
    _refuse_stream(path)
    config, labels = predictor.trained.config, predictor.labels
    said = [(labels.known(e.labels or ()), labels.known(e.unknown or ())) for _, e in _judged(path, config)]
    if not said:
        raise DataError("no example has labels that are known; expected some to judge.", path)
    targets, unknown = (
        _matrix(
            np.repeat(np.arange(len(said)), [len(row[part]) for row in said]),
            np.array([label for row in said for label in row[part]], dtype=np.int64),
            (len(said), len(labels)),
        )
        for part in (0, 1)
    )
    examples = (example for _, example in _judged(path, config))
    some = iter(lambda: list(islice(examples, AT_ONCE)), [])
    parts = (predictor.predict_proba(chunk) for chunk in some)  # (B, L) each
    return Opinion(labels, targets, _probable(parts, targets), unknown)


@dataclass(frozen=True)
class Contradictions:
    rows: np.ndarray  # (S,) with a label that is contradicted, the worst first
    issues: sparse.csr_array  # (N, L) bool: the classifiers say the opposite
    errors: np.ndarray  # (N,) bool: so surely that confident learning takes it for an error
    # Probability of the least credible thing the file says of a row. cleanlab's own mean over labels puts texts that
    # leave two sets open first: of 150 errors planted in 3,000 toy texts it had 33 among the first 150, this 90.
    scores: np.ndarray  # (N,)


def contradictions(opinion: Opinion) -> Contradictions:
    """What cleanlab.multilabel_classification does, but that of each label only rows that say something are asked, and
    that nothing of the size of examples x labels is made."""
    try:
        from cleanlab.filter import find_label_issues
    except ModuleNotFoundError:
        raise MissingLibraryError('an audit of labels needs: pip install "orderfree[audit]".') from None
    shape = opinion.targets.shape
    errors, scores = np.zeros(shape[0], dtype=bool), np.ones(shape[0])  # what nobody judges lowers no score
    issues: list[tuple[np.ndarray, int]] = []
    for label in np.flatnonzero(_frequent(opinion)).tolist():
        rows, has, yes = opinion.of_label(label)
        scores[rows] = np.minimum(scores[rows], np.where(has, yes, 1 - yes))
        if not has.all():
            said, pairs = has.astype(int), np.column_stack([1 - yes, yes])
            issues.append((rows[find_label_issues(said, pairs, filter_by="predicted_neq_given", n_jobs=1)], label))
            errors[rows[find_label_issues(said, pairs, filter_by="confident_learning", n_jobs=1)]] = True
    contradicted = np.concatenate([np.zeros(0, dtype=np.int64), *(rows for rows, _ in issues)])
    labels = np.repeat([label for _, label in issues], [len(rows) for rows, _ in issues]).astype(np.int64)
    found = np.unique(contradicted)
    order = found[np.argsort(scores[found], kind="stable")]
    return Contradictions(order, _matrix(contradicted, labels, shape).tocsr(), errors, scores)


def suspects(opinion: Opinion, found: Contradictions, path: Path, config: Config, top: int) -> list[Suspect]:
    """The `top` worst examples of the file, as a person wants to see them."""
    rank = {int(row): place for place, row in enumerate(found.rows[:top])}
    named: dict[int, Suspect] = {}
    for row, (position, example) in enumerate(_judged(path, config)):
        if row not in rank:
            continue
        given = set(opinion.labels.known(example.labels or ()))
        issues = found.issues.indices[found.issues.indptr[row] : found.issues.indptr[row + 1]].tolist()
        probs = {label: float(opinion.probs[row, label]) for label in issues}
        order = sorted(probs, key=lambda label: (probs[label], label))
        named[rank[row]] = Suspect(
            position,
            example.id,
            float(found.scores[row]),
            bool(found.errors[row]),
            list(example.labels or ()),
            {opinion.labels.names[i]: round(float(probs[i]), 4) for i in order if i in given},
            {opinion.labels.names[i]: round(float(probs[i]), 4) for i in reversed(order) if i not in given},
            " ".join((example.text or "")[: 2 * TEXT_SHOWN].split())[:TEXT_SHOWN],
        )
    return [named[place] for place in sorted(named)]


def rare_labels(opinion: Opinion) -> list[str]:
    """Those that too few examples have to be judged."""
    return [name for name, enough in zip(opinion.labels.names, _frequent(opinion), strict=True) if not enough]


def _frequent(opinion: Opinion) -> np.ndarray:
    """(L,) which labels enough examples have."""
    both = opinion.targets.multiply(opinion.unknown).tocsc()
    counts: np.ndarray = np.diff(opinion.targets.indptr) - np.diff(both.indptr)
    return counts >= FEWEST


def _matrix(rows: np.ndarray, labels: np.ndarray, shape: tuple[int, int]) -> sparse.csc_array:
    """(N, L) bool, True at these places."""
    return sparse.csc_array((np.ones(len(rows), dtype=bool), (rows, labels)), shape=shape)


def _probable(parts: Iterable[np.ndarray], targets: sparse.csc_array) -> sparse.csc_array:
    """(N, L) from probabilities of consecutive rows (B, L): those of labels that are given or not quite unlikely."""
    given, kept, start = targets.tocsr(), [], 0
    for probs in parts:
        keep = probs >= UNLIKELY
        keep[given[start : start + len(probs)].nonzero()] = True
        kept.append(sparse.csr_array(np.where(keep, probs, 0.0).astype(np.float32)))
        start += len(probs)
    return sparse.vstack(kept, format="csc")


def _refuse_stream(path: Path) -> None:
    if str(path) == "-":
        raise DataError("an audit reads its file several times, so it cannot come from standard input; give a file.")


def _judged(path: Path, config: Config) -> Iterator[tuple[int, Example]]:
    """Examples that say something about their labels, each with its position in the file: the rows of an opinion."""
    counts = ReadCounts()
    for example in read_examples(path, config.data, labelled=True, counts=counts):
        if example.unknown is not None:
            yield counts.position + 1, example


def _bags(config: Config, path: Path) -> Data:
    """The file itself, or where it holds dense features, these as linear classifiers read them: the mean over frames,
    every feature with mean 0 and variance 1."""
    first = next(iter(read_examples(path, config.data, labelled=True)))
    if not isinstance(first.features, np.ndarray):
        return path
    examples = list(read_examples(path, config.data, labelled=True))
    means = np.stack([_mean_frame(example) for example in examples])  # (N, F)
    means = (means - means.mean(axis=0)) / np.maximum(means.std(axis=0), 1e-9)
    numbers = np.arange(means.shape[1], dtype=np.int32)
    return [replace(e, features=SparseVector(numbers, row)) for e, row in zip(examples, means, strict=True)]


def _mean_frame(example: Example) -> np.ndarray:
    assert isinstance(example.features, np.ndarray), "a file holds features of one kind"
    mean: np.ndarray = example.features.astype(np.float32).reshape(-1, example.features.shape[-1]).mean(axis=0)
    return mean  # (F,)
