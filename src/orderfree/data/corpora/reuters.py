"""Reuters-21578 in the ApteMod form: 90 topics, 7,769 training and 3,019 test documents."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ...types import Example
from ..readers.reuters import CATEGORIES, SGML_FILES
from .catalogue import CorpusInfo, Part, Parts, corpus, kept, part_of_file, printed_row

NUMBER_OF_FILES = 22
VALID_FRACTION = 0.1
LEFT_OUT = "training/1199"  # a headline that is not in ApteMod and so not in the paper
ADVICE = (
    "Reuters-21578 belongs in the folder reuters21578: reut2-000.sgm … reut2-021.sgm of reuters21578.tar.gz "
    "(daviddlewis.com/resources/testcollections/reuters21578, or the UCI repository), or NLTK's folder "
    "(python -m nltk.downloader reuters, then unzip), or train.jsonl.gz and test.jsonl.gz."
)
CHOICE = "The validation part is chosen by the seed; which documents the paper chose is not known."


@corpus(
    CorpusInfo(
        "reuters",
        "Reuters-21578, ApteMod",
        ADVICE,
        comparable="yes",
        caveat=CHOICE,
        printed=printed_row(6_993, 776, 3_019, 90, 53.94, 1.24),
    )
)
def load_reuters(root: Path, seed: int) -> Parts:
    """A tenth of the training part, chosen at random (not stratified: the paper follows Nam et al. 2017), validates."""
    train, test = _train_and_test(root)
    # Sorted, so that the choice does not depend on the order of the documents.
    ids = sorted(example.id for example in train())
    valid = frozenset(random.Random(seed).sample(ids, int(len(ids) * VALID_FRACTION)))
    return {
        "train": kept(train, lambda example: example.id not in valid),
        "valid": kept(train, lambda example: example.id in valid),
        "test": test,
        "test_multi": kept(test, lambda example: len(example.labels or ()) > 1),
    }


@corpus(
    CorpusInfo(
        "reuters-multi",
        "Reuters-21578, test documents with more than one label",
        ADVICE,
        comparable="no",
        caveat="The paper's part has 405 documents. Ours has 436, of which 404 have at most 500 words: it seems that "
        "the paper left out the longer ones here; we leave out none.",
        printed=printed_row(6_993, 776, 405, 90),
    )
)
def load_reuters_multi(root: Path, seed: int) -> Parts:
    parts = load_reuters(root, seed)
    return {"train": parts["train"], "valid": parts["valid"], "test": parts["test_multi"]}


def _train_and_test(root: Path) -> tuple[Part, Part]:
    """The two parts, from whichever form of the corpus the folder has."""
    folder = root / "reuters21578"
    prepared = [folder / f"{part}.jsonl.gz" for part in ("train", "test")]
    if any(path.exists() for path in prepared):
        train, test = (part_of_file(path, ADVICE) for path in prepared)
        return train, test
    for nltk_folder in (folder, folder / "reuters", root / "reuters"):
        if (nltk_folder / CATEGORIES).exists():
            train, test = (part_of_file(nltk_folder / part, ADVICE, "nltk-reuters") for part in ("training", "test"))
            return train, test
    files = len(list(folder.glob(SGML_FILES)))
    if files == NUMBER_OF_FILES:
        return _apte_mod(part_of_file(folder, ADVICE, "reuters-sgml"))
    problem = f"holds {files} of its {NUMBER_OF_FILES} SGML files" if files else "Reuters-21578 is not here"
    raise DataError(f"{problem}. {ADVICE}", folder)


def _apte_mod(documents: Part) -> tuple[Part, Part]:
    """The documents of both parts that have a topic which occurs in both parts, with these topics only."""
    topics: dict[str, set[str]] = {"training": set(), "test": set()}
    for example in documents():
        topics[example.id.partition("/")[0]].update(example.labels or ())
    shared = topics["training"] & topics["test"]

    def read(part: str) -> Iterator[Example]:
        for example in documents():
            labels = tuple(name for name in example.labels or () if name in shared)
            if labels and example.id.startswith(part) and example.id != LEFT_OUT:
                yield dataclasses.replace(example, labels=labels)

    return lambda: read("training/"), lambda: read("test/")
