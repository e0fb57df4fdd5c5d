"""Encoded corpora on disk and the batches drawn from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orderfree.config import DataConfig
from orderfree.data import corpus as corpus_module
from orderfree.data.batching import length_bucketed
from orderfree.data.corpus import Corpus, encode_corpora
from orderfree.data.featurizers import kinds
from orderfree.data.labels import LabelVocabulary
from orderfree.nn.encoders.bilstm import BiLSTMOptions
from orderfree.nn.encoders.dense import DenseOptions
from orderfree.nn.encoders.sparse import SparseOptions
from orderfree.types import Example

OPTIONS = {"tokens": BiLSTMOptions(), "bag": SparseOptions(), "dense": DenseOptions()}
NAMES = ("a", "b", "c", "d")


def make_examples(kind: str, count: int) -> list[Example]:
    generator = np.random.default_rng(2)
    made = []
    for n in range(count):
        length = int(generator.integers(1, 12))
        labels = tuple(name for name in NAMES if generator.random() < 0.4)
        if n == 0:
            labels = NAMES
        if kind == "dense":
            made.append(Example(str(n), features=generator.normal(size=(length, 3)).astype(np.float32), labels=labels))
        else:
            drawn = generator.choice(["red", "fish", "blue", "pond", "swim"], size=length)
            made.append(Example(str(n), text=" ".join(drawn), labels=labels))
    return made


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("rows_per_chunk", [3, 5, 4096])
def test_round_trip_over_chunks(
    kind: str, rows_per_chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "ROWS_PER_CHUNK", rows_per_chunk)
    examples = make_examples(kind, 20)
    labels = LabelVocabulary.count([example.labels or () for example in examples], "x")
    featurizer = kinds()[kind].fit(examples, DataConfig(), OPTIONS[kind])
    parts = [n % 3 == 0 for n in range(20)]
    paths = [tmp_path / "train.arrow", tmp_path / "valid.arrow"]
    counts = encode_corpora(zip(map(int, parts), examples, strict=True), paths, featurizer, labels)
    assert [c.examples for c in counts] == [13, 7]
    for part, path in enumerate(paths):
        kept = [example for example, where in zip(examples, parts, strict=True) if where == part]
        corpus = Corpus(path, featurizer, labels)
        assert len(corpus) == len(kept)
        for row, example in enumerate(kept):
            encoded = featurizer.encode(example)
            assert corpus.lengths[row] == encoded.length
            for name, values in encoded.arrays.items():
                np.testing.assert_array_equal(corpus._columns[name][row], values)
        order = np.random.default_rng(0).permutation(len(kept))
        batch = corpus.batch(order)
        expected = featurizer.collate([featurizer.encode(kept[row]).arrays for row in order])
        for field in expected.__slots__:
            np.testing.assert_array_equal(getattr(batch.inputs, field), getattr(expected, field))
        for place, row in enumerate(order):
            wanted = {labels.names[i] for i in batch.targets[place].nonzero()[:, 0].tolist()}
            assert wanted == set(kept[row].labels or ())


def encoded_corpus(examples: list[Example], directory: Path, labels: LabelVocabulary, **data) -> Corpus:
    featurizer = kinds()["tokens"].fit(examples, DataConfig(**data), BiLSTMOptions())
    encode_corpora(((0, example) for example in examples), [directory / "x.arrow"], featurizer, labels)
    return Corpus(directory / "x.arrow", featurizer, labels)


def test_labels_the_model_does_not_know_are_no_targets(tmp_path: Path) -> None:
    labels = LabelVocabulary.count([("a",), ("b",)], "train")
    examples = [
        Example("1", text="red", labels=("new", "b")),
        Example("2", text="red", labels=("other",)),
        Example("3", text="red", labels=()),
        Example("4", text="red", labels=None),
    ]
    corpus = encoded_corpus(examples, tmp_path, labels)
    assert corpus.batch(np.arange(4)).targets.tolist() == [[False, True], *[[False, False]] * 3]


def test_batches_cover_every_row_once_short_ones_first(tmp_path: Path) -> None:
    examples = make_examples("tokens", 23)
    labels = LabelVocabulary.count([example.labels or () for example in examples], "x")
    corpus = encoded_corpus(examples, tmp_path, labels)
    batches = list(corpus.batches(5))
    assert [len(batch.rows) for batch in batches] == [5, 5, 5, 5, 3]
    rows = np.concatenate([batch.rows.numpy() for batch in batches])
    assert sorted(rows.tolist()) == list(range(23))
    assert (np.diff(corpus.lengths[rows]) >= 0).all()


def test_truncated_texts_are_counted(tmp_path: Path) -> None:
    examples = [Example("1", text="a b c d", labels=("x",)), Example("2", text="a b", labels=("y",))]
    labels = LabelVocabulary.count([example.labels or () for example in examples], "x")
    featurizer = kinds()["tokens"].fit(examples, DataConfig(max_words=3), BiLSTMOptions())
    (counts,) = encode_corpora(((0, e) for e in examples), [tmp_path / "x.arrow"], featurizer, labels)
    assert (counts.examples, counts.truncated) == (2, 1)


def test_a_part_may_be_empty(tmp_path: Path) -> None:
    examples = make_examples("bag", 4)
    labels = LabelVocabulary.count([example.labels or () for example in examples], "x")
    featurizer = kinds()["bag"].fit(examples, DataConfig(), SparseOptions())
    paths = [tmp_path / "a.arrow", tmp_path / "b.arrow"]
    encode_corpora(((0, example) for example in examples), paths, featurizer, labels)
    nothing = Corpus(paths[1], featurizer, labels)
    assert len(nothing) == 0
    assert list(nothing.batches(4)) == []


# --- batches of one epoch ---------------------------------------------------------------------------------------------

LENGTHS = np.random.default_rng(0).integers(1, 500, size=7013)


def padding(batches: list[np.ndarray]) -> int:
    return sum(int((LENGTHS[rows].max() - LENGTHS[rows]).sum()) for rows in batches)


def test_every_row_once_an_epoch() -> None:
    batches = length_bucketed(LENGTHS, 32, seed=1, epoch=0)
    rows = np.concatenate(batches)
    assert len(rows) == len(LENGTHS)
    assert (np.sort(rows) == np.arange(len(LENGTHS))).all()
    assert max(map(len, batches)) == 32
    assert len(batches) == -(-len(LENGTHS) // 32)


def test_batches_are_a_function_of_seed_and_epoch() -> None:
    def flat(seed: int, epoch: int) -> list[int]:
        return np.concatenate(length_bucketed(LENGTHS, 32, seed, epoch)).tolist()

    assert flat(1, 3) == flat(1, 3)
    assert flat(1, 3) != flat(1, 4)
    assert flat(1, 3) != flat(2, 3)


def test_little_is_padded() -> None:
    order = np.random.default_rng(5).permutation(len(LENGTHS))
    random = [order[start : start + 32] for start in range(0, len(order), 32)]
    assert padding(length_bucketed(LENGTHS, 32, 1, 0)) < 0.1 * padding(random)


def test_short_batches_do_not_come_first() -> None:
    means = [LENGTHS[rows].mean() for rows in length_bucketed(LENGTHS, 32, 1, 0)]
    half = len(means) // 2
    assert abs(np.mean(means[:half]) - np.mean(means[half:])) < 60


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_rows(count: int) -> None:
    batches = length_bucketed(np.ones(count, dtype=np.int64), 32, 1, 0)
    assert sum(map(len, batches)) == count
