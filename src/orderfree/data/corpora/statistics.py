"""The statistics of the paper's table "Summary of datasets". Words are separated by white space."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...types import Example
from .catalogue import CorpusInfo, Parts, label_set

MAIN = ("train", "valid", "test")
TOLERANCE = 0.02  # counts of words that differ by less are treated as equal


@dataclass(frozen=True)
class Statistics:
    documents: int
    labels: int
    words_per_sample: float
    labels_per_sample: float
    label_sets: int  # distinct
    unseen_label_sets: int | None  # of these, those of no training document
    unseen_documents: int | None  # documents that have such a set


class _Counter:
    def __init__(self) -> None:
        self.words = 0
        self.sets: dict[frozenset[str], int] = {}  # -> documents

    def add(self, examples: Iterable[Example]) -> None:
        for example in examples:
            self.words += len((example.text or "").split())
            labels = label_set(example)
            self.sets[labels] = self.sets.get(labels, 0) + 1

    def join(self, other: _Counter) -> None:
        self.words += other.words
        for labels, documents in other.sets.items():
            self.sets[labels] = self.sets.get(labels, 0) + documents

    def statistics(self, train: _Counter | None = None) -> Statistics:
        documents = sum(self.sets.values())
        unseen = None if train is None else [count for labels, count in self.sets.items() if labels not in train.sets]
        return Statistics(
            documents=documents,
            labels=len(frozenset().union(*self.sets)),
            words_per_sample=self.words / max(documents, 1),
            labels_per_sample=sum(len(labels) * count for labels, count in self.sets.items()) / max(documents, 1),
            label_sets=len(self.sets),
            unseen_label_sets=None if unseen is None else len(unseen),
            unseen_documents=None if unseen is None else sum(unseen),
        )


def count_parts(parts: Parts) -> dict[str, Statistics]:
    """The statistics of each part, and of train, valid and test together under the name `all`."""
    counters = {name: _Counter() for name in parts}
    together = _Counter()
    for name, part in parts.items():
        counters[name].add(part())
        if name in MAIN:
            together.join(counters[name])
    train = counters["train"]
    statistics = {name: counter.statistics(None if name == "train" else train) for name, counter in counters.items()}
    return statistics | {"all": together.statistics()}


def notes(info: CorpusInfo, statistics: dict[str, Statistics]) -> list[str]:
    """Remarks on the two rows, ours and the printed one."""
    remarks = [
        "Not comparable with the paper's scores." if info.comparable == "no" else "",
        info.caveat,
        "Words are counted as what stands between blanks." if statistics["all"].words_per_sample else "",
    ]
    missing = statistics["all"].labels - statistics["train"].labels
    if missing:
        remarks.append(f"{missing} of the labels {'occurs' if missing == 1 else 'occur'} in no training document.")
    printed, ours = (info.printed or {}).get("words_per_sample"), statistics["all"].words_per_sample
    if printed and info.comparable != "no" and abs(ours - printed) > TOLERANCE * printed:
        remarks.append(
            f"The paper's {printed:.2f} words per sample count something else than our {ours:.2f}, perhaps the words "
            "left without stop words and repetitions; it does not say."
        )
    return [remark for remark in remarks if remark]
