"""What things are called, where they are kept, and how long they took."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS, WORK = HERE / "results", ROOT / "runs" / "quality"

METRICS = ("macro_f1", "micro_f1", "example_f1", "subset_accuracy", "hamming_accuracy")
CORPORA = ("reuters", "aapd", "rcv1-subset", "arxiv-msc", "toy")
MANY_LABELS = ("arxiv-msc",)  # corpora of thousands, where one classifier a label is too much
SYSTEMS = (  # in the order they are run and shown: who comes first makes sentence embeddings for the others
    *("svm", "logistic", "chain", "libmultilabel-1vsrest", "libmultilabel-thresholding"),
    *("omikuji", "napkinxc", "fasttext"),
    *("fast", "fast-br", "svm-fast-features", "best", "svm-best-features"),
)


@dataclass(frozen=True)
class Seconds:
    """By the clock on the wall, and of work: the second does not grow when the machine does other things as well."""

    wall: float = 0.0
    cpu: float = 0.0

    @classmethod
    def now(cls) -> Seconds:
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall - other.wall, self.cpu - other.cpu)


@dataclass(frozen=True)
class Cell:
    """One system on one corpus with one seed."""

    corpus: str
    system: str
    seed: int
    results: Path = RESULTS  # what is kept
    work: Path = WORK  # what can be made again

    @property
    def result(self) -> Path:
        return self.results / self.corpus / self.system / f"seed{self.seed}.json"

    @property
    def folder(self) -> Path:
        return self.work / self.corpus / self.system / f"seed{self.seed}"

    @property
    def measured(self) -> Path:
        """Written when the cell has been fitted and has predicted; the verdict on it is the result."""
        return self.folder / "measured.json"

    def sets(self, part: str, choice: str) -> Path:
        """What was predicted for a test part by this choice."""
        return self.folder / part / f"predictions-{choice}.npz"

    def ranking(self, part: str) -> Path:
        """The first labels of each example; written where labels are many."""
        return self.folder / part / "ranking.npz"

    def targets(self, part: str) -> Path:
        return self.folder / part / "targets.npz"

    def __str__(self) -> str:
        return f"{self.corpus} {self.system} seed {self.seed}"
