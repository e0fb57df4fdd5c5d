"""Encoded corpora as memory-mapped Arrow files: memory does not grow with the corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse
import torch

from ..scoring.candidates import Shortlists
from ..types import Batch, Example, with_scores
from .featurizers import Arrays, Featurizer, encode_all
from .featurizers.bag import as_matrix
from .labels import LabelVocabulary

ROWS_PER_CHUNK = 4096
BYTES_PER_CHUNK = 1 << 27
ENCODED_AT_ONCE = 512


@dataclass
class CorpusCounts:
    """What was noticed while a corpus was encoded."""

    examples: int = 0
    truncated: int = 0


def encode_corpora(
    examples: Iterable[tuple[int, Example]], paths: Sequence[Path], featurizer: Featurizer, labels: LabelVocabulary
) -> list[CorpusCounts]:
    """One pass over (part, example) pairs, written to the Arrow file of each part."""
    schema = _schema(featurizer)
    counts = [CorpusCounts() for _ in paths]
    sinks = [pa.OSFile(str(path), "wb") for path in paths]
    writers = [pa.ipc.new_file(sink, schema) for sink in sinks]
    pending: list[list[tuple[Example, Arrays, int]]] = [[] for _ in paths]
    waiting = [0 for _ in paths]  # bytes of what is pending
    remaining = iter(examples)
    try:
        while some := list(islice(remaining, ENCODED_AT_ONCE)):
            for (part, example), encoded in zip(
                some, encode_all(featurizer, [example for _, example in some]), strict=True
            ):
                counts[part].examples += 1
                counts[part].truncated += encoded.truncated
                pending[part].append((example, encoded.arrays, encoded.length))
                waiting[part] += sum(array.nbytes for array in encoded.arrays.values())
                if len(pending[part]) == ROWS_PER_CHUNK or waiting[part] > BYTES_PER_CHUNK:
                    writers[part].write(_record_batch(pending[part], schema, labels))
                    pending[part].clear()
                    waiting[part] = 0
        for part, rows in enumerate(pending):
            if rows:
                writers[part].write(_record_batch(rows, schema, labels))
    finally:
        for writer, sink in zip(writers, sinks, strict=True):
            writer.close()
            sink.close()
    return counts


def _schema(featurizer: Featurizer) -> pa.Schema:
    arrays = [(name, pa.large_list(pa.from_numpy_dtype(kind))) for name, kind in featurizer.columns.items()]
    return pa.schema(
        [
            ("length", pa.int32()),
            ("weight", pa.float32()),
            ("labels", pa.large_list(pa.int32())),
            ("unknown", pa.large_list(pa.int32())),
            *arrays,
        ]
    )


def _record_batch(
    rows: list[tuple[Example, Arrays, int]], schema: pa.Schema, labels: LabelVocabulary
) -> pa.RecordBatch:
    known = [np.asarray(labels.known(example.labels or ()), dtype=np.int32) for example, _, _ in rows]
    columns = [
        pa.array([length for _, _, length in rows], pa.int32()),
        pa.array([example.weight for example, _, _ in rows], pa.float32()),
        _ragged(known, pa.int32()),
        _ragged([np.asarray(labels.known(e.unknown or ()), dtype=np.int32) for e, _, _ in rows], pa.int32()),
    ]
    for place in range(len(columns), len(schema)):
        name, kind = schema.field(place).name, schema.field(place).type.value_type
        columns.append(_ragged([arrays[name] for _, arrays, _ in rows], kind))
    return pa.record_batch(columns, schema=schema)


def _ragged(rows: list[np.ndarray], kind: pa.DataType) -> pa.LargeListArray:
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(rows), kind))


class Corpus:
    """Random access to an encoded corpus on disk; only the lengths are held in memory."""

    def __init__(self, path: Path, featurizer: Featurizer, labels: LabelVocabulary) -> None:
        self.featurizer, self.vocabulary = featurizer, labels
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()  # zero-copy: columns point into the mapped file
        self.lengths: np.ndarray = table["length"].to_numpy()  # (N,)
        weights = table["weight"].to_numpy().copy()  # (N,)
        self.weights: np.ndarray | None = weights if (weights != 1).any() else None  # None: all examples count the same
        self.scores: np.ndarray | None = None  # (N, L) of linear classifiers that have not seen the example
        self.shortlists: Shortlists | None = None  # of a scorer that has not seen the examples; None: all labels
        self.shortlisted_rows: np.ndarray | None = None  # (n,) ascending, which examples they are of; None: all
        self._columns = {name: _RaggedColumn(table[name]) for name in ("labels", "unknown", *featurizer.columns)}
        self.has_unknown = any(len(values) for values in self._columns["unknown"].values)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def decodable(self) -> np.ndarray:
        """(n,) the rows that decoders can be trained on."""
        return np.arange(len(self)) if self.shortlisted_rows is None else self.shortlisted_rows

    def batch(self, rows: np.ndarray) -> Batch:
        arrays = [{name: self._columns[name][row] for name in self.featurizer.columns} for row in rows]
        inputs = self.featurizer.collate(arrays)
        weights = None if self.weights is None else torch.from_numpy(self.weights[rows])
        if self.shortlists is not None:
            at = rows if self.shortlisted_rows is None else np.searchsorted(self.shortlisted_rows, rows)
            labels = self.shortlists.labels[at]  # (B, C)
            ids = torch.from_numpy(labels.astype(np.int64))
            inputs = with_scores(inputs, labels=ids, **self.shortlists.tensors(at))
            targets, unknown = self._inside("labels", rows, labels), None
            if self.has_unknown:
                unknown = torch.from_numpy(self._inside("unknown", rows, labels))
            return Batch(inputs, torch.from_numpy(targets), torch.from_numpy(rows), weights, unknown, ids)
        if self.scores is not None:
            inputs = with_scores(inputs, scores=torch.from_numpy(self.scores[rows]))
        missing = self.unknown(rows)
        return Batch(
            inputs,
            torch.from_numpy(self.targets(rows)),
            torch.from_numpy(rows),
            weights,
            None if missing is None else torch.from_numpy(missing),
        )

    def _inside(self, column: str, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """(B, C) bool: which of the candidates `labels` (B, C) stand in this column."""
        pairs = zip(rows, labels, strict=True)
        return np.stack([np.isin(candidates, self._columns[column][row]) for row, candidates in pairs])

    def target_matrix(self) -> scipy.sparse.csr_matrix:
        """(N, L) sparse."""
        return self._matrix("labels")

    def unknown_matrix(self) -> scipy.sparse.csr_matrix:
        """(N, L) sparse: labels of which it is not known whether they are there."""
        return self._matrix("unknown")

    def _matrix(self, column: str) -> scipy.sparse.csr_matrix:
        labels, rows = self._entries(column)
        values = np.ones(len(labels), dtype=np.float32)
        shape = (len(self), len(self.vocabulary))
        return scipy.sparse.csr_matrix((values, (rows, labels)), shape=shape)

    def targets(self, rows: Iterable[int] | None = None) -> np.ndarray:
        """(B, L) bool, of all examples where no rows are given."""
        rows = range(len(self)) if rows is None else rows
        return self.vocabulary.one_hot([self._columns["labels"][row] for row in rows])

    def unknown(self, rows: Iterable[int] | None = None) -> np.ndarray | None:
        """(B, L) bool, labels of which it is not known whether they are there; None where that is never so."""
        if not self.has_unknown:
            return None
        rows = range(len(self)) if rows is None else rows
        return self.vocabulary.one_hot([self._columns["unknown"][row] for row in rows])

    def label_entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Every label of every example: the labels (P,) and the rows (P,) that have them."""
        return self._entries("labels")

    def _entries(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        column = self._columns[name]
        counts = np.concatenate([np.zeros(0, np.int64), *(np.diff(offsets) for offsets in column.offsets)])
        labels = [values[ends[0] : ends[-1]] for values, ends in zip(column.values, column.offsets, strict=True)]
        return np.concatenate([np.zeros(0, np.int32), *labels]), np.repeat(np.arange(len(self)), counts)

    def bag_matrix(self, terms: int) -> scipy.sparse.csr_matrix:
        """(N, V) of a corpus of bags with so many terms."""
        rows = [{name: self._columns[name][row] for name in ("indices", "weights")} for row in range(len(self))]
        return as_matrix(rows, terms)

    def entries(self, column: str) -> int:
        """How many values this column has, of all examples together."""
        return sum(int(offsets[-1] - offsets[0]) for offsets in self._columns[column].offsets if len(offsets))

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """All examples once, short ones first, so that little is padded; `Batch.rows` says which is which."""
        order = np.argsort(self.lengths, kind="stable")
        for start in range(0, len(order), batch_size):
            yield self.batch(order[start : start + batch_size])


class _RaggedColumn:
    """Rows of a chunked list column as views, without making a Python object per value."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.starts = np.cumsum([0, *(len(chunk) for chunk in column.chunks)])
        self.offsets = [chunk.offsets.to_numpy() for chunk in column.chunks]
        self.values = [chunk.values.to_numpy() for chunk in column.chunks]

    def __getitem__(self, row: int) -> np.ndarray:
        chunk = int(np.searchsorted(self.starts, row, side="right")) - 1
        place = int(row - self.starts[chunk])
        return self.values[chunk][self.offsets[chunk][place] : self.offsets[chunk][place + 1]]
