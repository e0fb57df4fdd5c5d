"""What every example must satisfy, whatever format it comes from or goes to."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import re
import unicodedata
from typing import Any

import numpy as np

from ...errors import nearest
from ...types import Example, SparseVector
from .classes import ClassList
from .source import ReadCounts, Source

LARGEST_FEATURE = 1e15  # sums of squares of larger ones leave the range of float32
LARGEST_LIST_CELL = 1 << 20  # characters of a cell that is looked at as a list
# What separates labels and terms in lines of text. A no-break space does not: it is part of a name.
BLANKS = " \t\v\f\r\n"
_BLANKS = re.compile(f"[{BLANKS}]+")
# Chinese, Japanese, Thai, Lao, Burmese and Khmer, which put no blanks between words
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_QUOTED = r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\""
# a list, tuple or set of Python, as pandas and NumPy write one; at least one name, since {} and () say nothing
_ITEMS = rf"\s*+(?:(?:{_QUOTED})\s*+,?+\s*+)++"
_LIST = re.compile(rf"\[{_ITEMS}\]|\({_ITEMS}\)|\{{{_ITEMS}\}}|set\(\)")


def checked(
    example: Example,
    source: Source,
    classes: ClassList | None = None,
    case: str = "keep",
    clean: bool = True,
    empty: str = "none",
) -> Example:
    """The example with each of its labels once, or the error that says what is wrong with it.

    `empty`: whether an example without labels has none, or its labels are unknown.
    With a class list, labels may be its indices and come out as its names. `clean`: labels lose the blanks around them
    and are composed (NFC), then take the `case` that is wanted."""
    counts = source.counts
    if example.features is not None and (problem := features_problem(example.features)):
        raise source.error(f"{problem}; correct or leave out this example.")
    if not 0 < example.weight < float("inf"):
        raise source.error(f"the weight is {example.weight}, expected a positive number; leave out what is to count 0.")
    repeated = False
    if example.labels is not None and example.unknown is not None:
        labels, unknown = _names(example, source, classes, case, clean)
        unique = tuple(dict.fromkeys(labels))
        repeated = len(unique) < len(labels)
        if unique != example.labels or unknown != example.unknown:
            example = dataclasses.replace(example, labels=unique, unknown=unknown)
        if empty == "unknown" and not unique and not unknown:
            example = dataclasses.replace(example, unknown=None)
    # counted once nothing is wrong with it
    counts.examples += 1
    counts.empty_texts += example.text is not None and not example.text.strip()
    counts.unknown += example.labels is not None and example.unknown is None
    counts.unlabelled += example.labels == () and example.unknown is not None
    counts.repeated_labels += repeated
    counts.unspaced += example.text is not None and is_unspaced(example.text)
    return example


def is_unspaced(text: str) -> bool:
    """Whether most of it is of a script without blanks between words."""
    return not text.isascii() and 2 * len(UNSPACED.findall(text)) > len(text)


def _names(
    example: Example, source: Source, classes: ClassList | None, case: str, clean: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Labels it has, and labels it may have, each valid and spelled as the settings say."""
    assert example.labels is not None
    assert example.unknown is not None
    labels, unknown = example.labels, example.unknown
    if clean:
        labels, unknown = (tuple(map(clean_label, names)) for names in (labels, unknown))
        source.counts.cleaned_labels += labels != example.labels or unknown != example.unknown
    if classes is not None:
        labels, unknown = (tuple(classes.name(label, source) for label in names) for names in (labels, unknown))
    if case != "keep":
        change = str.lower if case == "lower" else str.upper
        labels, unknown = (tuple(map(change, names)) for names in (labels, unknown))
    for label in (*labels, *unknown):
        if problem := label_problem(label):
            raise source.label_error(f"{problem}; correct or remove it.")
    if both := set(labels) & set(unknown):
        raise source.label_error(f"the label {min(both)!r} is both given and unknown; remove it from one of the two.")
    return labels, unknown


def clean_label(label: str) -> str:
    """The one rule for names of labels, in every format: no blanks around them, composed Unicode (NFC)."""
    label = label.strip()
    return label if label.isascii() else unicodedata.normalize("NFC", label)


