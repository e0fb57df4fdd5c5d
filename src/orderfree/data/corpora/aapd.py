"""AAPD: the official validation and test parts with a training part collected again from arXiv, and a re-split of all.

Scores are near-comparable with published ones: 52,588 documents, whose label lists are 97.7 % of those of the official
training part."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...errors import DataError
from ...types import Example
from .catalogue import CorpusInfo, Parts, corpus, kept, label_set, part_of_file, printed_row

FILES = {"train": "train", "valid": "val", "test": "test"}
HELD_OUT = 2_000  # documents of each of valid_seen, valid_unseen, test_seen and test_unseen
LEFT_IN_TRAINING = 2  # documents that training keeps of every label set of the seen parts

ADVICE = (
    "AAPD belongs in the folder aapd: train.jsonl.gz, val.jsonl.gz and test.jsonl.gz, one object with id, text and "
    "labels a line. The official corpus is on the page of github.com/lancopku/SGM: text_train and label_train can be "
    "given to `orderfree train` as is."
)
NEAR = (
    "Figures are near-comparable with published ones: the training documents are 52,588 arXiv abstracts whose label "
    "lists are 97.7 % of the official training part's 53,840; which papers of a label set are among them is not "
    "certain for each"
)


@corpus(
    CorpusInfo(
        "aapd",
        "AAPD, training part collected anew",
        ADVICE,
        comparable="near",
        caveat=f"{NEAR}. Validation and test are the official parts, whatever the seed.",
        printed=printed_row(53_840, 1_000, 1_000, 54, 163.42, 2.41),
    )
)
def load_aapd(root: Path, seed: int) -> Parts:
    """The split of the files; it does not depend on the seed."""
    return {part: part_of_file(root / "aapd" / f"{file}.jsonl.gz", ADVICE) for part, file in FILES.items()}


@corpus(
    CorpusInfo(
        "aapd-resplit",
        "AAPD split anew: half of validation and test with label sets unseen in training",
        ADVICE,
        comparable="near",
        caveat=f"{NEAR}. The split follows the rule of the paper's released code, with another draw: the seed decides.",
        printed=printed_row(47_840, 4_000, 4_000, 54),
    )
)
def load_aapd_resplit(root: Path, seed: int) -> Parts:
    """The documents of all three parts of `aapd`, split again."""
    parts = load_aapd(root, seed)

    def documents() -> Iterator[Example]:
        for part in parts.values():
            yield from part()

    part_of = resplit(documents(), seed)

    def named(*names: str) -> Parts:
        return {names[0]: kept(documents, lambda example: part_of.get(example.id, "train") in names)}

    return (
        named("train")
        | named("valid", "valid_seen", "valid_unseen")
        | named("test", "test_seen", "test_unseen")
        | named("test_seen")
        | named("test_unseen")
    )


def resplit(documents: Iterable[Example], seed: int, held_out: int = HELD_OUT) -> dict[str, str]:
    """The part (valid_seen, valid_unseen, test_seen, test_unseen) of every document that is held out.

    The rule of the released code, except that it compares lists of labels and we compare sets. Unseen: label sets are
    drawn uniformly, whatever their frequency, and all of their documents leave training; a set that would exceed
    2 x `held_out` documents is skipped. Seen: documents drawn uniformly among the others, while training keeps two
    of their set. The documents of either kind are then shuffled and halved, so that a set of the unseen test part may
    occur in validation, but never in training."""
    rng = random.Random(seed)
    # Sorted, so that the order of the files does not matter.
    set_of = dict(sorted((example.id, tuple(sorted(label_set(example)))) for example in documents))
    unseen = _unseen(set_of, rng, 2 * held_out)
    seen = _seen({name: labels for name, labels in set_of.items() if name not in unseen}, rng, 2 * held_out)
    part_of: dict[str, str] = {}
    for kind, names in (("seen", seen), ("unseen", sorted(unseen))):
        rng.shuffle(names)
        part_of |= dict.fromkeys(names[:held_out], f"test_{kind}")
        part_of |= dict.fromkeys(names[held_out:], f"valid_{kind}")
    return part_of


def _unseen(set_of: dict[str, tuple[str, ...]], rng: random.Random, wanted: int) -> set[str]:
    """All documents of label sets drawn uniformly without replacement."""
    names_of = defaultdict(list)
    for name, labels in set_of.items():
        names_of[labels].append(name)
    drawn: set[str] = set()
    for labels in rng.sample(sorted(names_of), len(names_of)):
        if len(drawn) + len(names_of[labels]) <= wanted:
            drawn.update(names_of[labels])
    _require(wanted, len(drawn), "whole label sets")
    return drawn


def _seen(set_of: dict[str, tuple[str, ...]], rng: random.Random, wanted: int) -> list[str]:
    """Documents drawn uniformly, of label sets that keep enough others."""
    in_training = Counter(set_of.values())
    drawn: list[str] = []
    for name in rng.sample(list(set_of), len(set_of)):
        if len(drawn) < wanted and in_training[set_of[name]] > LEFT_IN_TRAINING:
            in_training[set_of[name]] -= 1
            drawn.append(name)
    _require(wanted, len(drawn), "documents whose label set training keeps")
    return drawn


def _require(wanted: int, drawn: int, what: str) -> None:
    if drawn < wanted:
        raise DataError(f"the re-split needs {wanted:,} documents, but {what} make up only {drawn:,}. {ADVICE}")
