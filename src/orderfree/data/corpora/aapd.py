"""AAPD with a reconstructed training part: the official training texts could not be had.

Scores are comparable between methods run here, not with published AAPD figures."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from ...types import Example
from .catalogue import CorpusInfo, Parts, corpus, kept, label_set, part_of_file, printed_row

FOLDS = 20  # fold 0 is the test part, fold 1 validates
# The re-split: 2,000 seen and 2,000 unseen documents in each of two parts, of 55,840 in all.
HELD_OUT_SHARE = 2_000 / 55_840
MOST_DOCUMENTS = 10  # of a label set that is held out whole

ADVICE = (
    "The reconstructed corpus belongs in the folder aapd: train_reconstructed.jsonl.gz and test.jsonl.gz. The official "
    "one is on the page of github.com/lancopku/SGM: text_train and label_train can be given to `orderfree train` as is."
)
RECONSTRUCTED = (
    "39,923 reconstructed documents instead of the official training part; papers with only cs.IT and math.IT, "
    "frequent there, are mostly missing here"
)
PRINTED = printed_row(53_840, 1_000, 1_000, 54, 163.42, 2.41)


@corpus(
    CorpusInfo(
        "aapd-r",
        "AAPD, reconstructed",
        ADVICE,
        comparable=False,
        caveat=f"{RECONSTRUCTED}. The split is by the hash of the arXiv number, whatever the seed. test_official "
        "is the official test part, whose label sets are shifted against those of this training part.",
        printed=PRINTED,
    )
)
def load_aapd_r(root: Path, seed: int) -> Parts:
    """Split by a hash of the id, so that a document's part never depends on the rest of the file."""
    documents = part_of_file(root / "aapd" / "train_reconstructed.jsonl.gz", ADVICE)
    return {
        "train": kept(documents, lambda example: _fold(example) > 1),
        "valid": kept(documents, lambda example: _fold(example) == 1),
        "test": kept(documents, lambda example: _fold(example) == 0),
        "test_official": part_of_file(root / "aapd" / "test.jsonl.gz", ADVICE),
    }


def _fold(example: Example) -> int:
    return int(hashlib.md5(example.id.encode(), usedforsecurity=False).hexdigest(), 16) % FOLDS


@corpus(
    CorpusInfo(
        "aapd-r-resplit",
        "AAPD, reconstructed; half of validation and test with label sets unseen in training",
        ADVICE,
        comparable=False,
        caveat=f"{RECONSTRUCTED}. The paper does not say which label sets it held out; here they are drawn from those "
        f"of at most {MOST_DOCUMENTS} documents.",
        printed=printed_row(47_840, 4_000, 4_000, 54),
    )
)
def load_aapd_r_resplit(root: Path, seed: int) -> Parts:
    """The paper's re-split, in proportion: of each 55,840 documents 2,000 seen and 2,000 unseen for either part."""
    documents = part_of_file(root / "aapd" / "train_reconstructed.jsonl.gz", ADVICE)
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


def resplit(documents: Iterable[Example], seed: int) -> dict[str, str]:
    """The part (valid_seen, valid_unseen, test_seen, test_unseen) of every document that is held out.

    Unseen: label sets are drawn at random among those of at most ten documents, as a frequent one would fill the part
    alone and be missed in training; all documents of a set go to the same part, so that no set of the unseen test part
    occurs in training or validation. Seen: documents drawn at random as long as another one of their set stays in
    training. A corpus with too few rare sets gives what it has, and the seen parts are as large as the unseen ones."""
    rng = random.Random(seed)
    set_of = dict(sorted((example.id, tuple(sorted(label_set(example)))) for example in documents))
    ids_of = defaultdict(list)
    for name, labels in set_of.items():
        ids_of[labels].append(name)
    room = dict.fromkeys(("test", "valid"), round(len(set_of) * HELD_OUT_SHARE))
    wanted = dict(room)
    part_of: dict[str, str] = {}

    rare = sorted(labels for labels, ids in ids_of.items() if len(ids) <= MOST_DOCUMENTS)
    for labels in rng.sample(rare, len(rare)):
        part = max(room, key=room.__getitem__)
        if len(ids_of[labels]) <= room[part]:
            part_of |= dict.fromkeys(ids_of[labels], f"{part}_unseen")
            room[part] -= len(ids_of[labels])

    room = {part: wanted[part] - room[part] for part in room}
    left = Counter(labels for name, labels in set_of.items() if name not in part_of)
    rest = [name for name in set_of if name not in part_of]
    for name in rng.sample(rest, len(rest)):
        part = max(room, key=room.__getitem__)
        if left[set_of[name]] > 1 and room[part] > 0:
            part_of[name] = f"{part}_seen"
            room[part] -= 1
            left[set_of[name]] -= 1
    return part_of