def label_problem(label: str) -> str | None:
    if not label.strip():
        return f"the label {label!r} is empty, expected a name"
    # Printable is the rule and cheap to test; of the rest only what would break a line or a terminal is refused.
    if not label.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in label):
        return f"the label {label!r} holds a control character or line break, expected plain text"
    return None


def features_problem(features: SparseVector | np.ndarray) -> str | None:
    values = features.values if isinstance(features, SparseVector) else features
    if isinstance(features, np.ndarray) and not values.size:
        return f"the features have shape {values.shape} and hold no number, expected at least one"
    if values.dtype == np.uint8 or not values.size:
        return None
    largest = max(abs(float(values.min())), abs(float(values.max())))  # NaN where one of them is
    if not math.isfinite(largest):
        return "the features hold NaN or infinity, expected finite numbers"
    if largest > LARGEST_FEATURE:
        return f"the features hold {largest:.3g}, expected at most {LARGEST_FEATURE:.0e} in size; scale them"
    return None


def text_value(value: Any, field: str, source: Source, known: list[str]) -> str:
    if value is None:
        hint = nearest(field, known)
        raise source.error(
            f"the field {field!r} is missing, expected a string; add it or set data.text_field to its name.{hint}"
        )
    if not isinstance(value, str):
        raise source.error(f"the field {field!r} is {kind_of(value)}, expected a string; quote it.")
    return value


def label_list(value: Any, field: str, source: Source, known: list[str]) -> tuple[str, ...]:
    """A list of labels as JSON and Parquet hold it."""
    if value is None:
        raise source.error(
            f"the field {field!r} is missing, expected a list of labels; "
            f"add it ([] for none) or set data.labels_field to its name.{nearest(field, known)}"
        )
    if not isinstance(value, list):
        name = "--separator (data.label_separator)"
        joined = f", or say with {name} what separates the labels in it" if isinstance(value, str) else ""
        raise source.error(
            f'the field {field!r} is {kind_of(value)}, expected a list of labels; write it as ["one", "two"]{joined}.'
        )
    for label in value:
        if not isinstance(label, str):
            raise source.error(
                f"the field {field!r} holds {kind_of(label)} ({label!r}), expected a list of strings; quote each label."
            )
    return tuple(value)


def cell_labels(cell: str, separator: str, counts: ReadCounts | None = None) -> tuple[str, ...]:
    """The labels in one cell of a table: a list as JSON or Python writes it, or names with a separator between."""
    names = listed_labels(cell)
    if counts is not None:
        counts.cells += names is None
        counts.list_cells += names is not None
    return split_labels(cell, separator) if names is None else names


def listed_labels(cell: str) -> tuple[str, ...] | None:
    """`["a", "b"]` of JSON, `['a', 'b']` of pandas, `['a' 'b']` of NumPy, a tuple or set of Python; None where the cell
    is no such list."""
    cell = cell.strip()
    if not (cell.startswith(("[", "(", "{", "set(")) and cell.endswith(("]", ")", "}"))):
        return None
    if len(cell) > LARGEST_LIST_CELL:
        return None
    if not cell.startswith("["):
        return _python_list(cell)
    try:
        names = json.loads(cell)
    except (ValueError, RecursionError):
        return _python_list(cell)
    if not all(isinstance(name, str | int) and not isinstance(name, bool) for name in names):
        return None
    return tuple(map(str, names))


def _python_list(cell: str) -> tuple[str, ...] | None:
    if not _LIST.fullmatch(cell):
        return None
    try:
        return tuple(ast.literal_eval(quoted) for quoted in re.findall(_QUOTED, cell))
    except (ValueError, SyntaxError):
        return None


def split_labels(cell: str, separator: str) -> tuple[str, ...]:
    """The names in a cell, blanks around them dropped; one more separator at the end means nothing. A blank as the
    separator stands for any run of blanks."""
    if not cell.strip():
        return ()
    if separator == " ":
        return tuple(_BLANKS.split(cell.strip(BLANKS)))
    names = tuple(part.strip() for part in cell.split(separator))
    return names if names[-1] or len(names) == 1 else names[:-1]


def kind_of(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else f"a {type(value).__name__}")
