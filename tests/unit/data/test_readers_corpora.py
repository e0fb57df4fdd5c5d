"""The real corpora, against the numbers their descriptions give."""

import itertools
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from orderfree.config import DataConfig
from orderfree.data.readers import ReadCounts, read_examples
from orderfree.errors import DataError

CORPORA = Path(os.environ.get("ORDERFREE_DATA", Path(__file__).parents[3] / ".." / "shared" / "data"))


@pytest.fixture(autouse=True)
def _corpora():
    if not CORPORA.is_dir():
        pytest.skip("no corpora: set ORDERFREE_DATA")


@pytest.mark.parametrize(
    ("part", "documents", "per_document", "earn"), [("train", 7769, 1.2336, 2877), ("test", 3019, 1.2401, 1087)]
)
def test_reuters(part, documents, per_document, earn):
    counts = ReadCounts()
    path = CORPORA / "reuters21578" / f"{part}.jsonl.gz"
    labels = Counter()
    ids = set()
    for example in read_examples(path, DataConfig(), labelled=True, counts=counts):
        labels.update(example.labels)
        ids.add(example.id)
    assert counts == ReadCounts(examples=documents)
    assert len(ids) == documents
    assert sorted(labels) == (CORPORA / "reuters21578" / "labels.txt").read_text().split()
    assert round(labels.total() / documents, 4) == per_document
    assert labels["earn"] == earn


def test_aapd_validation_part():
    examples = list(read_examples(CORPORA / "aapd" / "val.jsonl.gz", DataConfig(), labelled=True))
    assert len(examples) == 1000
    assert min(len(example.labels) for example in examples) == 2
    assert {name for e in examples for name in e.labels} <= set((CORPORA / "aapd" / "labels.txt").read_text().split())


def test_audioset_first_clips():
    path = CORPORA / "audioset" / "eval.npz"
    with np.load(path) as archive:
        ids, frames, targets, names = (archive[name] for name in ("ids", "n_frames", "Y", "label_names"))
    counts = ReadCounts()
    examples = list(itertools.islice(read_examples(path, DataConfig(), labelled=True, counts=counts), 500))
    assert counts.examples == 500
    assert [e.id for e in examples] == ids[:500].tolist()
    assert [e.features.shape for e in examples] == [(int(n), 128) for n in frames[:500]]
    assert [set(e.labels) for e in examples] == [set(names[row == 1].tolist()) for row in targets[:500]]
    assert examples[0].features.dtype == np.uint8
    assert 0 <= examples[0].features.min() < examples[0].features.max() <= 255


def test_a_sparse_archive_is_answered_with_what_it_holds():
    with pytest.raises(DataError, match=r"'X' is missing, the file holds .*X_data"):
        next(read_examples(CORPORA / "rcv1" / "subsets_tfidf.npz", DataConfig(), labelled=True))
