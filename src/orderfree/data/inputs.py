"""What callers hold in memory (texts, dicts, examples) as examples; anything else is refused in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..config import DataConfig
from ..errors import DataError
from ..types import Example

Input = str | Mapping[str, Any] | Example


def as_examples(inputs: Iterable[Input], options: DataConfig, labelled: bool = False) -> Iterator[Example]:
    """Texts, dicts with the fields of `options`, or examples; `labelled`: with labels, so that a text is not enough."""
    refuse_tables(inputs)
    for position, entry in enumerate(inputs):
        if isinstance(entry, Example):
            yield entry
        elif isinstance(entry, Mapping):
            yield _of_fields(entry, position, options, labelled)
        elif isinstance(entry, str) and not labelled:
            yield Example(str(position), text=entry)
        else:
            expected = 'a dict such as {"text": …, "labels": […]}' if labelled else "a text, a dict"
            raise DataError(
                f"input {position:,} is {_shown(entry)}, expected {expected} or an orderfree.Example; "
                "fill or leave out such rows."
            )


def refuse_tables(inputs: Any) -> None:
    """A single text and a data frame can be iterated over, but not by example."""
    if isinstance(inputs, str | bytes | Mapping):
        raise DataError(f"the input is {_shown(inputs)}, expected a list of them; put it in brackets: [input].")
    columns = getattr(inputs, "columns", None)
    if columns is not None:
        names = [str(name) for name in columns]
        text = "text" if "text" in names else names[0] if names else "text"
        raise DataError(
            f"the input is a data frame with the columns {', '.join(map(repr, names[:8]))}; give one column of texts, "
            f"frame[{text!r}], or a list of dicts."
        )


def _of_fields(entry: Mapping[str, Any], position: int, options: DataConfig, labelled: bool) -> Example:
    text = entry.get(options.text_field)
    features = entry.get(options.features_field)
    if not isinstance(text, str) and features is None:
        raise DataError(
            f"input {position:,} has no text under {options.text_field!r} (its keys are "
            f"{', '.join(map(repr, list(entry)[:8]))}); add it or set data.text_field to its name."
        )
    own_id = str(entry.get(options.id_field, position))
    if not labelled:
        return Example(own_id, text=text, features=features if text is None else None)
    labels = entry.get(options.labels_field, ...)
    if labels is not None and not (
        isinstance(labels, list | tuple | set | frozenset) and all(isinstance(name, str) for name in labels)
    ):
        found = "nothing" if labels is ... else _shown(labels)
        raise DataError(
            f"input {position:,} has {found} under {options.labels_field!r}, expected a list of names; write [] for no "
            "label and None where labels are not known."
        )
    unknown = None if labels is None else ()
    return Example(own_id, text, features if text is None else None, tuple(labels or ()), unknown=unknown)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} …"
