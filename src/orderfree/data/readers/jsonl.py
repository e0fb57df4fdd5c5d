"""JSON Lines: one object on each line; blank lines are skipped."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from ...config import DataConfig
from ...errors import DataError
from ...types import Example
from .checks import cell_labels, kind_of, label_list, text_value
from .recognise import TEXT_JOINT, Look, recognised
from .source import Source, readers

LOOKED_AT = 200  # objects by which fields are recognised


@readers.register("jsonl")
def read_jsonl(source: Source, options: DataConfig) -> Iterator[Example]:
    yield from record_examples(source.lines(), source, options)


def look_at_jsonl(source: Source, options: DataConfig) -> Look:
    return look_at_records(source.lines(), source, options)


def record_examples(lines: Iterator[str], source: Source, options: DataConfig) -> Iterator[Example]:
    """`lines`: the text of one object each; while one is out, `source.line` is where it begins."""
    first = [(line, source.line) for line in islice(_filled(lines), 1)]
    if first and not _has_fields(first[0][0], options, source):
        first += [(line, source.line) for line in islice(_filled(lines), LOOKED_AT)]
        look = _look([line for line, _ in first])
        source.line = None
        options = recognised(look, options, source)
    fields = {options.text_field, *options.more_text_fields, options.labels_field, options.unknown_field}
    fields.add(options.id_field)
    for line, number in chain(first, ((line, source.line) for line in _filled(lines))):
        source.line = number
        example = source.unless_bad(options.skip_bad, _example, line, fields, options, source)
        if example is not None:
            yield example


def look_at_records(lines: Iterator[str], source: Source, options: DataConfig) -> Look:
    look = _look(list(islice(_filled(lines), LOOKED_AT)))
    source.line = None
    return look


def _filled(lines: Iterator[str]) -> Iterator[str]:
    return (line for line in lines if line.strip())


def _has_fields(line: str, options: DataConfig, source: Source) -> bool:
    """Whether the first object has the fields that are read; one that is damaged is left to whoever reads it."""
    names = _look([line]).names
    return not names or (options.text_field in names and (not source.labelled or options.labels_field in names))


def _look(lines: list[str]) -> Look:
    """Fields and values of these objects; what is no object is left to whoever reads it."""
    records = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            records.append(json.loads(line))
    records = [record for record in records if isinstance(record, dict)]
    return Look(list(dict.fromkeys(name for record in records for name in record)), records)


def _example(line: str, fields: set[str], options: DataConfig, source: Source) -> Example:
    record = source.record = _record(line, fields, source)
    text = _text(record, options, source)
    labels, unknown = _labels(record, options, source) if source.labelled else (None, ())
    if "\\u" in line:
        _refuse_half_characters(text, options.text_field, source)
        _refuse_half_characters(str(record.get(options.id_field)), options.id_field, source)
    return Example(source.example_id(record.get(options.id_field)), text=text, labels=labels, unknown=unknown)


def _text(record: dict[str, Any], options: DataConfig, source: Source) -> str:
    _refuse_tables(record, options.text_field, source)
    text = text_value(record.get(options.text_field), options.text_field, source, list(record))
    if not options.more_text_fields:
        return text
    more = [text_value(record.get(name) or "", name, source, list(record)) for name in options.more_text_fields]
    return TEXT_JOINT.join(filter(None, [text, *more]))


def _refuse_tables(record: dict[str, Any], field: str, source: Source) -> None:
    """One object may hold a whole table: a list of rows under some name, or a list of cells for each column."""
    wanted = "expected one object for each text"
    if isinstance(record.get(field), list | dict):
        raise source.error(
            f"the field {field!r} is {kind_of(record[field])}, {wanted}; write rows instead of columns (in pandas: "
            "frame.to_json(path, orient='records'))."
        )
    for name, value in record.items():
        if field not in record and isinstance(value, list) and value and isinstance(value[0], dict):
            raise source.error(f"the field {name!r} holds a list of objects, {wanted}; write this list alone: [{{…}}].")


def _labels(
    record: dict[str, Any], options: DataConfig, source: Source
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Labels it has, and labels it may have; null says that nothing is known."""
    field, known = options.labels_field, list(record)
    if field in record and record[field] is None:
        return (), None
    unknown = label_list(record.get(options.unknown_field, []), options.unknown_field, source, known)
    if isinstance(given := record.get(field), str) and "label_separator" in options.model_fields_set:
        return cell_labels(given, options.label_separator, source.counts), unknown
    return label_list(given, field, source, known), unknown


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
