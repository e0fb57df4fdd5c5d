"""What the re-split by label sets promises, on any corpus that is large enough for it."""

from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from orderfree.data.corpora.aapd import resplit
from orderfree.errors import DataError
from orderfree.types import Example

# Sets of 1 … 9 documents, by number of label set; some sets are other orders of the same labels.
sizes = st.lists(st.integers(1, 9), min_size=5, max_size=40)
seeds = st.integers(0, 2**32)
halves = st.integers(1, 6)


def corpus_of(sizes):
    made = []
    for number, size in enumerate(sizes):
        for document in range(size):
            labels = (f"a{number % 5}", f"b{number // 5}")
            made.append(Example(f"{number}-{document}", text="", labels=labels[:: (-1) ** document]))
    return made


def split(documents, seed, held_out):
    try:
        return resplit(documents, seed, held_out)
    except DataError:
        assume(False)  # too small for parts of this size


@settings(deadline=None)
@given(sizes, seeds, halves)
def test_unseen_sets_are_not_in_training_and_seen_ones_are(sizes, seed, held_out):
    documents = corpus_of(sizes)
    part_of = split(documents, seed, held_out)
    parts = ("valid_seen", "valid_unseen", "test_seen", "test_unseen")
    assert Counter(part_of.values()) == dict.fromkeys(parts, held_out)
    assert part_of.keys() < {example.id for example in documents}
    sets = {part: set() for part in parts}
    training = Counter()
    for example in documents:
        if example.id in part_of:
            sets[part_of[example.id]].add(frozenset(example.labels))
        else:
            training[frozenset(example.labels)] += 1
    assert not (sets["valid_unseen"] | sets["test_unseen"]) & training.keys()
    assert all(training[labels] >= 2 for labels in sets["valid_seen"] | sets["test_seen"])


@settings(deadline=None)
@given(sizes, seeds, halves, st.randoms())
def test_the_order_of_the_documents_does_not_matter_and_the_seed_does(sizes, seed, held_out, random):
    documents = corpus_of(sizes)
    part_of = split(documents, seed, held_out)
    random.shuffle(documents)
    assert resplit(documents, seed, held_out) == part_of


def test_the_seed_decides():
    documents = corpus_of([1, 3, 5] * 12)
    assert len({tuple(sorted(resplit(documents, seed, 6).items())) for seed in range(5)}) == 5


def test_a_corpus_without_frequent_sets_is_refused():
    with pytest.raises(DataError, match="documents whose label set training keeps make up only 0"):
        resplit(corpus_of([2] * 30), seed=1, held_out=6)
