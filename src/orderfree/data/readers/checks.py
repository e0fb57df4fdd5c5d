"""What every example must satisfy, whatever format it comes from or goes to."""

from __future__ import annotations

import dataclasses
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import nearest
from ...types import Example, SparseVector
from .classes import ClassList
from .source import Source


@dataclass
class ReadCounts:
    """What was noticed in a file and is no error."""

    examples: int = 0
    repeated_labels: int = 0  # examples that named a label more than once
    empty_texts: int = 0
    unlabelled: int = 0  # examples that say they have no label
    unknown: int = 0  # examples that say nothing is known of their labels
    skipped: int = 0  # examples that were damaged and left out, where that is allowed


def checked(example: Example, source: Source, counts: ReadCounts, classes: ClassList | None = None) -> Example:
    """The example with each of its labels once, or the error that says what is wrong with it.

    With a class list, labels may be its indices and come out as its names."""
    if example.text is not None and not example.text.strip():
        counts.empty_texts += 1
    if example.features is not None and (problem := features_problem(example.features)):
        raise source.error(f"{problem}; correct or leave out this example.")
    counts.examples += 1
    if not 0 < example.weight < float("inf"):
        raise source.error(f"the weight is {example.weight}, expected a positive number; leave out what is to count 0.")
    if example.labels is None:
        return example
    if example.unknown is None:
        counts.unknown += 1
        return example
    if classes is not None:
        labels, unknown = (
            tuple(classes.name(label, source) for label in given) for given in (example.labels, example.unknown)
        )
        example = dataclasses.replace(example, labels=labels, unknown=unknown)
    assert example.labels is not None
    assert example.unknown is not None
    for label in (*example.labels, *example.unknown):
        if problem := label_problem(label):
            raise source.label_error(f"{problem}; correct or remove it.")
    if both := set(example.labels) & set(example.unknown):
        raise source.label_error(f"the label {min(both)!r} is both given and unknown; remove it from one of the two.")
    if not example.labels:
        counts.unlabelled += 1
    unique = tuple(dict.fromkeys(example.labels))
    if len(unique) == len(example.labels):
        return example
    counts.repeated_labels += 1
    return dataclasses.replace(example, labels=unique)


def label_problem(label: str) -> str | None:
    if not label.strip():
        return f"the label {label!r} is empty, expected a name"
    # Printable is the rule and cheap to test; of the rest only what would break a line or a terminal is refused.
    if not label.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in label):
        return f"the label {label!r} holds a control character or line break, expected plain text"
    return None


def features_problem(features: SparseVector | np.ndarray) -> str | None:
    values = features.values if isinstance(features, SparseVector) else features
    return None if np.isfinite(values).all() else "the features hold NaN or infinity, expected finite numbers"


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
        raise source.error(
            f'the field {field!r} is {kind_of(value)}, expected a list of labels; write it as ["one", "two"].'
        )
    for label in value:
        if not isinstance(label, str):
            raise source.error(
                f"the field {field!r} holds {kind_of(label)} ({label!r}), expected a list of strings; quote each label."
            )
    return tuple(value)


def split_labels(cell: str, separator: str) -> tuple[str, ...]:
    """The labels in one cell, blanks around them dropped; a blank as the separator stands for any run of blanks."""
    if not cell.strip():
        return ()
    return tuple(part.strip() for part in cell.split(None if separator == " " else separator))


def kind_of(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else f"a {type(value).__name__}")
