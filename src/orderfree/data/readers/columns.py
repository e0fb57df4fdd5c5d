"""Which columns of a table are read, and what a row of them says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...config import DataConfig
from ...errors import nearest
from ...types import Example
from .checks import cell_labels, label_list, text_value
from .recognise import FLAGS, TEXT_JOINT, Look, recognised
from .source import Source

ALL_OTHERS = ["*"]


@dataclass(frozen=True)
class Columns:
    """Which columns are read, by name."""

    texts: tuple[str, ...]
    id: str | None
    labels: str | None
    flags: tuple[str, ...]  # one 0/1 column per label
    features: str | None = None  # instead of text (Parquet)
    unknown: str | None = None

    def names(self) -> list[str]:
        own = (*self.texts, self.features, self.id, self.labels, *self.flags, self.unknown)
        return [name for name in own if name is not None]


def table_examples(rows: Iterator[Sequence[Any]], look: Look, source: Source, options: DataConfig) -> Iterator[Example]:
    """The examples of a table whose rows hold the cells of `look.names`."""
    options = recognised(look, options, source)
    source.dialect = (look.delimiter, look.encoding)
    columns = choose(look.names, options, source)

    def example(row: Sequence[Any]) -> Example:
        if len(row) != len(look.names):
            raise source.error(
                f"has {len(row)} cells, expected {len(look.names)} as in the header; "
                "quote cells that hold the delimiter or a line break."
            )
        source.record = dict(zip(look.names, row, strict=True))
        return row_example(source.record, columns, options, source)

    for row in rows:
        if (made := source.unless_bad(options.skip_bad, example, row)) is not None:
            yield made


def choose(names: list[str], options: DataConfig, source: Source, features: str | None = None) -> Columns:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise source.error(f"the column {repeated[0]!r} occurs twice in the header; rename one of them.")
    own_id = options.id_field if options.id_field in names else None
    texts: tuple[str, ...] = (options.text_field, *options.more_text_fields)
    features = features if features in names and options.text_field not in names else None
    if features is None:
        for name in texts:
            _require(name, names, "--text (data.text_field)", source)
    else:
        texts = ()
    if not source.labelled:
        return Columns(texts, own_id, None, (), features)
    if options.label_columns is None:
        setting = "--labels (data.labels_field)"
        _require(options.labels_field, names, setting, source, "expected a list of labels in it; ")
        unknown = options.unknown_field if options.unknown_field in names else None
        return Columns(texts, own_id, options.labels_field, (), features, unknown)
    flags = options.label_columns
    if flags == ALL_OTHERS:
        flags = [name for name in names if name not in (*texts, own_id, features)]
    for flag in flags:
        _require(flag, names, "data.label_columns", source)
    return Columns(texts, own_id, None, tuple(flags), features)


def _require(name: str, names: list[str], setting: str, source: Source, expected: str = "") -> None:
    if name not in names:
        known = ", ".join(map(repr, names[:20])) + (" …" if len(names) > 20 else "")
        raise source.error(
            f"the column {name!r} is missing, {expected}the columns are {known}; "
            f"add it or name another with {setting}.{nearest(name, names)}"
            + " If lines stand above the names of the columns, remove them."
            * (len(names) == 1)
        )


def row_example(row: dict[str, Any], columns: Columns, options: DataConfig, source: Source) -> Example:
    several = len(columns.texts) > 1
    texts = [text_value(row[name] or "" if several else row[name], name, source, []) for name in columns.texts]
    text = TEXT_JOINT.join(filter(None, texts)) if texts else None
    labels: tuple[str, ...] | None = None
    unknown: tuple[str, ...] | None = ()
    if columns.labels is not None and row[columns.labels] is None:  # Parquet's null
        labels, unknown = (), None
    elif columns.labels is not None:
        labels = _cell_labels(row[columns.labels], columns.labels, options, source)
        if columns.unknown is not None and row[columns.unknown] is not None:
            unknown = _cell_labels(row[columns.unknown], columns.unknown, options, source)
    elif source.labelled:
        given = {name: _flag(row[name], name, source) for name in columns.flags}
        labels = tuple(name for name, flag in given.items() if flag)
        unknown = tuple(name for name, flag in given.items() if flag is None)
        unknown = None if given and len(unknown) == len(given) else unknown
    own_id = source.example_id(row[columns.id] if columns.id else None)
    return Example(own_id, text=text, labels=labels, unknown=unknown)


def _cell_labels(value: Any, column: str, options: DataConfig, source: Source) -> tuple[str, ...]:
    if isinstance(value, str):
        return cell_labels(value, options.label_separator, source.counts)
    if options.classes is not None and isinstance(value, list):  # indices of the class list
        value = [str(label) if isinstance(label, int) else label for label in value]
    return label_list(value, column, source, [])


def _flag(value: Any, name: str, source: Source) -> bool | None:
    """None: an empty cell, which says that it is not known."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    flag = FLAGS.get(str(value).strip().casefold())
    if flag is None:
        raise source.error(
            f"the column {name!r} holds {value!r}, expected 0 or 1, or nothing where it is not known; "
            "correct it or leave the column out of data.label_columns."
        )
    return flag
