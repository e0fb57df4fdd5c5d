"""What scikit-learn's users hold (columns of text, feature matrices, label lists, 0/1 matrices) as examples, and
label sets back as what they came as."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from ..types import Example, SparseVector
from .label_checks import forgotten_separator

Names = tuple[str, ...]
KINDS = ("lists", "array", "dense", "sparse", "column")


def is_text(inputs: Any) -> bool:
    """Whether this is a list, array or data-frame column of strings; a matrix of features is not."""
    if isinstance(inputs, str) or sparse.issparse(inputs) or len(getattr(inputs, "shape", (0,))) != 1:
        return False
    rows = _rows(inputs)
    return bool(rows) and any(isinstance(row, str) for row in rows)


def refuse_tables_of_text(inputs: Any) -> None:
    """A table or matrix of strings is neither a column of texts nor features: said before anything converts it."""
    if isinstance(inputs, str):
        raise ValueError("X is a single text, expected a list of them: [text].")
    if isinstance(inputs, list | tuple) and not inputs:
        raise ValueError("X is empty, expected texts, or a matrix of features with at least one row.")
    if isinstance(inputs, np.ndarray) and inputs.ndim == 2 and inputs.size and isinstance(inputs[0, 0], str):
        raise ValueError(f"X has the shape {inputs.shape} and holds texts; give one column, X[:, 0].")
    for name in getattr(inputs, "columns", ()):
        if any(isinstance(row, str) for row in _rows(inputs[name][:100])):
            raise ValueError(f"X is a data frame whose column {name!r} holds texts; give that column: X[{name!r}].")


def texts_of(inputs: Any) -> list[str]:
    rows = _rows(inputs)
    for place, row in enumerate(rows):
        if not isinstance(row, str):
            raise ValueError(f"X holds {row!r} at position {place}, expected a text: fill or leave out such rows.")
    return rows


def _rows(column: Any) -> list[Any]:
    """The entries of a list, NumPy array, or pandas, polars or Arrow column."""
    to_list = getattr(column, "to_list", None) or getattr(column, "to_pylist", None)
    if to_list is not None:
        return list(to_list())
    return list(column) if isinstance(column, list | tuple) else np.asarray(column).tolist()


def text_examples(texts: Sequence[str]) -> list[Example]:
    return [Example(str(place), text=text) for place, text in enumerate(texts)]


def feature_examples(matrix: Any, dense: bool) -> list[Example]:
    """Rows of a dense or CSR matrix (N, F), each as a dense vector, or as the numbers and values of its terms."""
    if dense:
        rows: Iterable[Any] = (matrix.toarray() if sparse.issparse(matrix) else matrix).astype(np.float32)
    else:
        rows = _sparse_rows(sparse.csr_array(matrix))
    return [Example(str(place), features=row) for place, row in enumerate(rows)]


def _sparse_rows(matrix: sparse.csr_array) -> Iterator[SparseVector]:
    matrix.sum_duplicates()  # and sorts: a term stands once, in its place
    for begin, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        yield SparseVector(matrix.indices[begin:end].astype(np.int32), matrix.data[begin:end].astype(np.float32))


@dataclass(frozen=True)
class Labelling:
    """How `y` says labels, to read it and to answer in the same way.

    lists   one list (or set, tuple) of labels an example; as an array where it was one
    dense   a 0/1 matrix (N, classes), sparse: the same as a CSR matrix
    column  one label an example: what scikit-learn calls multi-class

    None instead of a list says that nothing is known of an example's labels, NaN in a matrix that one label is not.
    """

    kind: Literal["lists", "array", "dense", "sparse", "column"]
    classes: np.ndarray  # (C,) as they stand in y; the numbers of the columns, or their names, where it is a matrix

    @property
    def names(self) -> Names:
        return tuple(str(name) for name in self.classes.tolist())

    @classmethod
    def stored(cls, kind: Any, classes: Any, known: Sequence[str]) -> Labelling:
        """What a file says of another y; `known` are the labels of its model. Anything else is a ValueError."""
        if kind not in KINDS or not isinstance(classes, list):
            raise ValueError("it does not say how its labels were given")
        labelling = cls(kind, as_classes(classes))
        if not set(known) <= set(labelling.names):
            raise ValueError("its classes are not the labels of its model")
        return labelling

    @classmethod
    def of(cls, y: Any) -> Labelling:
        if _is_lists(y):
            return cls("lists" if isinstance(y, list | tuple) else "array", _distinct(_rows(y)))
        _refuse_missing(y)
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import check_array, column_or_1d

        columns = getattr(y, "columns", None)  # of a data frame
        y = y if sparse.issparse(y) else np.asarray(y)
        if sparse.issparse(y) or (y.ndim == 2 and y.shape[1] > 1):
            matrix = check_array(y, accept_sparse="csr", input_name="y", ensure_all_finite="allow-nan")
            values = matrix.data if sparse.issparse(matrix) else matrix
            if not (np.isin(values, (0, 1)) | np.isnan(values)).all():
                raise ValueError("y is a matrix with something other than 0 and 1; write 1 for each label it has.")
            classes = np.arange(matrix.shape[1]) if columns is None else np.array(list(columns))
            return cls("sparse" if sparse.issparse(y) else "dense", classes)
        if y.dtype == object:  # of several types, which have no order
            return cls("column", _distinct([[label] for label in column_or_1d(y, warn=True).tolist()]))
        check_classification_targets(y)
        classes = np.unique(column_or_1d(y, warn=True))
        if separator := forgotten_separator(Counter(map(str, classes.tolist())), ""):
            warnings.warn(
                f"y holds one string per example, and strings such as "
                f"{next(name for name in map(str, classes.tolist()) if separator in name)!r} look like several labels "
                f"joined by {separator!r}; pass lists: [row.split({separator!r}) for row in y].",
                stacklevel=4,
            )
        return cls("column", classes)

    def alike(self, y: Any) -> Labelling:
        """How another y says the same labels; the columns of a matrix are these classes."""
        own = Labelling.of(y)
        if own.kind not in ("dense", "sparse"):
            return own
        if len(own.classes) != len(self.classes):
            raise ValueError(f"y has {len(own.classes)} columns, expected {len(self.classes)}, one for each class.")
        return Labelling(own.kind, self.classes)

    def read(self, y: Any) -> list[Names]:
        """The labels of every example, by name."""
        if self.kind in ("lists", "array"):
            return [tuple(str(_plain(label)) for label in _in_order(row)) for row in _rows(y)]
        if self.kind == "column":
            return [(str(label),) for label in np.asarray(y).ravel().tolist()]
        return self._named((y if sparse.issparse(y) else np.asarray(y)) == 1)

    def unknown(self, y: Any) -> list[Names | None]:
        """The labels of which it is not known whether each example has them; None: nothing is known."""
        if self.kind in ("lists", "array"):
            return [None if row is None else () for row in _rows(y)]
        if self.kind in ("column", "sparse"):
            return [()] * len(self.read(y))
        return [None if names == self.names else names for names in self._named(np.isnan(np.asarray(y, dtype=float)))]

    def _named(self, chosen: Any) -> list[Names]:
        """The columns that are chosen in each row of a matrix, by name."""
        matrix, names = sparse.csr_array(chosen), self.names
        return [
            tuple(names[column] for column in matrix.indices[begin:end])
            for begin, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
        ]

    def write(self, label_sets: Sequence[Names]) -> Any:
        """These sets as `y` would say them."""
        place = {name: column for column, name in enumerate(self.names)}
        ids = [[place[name] for name in names] for names in label_sets]
        if self.kind == "column":
            return self.classes[[own[0] for own in ids]]
        if self.kind in ("lists", "array"):
            rows = [self.classes[own].tolist() if own else [] for own in ids]
            return rows if self.kind == "lists" else _object_array(rows)
        ends = np.cumsum([0, *map(len, ids)])
        columns = [column for own in ids for column in sorted(own)]
        matrix = sparse.csr_array((np.ones(len(columns), dtype=np.int64), columns, ends), (len(ids), len(place)))
        return matrix if self.kind == "sparse" else matrix.toarray()


def _is_lists(y: Any) -> bool:
    """Whether every entry of y is itself a collection of labels, without being the row of a matrix."""
    if sparse.issparse(y) or len(getattr(y, "shape", (0,))) != 1:
        return False
    rows = [row for row in _rows(y) if row is not None]
    if rows and any(isinstance(row, list | tuple | set | frozenset) for row in rows):
        _refuse_missing(rows)
    if not rows or not all(isinstance(row, list | tuple | set | frozenset | np.ndarray) for row in rows):
        return False
    # [[0, 1], [1, 0]] is a matrix, as everywhere in scikit-learn; lists of names, or of different lengths, are not
    lengths = {len(row) for row in rows}
    return len(lengths) > 1 or any(isinstance(label, str) for row in rows for label in row) or isinstance(rows[0], set)


def _in_order(row: Any) -> list[Any]:
    """The labels of one example; those of a set by name, so that the order does not depend on the process."""
    if row is None:
        return []
    return sorted(row, key=str) if isinstance(row, set | frozenset) else list(row)


def _refuse_missing(y: Any) -> None:
    """NaN where a label or a list of labels is expected: it would become a label of that name."""
    if sparse.issparse(y) or len(getattr(y, "shape", (0,))) != 1:
        return
    for place, row in enumerate(_rows(y)):
        if _is_nan(row) or (isinstance(row, list | tuple | set | frozenset) and any(map(_is_nan, row))):
            raise ValueError(
                f"y holds NaN at position {place}, expected labels; leave out such rows, or give lists of labels: [] "
                "for no label, None where they are not known."
            )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def _distinct(rows: Sequence[Iterable[Any]]) -> np.ndarray:
    """All labels, by the names they have in a model."""
    distinct: dict[str, Any] = {}
    for label in (_plain(label) for row in rows if row is not None for label in row):
        if not isinstance(label, str | int | float):
            raise ValueError(
                f"y holds the label {label!r}, a {type(label).__name__}; name each label by a string or a number."
            )
        if type(distinct.setdefault(str(label), label)) is not type(label):
            raise ValueError("y holds labels that are written the same, such as 1 and '1'; name each in one way.")
    return as_classes([distinct[name] for name in sorted(distinct)])


def _plain(label: Any) -> Any:
    """A NumPy number or string as Python's own."""
    return label.item() if isinstance(label, np.generic) else label


def as_classes(labels: list[Any]) -> np.ndarray:
    """Labels as an array; where they are of several types, each stays what it is."""
    return np.array(labels) if len({type(label) for label in labels}) == 1 else _object_array(labels)


def _object_array(rows: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array
