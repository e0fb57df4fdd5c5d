"""Label-tree systems, which serve thousands of labels: each scores its best labels of an example, and no others.

libpecos is not among them: its wheels need numpy < 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from baselines import Baseline, Job, Scorer
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

BEST_LABELS = 100  # that a label tree is asked for


def omikuji(features: sparse.csr_matrix, targets: sparse.csr_array, _: float, job: Job) -> Scorer:
    """Its default settings: three trees of balanced clusters, as in Parabel; beams of ten."""
    from omikuji import Model

    data = job.folder / "omikuji.txt"
    write_xmc(data, features, targets)
    model = Model.train_on_data(str(data), n_threads=job.threads)
    data.unlink()
    model.init_prediction_thread_pool(job.threads)

    def score(rows: sparse.csr_matrix) -> sparse.csr_array:
        found = [model.predict(pairs, beam_size=10, top_k=BEST_LABELS) for pairs in _pairs(rows)]
        return _scores(found, targets.shape[1])

    return Scorer(score, _saved_bytes(model, job.folder / "omikuji"))


def napkinxc(features: sparse.csr_matrix, targets: sparse.csr_array, _: float, job: Job) -> Scorer:
    """A probabilistic label tree with its default settings."""
    from napkinxc.models import PLT

    folder = job.folder / "napkinxc"
    model = PLT(str(folder), threads=job.threads, seed=job.seed, verbose=False)
    model.fit(features.astype(np.float32), [row.tolist() for row in np.split(targets.indices, targets.indptr[1:-1])])

    def score(rows: sparse.csr_matrix) -> sparse.csr_array:
        return _scores(model.predict_proba(rows.astype(np.float32), top_k=BEST_LABELS), targets.shape[1])

    return Scorer(score, _bytes(folder))


def write_xmc(path: Path, features: sparse.csr_matrix, targets: sparse.csr_array) -> None:
    """The format of the extreme classification repository: sizes, then `label,label term:weight …` a line."""
    with open(path, "wb") as file:
        file.write(f"{features.shape[0]} {features.shape[1]} {targets.shape[1]}\n".encode())
        dump_svmlight_file(features, sparse.csr_matrix(targets, dtype=np.int64), file, multilabel=True)


def _pairs(rows: sparse.csr_matrix) -> list[list[tuple[int, float]]]:
    """The terms of each row with their weights."""
    cuts = rows.indptr[1:-1]
    terms, weights = np.split(rows.indices, cuts), np.split(rows.data, cuts)
    return [list(zip(t.tolist(), w.tolist(), strict=True)) for t, w in zip(terms, weights, strict=True)]


def _scores(found: list[list[tuple[int, float]]], labels: int) -> sparse.csr_array:
    """(N, L) of a list of labels with their scores for each example."""
    ends = np.cumsum([0, *map(len, found)])
    columns = np.array([label for row in found for label, _ in row], dtype=np.int64)
    values = np.array([score for row in found for _, score in row])
    return sparse.csr_array((values, columns, ends), shape=(len(found), labels))


def _saved_bytes(model: Any, folder: Path) -> int:
    model.save(str(folder))
    return _bytes(folder)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


TREES = {
    "omikuji": Baseline(omikuji, 1.0, folds=1, searched=False),
    "napkinxc": Baseline(napkinxc, 1.0, folds=1, searched=False),
}
