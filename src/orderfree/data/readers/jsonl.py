"""JSON Lines: one object on each line; blank lines are skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ...config import DataConfig
from ...errors import DataError
from ...types import Example
from .checks import kind_of, label_list, text_value
from .source import Source, readers


@readers.register("jsonl")
def read_jsonl(source: Source, options: DataConfig) -> Iterator[Example]:
    fields = {options.text_field, options.labels_field, options.unknown_field, options.id_field}
    for line in source.lines():
        if line.strip():
            example = source.unless_bad(options.skip_bad, _example, line, fields, options, source)
            if example is not None:
                yield example


def _example(line: str, fields: set[str], options: DataConfig, source: Source) -> Example:
    record = _record(line, fields, source)
    text = text_value(record.get(options.text_field), options.text_field, source, list(record))
    labels, unknown = _labels(record, options, source) if source.labelled else (None, ())
    if "\\u" in line:
        _refuse_half_characters(text, options.text_field, source)
        _refuse_half_characters(str(record.get(options.id_field)), options.id_field, source)
    return Example(source.example_id(record.get(options.id_field)), text=text, labels=labels, unknown=unknown)


def _labels(
    record: dict[str, Any], options: DataConfig, source: Source
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Labels it has, and labels it may have; null says that nothing is known."""
    field, known = options.labels_field, list(record)
    if field in record and record[field] is None:
        return (), None
    unknown = label_list(record.get(options.unknown_field, []), options.unknown_field, source, known)
    return label_list(record.get(field), field, source, known), unknown


def _record(line: str, fields: set[str], source: Source) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Of a key that stands twice, JSON would keep the last value without a word."""
        if len(found := dict(pairs)) < len(pairs):
            keys = [key for key, _ in pairs]
            if twice := next((key for key in keys if key in fields and keys.count(key) > 1), None):
                raise source.error(f"names the field {twice!r} twice; remove one of them.")
        return found

    try:
        record = json.loads(line, object_pairs_hook=once)
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise source.error(f"is not JSON ({reason}); expected one JSON object on each line.") from None
    if not isinstance(record, dict):
        raise source.error(f"is {kind_of(record)}, expected a JSON object; write one object on each line.")
    return record


def _refuse_half_characters(text: str, field: str, source: Source) -> None:
    """JSON can escape one half of a surrogate pair, which no UTF-8 file can hold and no tokenizer accepts."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"\\u{ord(text[error.start]):04x}"
        raise source.error(f"the field {field!r} holds half a character ({half}); remove or complete it.") from None
