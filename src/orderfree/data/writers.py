"""From examples to a file that reads back as the same examples, and from predictions to a file.

A format that cannot hold an example (a line break in a text, a blank in a label) says so; nothing is changed to fit.
fastText, SGM and LIBSVM files have no ids: reading them back counts positions. npz keeps labels in column order."""

from __future__ import annotations

import contextlib
import csv
import functools
import gzip
import io
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..config import DataConfig
from ..errors import ConfigError, DataError
from ..system.files import is_standard_output, writing
from ..types import Example, SparseVector
from .readers.checks import BLANKS, cell_labels, clean_label, features_problem, label_problem, split_labels
from .readers.lines import LABEL_PREFIX
from .readers.source import BYTE_ORDER_MARK, sibling

BATCH_ROWS = 1000
PREDICTION_COLUMNS = ["id", "labels", "decoder", "log_prob", "probs"]
PREDICTED_LABELS = pa.list_(pa.string())
SUGGESTIONS = "suggestions"  # a further column: labels with their probabilities
SUGGESTED_LABELS = pa.map_(pa.string(), pa.float64())
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run such a cell

ToLine = Callable[[Example, DataConfig], str]
Writer = Callable[[Iterator[Example], Path, DataConfig], None]


def write_examples(examples: Iterable[Example], path: str | Path, format: str, options: DataConfig) -> None:
    """Writes all examples or, if one cannot be held, nothing. Text formats are compressed if the name ends in .gz."""
    if format not in WRITERS:
        raise ConfigError(f"cannot write the format {format!r}; known: {', '.join(sorted(WRITERS))}.")
    if len({options.id_field, options.text_field, options.labels_field}) < 3:
        raise ConfigError("data.id_field, data.text_field and data.labels_field must be three different names.")
    if options.label_columns is not None and format in ("csv", "tsv", "parquet"):
        raise ConfigError("data.label_columns is for reading; unset it to write the labels into one column.")
    try:
        WRITERS[format](_checked(examples, format), Path(path), options)
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise DataError(f"a text holds half a character ({half}), which UTF-8 cannot hold; remove it.", path) from None


def _checked(examples: Iterable[Example], format: str) -> Iterator[Example]:
    """The examples, once they are known to be such as `read_examples` yields for this format."""
    content: type = {"libsvm": SparseVector, "npz": np.ndarray}.get(format, str)
    labelled: set[bool] = set()
    for example in examples:
        labels = (*(example.labels or ()), *(example.unknown or ()))
        labelled.add(example.labels is not None)
        if len(labelled) > 1:
            raise _refusal(example, "some examples have labels and some do not; write them to two files")
        if len(set(labels)) < len(labels):
            raise _refusal(example, f"its labels {list(labels)} repeat one; name each once")
        if problem := next(filter(None, map(label_problem, labels)), None):
            raise _refusal(example, problem)
        if respelled := next((label for label in labels if clean_label(label) != label), None):
            reason = f"its label {respelled!r} would be read as {clean_label(respelled)!r}; spell it so"
            raise _refusal(example, reason)
        value = example.features if example.text is None else example.text
        if example.unknown != () and format not in ("jsonl", "npz"):
            raise _refusal(
                example, f"{format} files cannot say that a label is not known; choose jsonl (npz: features)"
            )
        if not isinstance(value, content):
            kind = {SparseVector: "sparse features", np.ndarray: "dense features"}.get(content, "text")
            raise _refusal(example, f"{format} files hold {kind}; choose another format")
        if example.features is not None and (problem := features_problem(example.features)):
            raise _refusal(example, problem)
        yield example


def _refusal(example: Example, reason: str) -> DataError:
    return DataError(f"example {example.id!r} cannot be written: {reason}.")


def _own_id(example: Example) -> str:
    if not example.id:
        raise _refusal(example, "its id is empty; give it one")
    return example.id


def _joined(example: Example, separator: str, in_cell: bool = False) -> str:
    """`in_cell`: of a table, where the separator can be chosen and lists are recognised."""
    labels = example.labels or ()
    cell = separator.join(labels)
    if (cell_labels(cell, separator) if in_cell else split_labels(cell, separator)) != labels:
        reason = f"its labels {list(labels)} would not be told apart when joined by {separator!r}; choose jsonl"
        raise _refusal(example, reason + " or another data.label_separator" * in_cell)
    return cell


def _one_line(example: Example, value: str, delimiter: str = "\n") -> str:
    for character in {"\n", "\r", delimiter}:
        if character in value:
            raise _refusal(example, f"this format cannot hold {character!r} in a text or id; choose jsonl")
    return value


def _json_line(example: Example, options: DataConfig) -> str:
    record: dict[str, Any] = {options.id_field: _own_id(example), options.text_field: example.text}
    if example.labels is not None:
        record[options.labels_field] = None if example.unknown is None else list(example.labels)
    if example.unknown:
        record[options.unknown_field] = list(example.unknown)
    return json.dumps(record, ensure_ascii=False)


def _fasttext_line(example: Example, options: DataConfig) -> str:
    text = _one_line(example, example.text or "")
    if text.lstrip(BLANKS).startswith(LABEL_PREFIX):
        raise _refusal(example, f"its text begins with {LABEL_PREFIX!r} and would be read as a label; choose jsonl")
    return "".join(f"{LABEL_PREFIX}{label} " for label in split_labels(_joined(example, " "), " ")) + text


def _libmultilabel_line(example: Example, options: DataConfig) -> str:
    own_id, text = (_one_line(example, cell, "\t") for cell in (_own_id(example), example.text or ""))
    return f"{own_id}\t{_joined(example, ' ')}\t{text}"


def _libsvm_line(example: Example, options: DataConfig) -> str:
    vector = cast(SparseVector, example.features)
    labels = _joined(example, ",")
    if set(labels) & set(f":#{BLANKS}"):
        raise _refusal(example, "LIBSVM labels cannot hold blanks, ':' or '#'; number the labels")
    terms = (f"{index + 1}:{value!s}" for index, value in zip(vector.indices, vector.values, strict=True))
    return " ".join([labels, *terms]) if vector.indices.size else labels + " "


def _write_lines(examples: Iterator[Example], path: Path, options: DataConfig, to_line: ToLine) -> None:
    with text_file(path) as file:
        for number, example in enumerate(examples):
            line = to_line(example, options)
            # A reader drops the first byte order mark: where the text itself begins with one, it takes two.
            file.write(BYTE_ORDER_MARK if number == 0 and line.startswith(BYTE_ORDER_MARK) else "")
            file.write(line + "\n")


def _write_sgm(examples: Iterator[Example], path: Path, options: DataConfig) -> None:
    if "text" not in path.name:
        raise DataError("the name must hold 'text', as in text_train: the labels go to label_train beside it.", path)
    with text_file(Path(sibling(str(path), "text", "label"))) as labels:

        def to_line(example: Example, options: DataConfig) -> str:
            labels.write(_joined(example, " ") + "\n")
            return _one_line(example, example.text or "")

        _write_lines(examples, path, options, to_line)


def _write_delimited(examples: Iterator[Example], path: Path, options: DataConfig, delimiter: str) -> None:
    with text_file(path) as file:
        rows = csv_writer(file, delimiter)
        for number, example in enumerate(examples):
            header = [options.id_field, options.text_field]
            row = [_own_id(example), example.text]
            if example.labels is not None:
                header.append(options.labels_field)
                row.append(_joined(example, options.label_separator, in_cell=True))
            if number == 0:
                rows.writerow(header)
            rows.writerow(row)


def _write_parquet(examples: Iterator[Example], path: Path, options: DataConfig) -> None:
    first = next(examples, None)
    fields = [(options.id_field, pa.string()), (options.text_field, pa.string())]
    if first is None or first.labels is not None:
        fields.append((options.labels_field, pa.list_(pa.string())))
    with _parquet_file(path, pa.schema(fields)) as rows:
        for example in itertools.chain([first] if first else [], examples):
            values = (_own_id(example), example.text, list(example.labels or ()))
            rows.write(dict(zip([name for name, _ in fields], values, strict=False)))


def _write_npz(examples: Iterator[Example], path: Path, options: DataConfig) -> None:
    kept = list(examples)
    dense = [cast(np.ndarray, example.features) for example in kept]
    for example, features in zip(kept, dense, strict=True):
        if features.ndim not in (1, 2) or features.shape[-1:] != dense[0].shape[-1:] or features.ndim != dense[0].ndim:
            raise _refusal(example, f"its features have shape {features.shape}, the first {dense[0].shape}")
        if not len(features):
            raise _refusal(example, "it has no frames; leave it out")
    arrays: dict[str, np.ndarray] = {"ids": np.array([_own_id(example) for example in kept], dtype=np.str_)}
    lengths = np.array([len(features) for features in dense])
    if dense and dense[0].ndim == 2:
        arrays["n_frames"] = lengths
        dense = [np.pad(features, ((0, lengths.max() - len(features)), (0, 0))) for features in dense]
    quantised = all(features.dtype == np.uint8 for features in dense)
    arrays[options.features_field] = np.array(dense, dtype=np.uint8 if quantised else np.float32)
    if kept and kept[0].labels is not None:
        names = {name for example in kept for name in (*(example.labels or ()), *(example.unknown or ()))}
        column = {name: i for i, name in enumerate(sorted(names))}
        unknown = any(example.unknown != () for example in kept)
        targets = np.zeros((len(kept), len(column)), dtype=np.float32 if unknown else np.uint8)
        for row, example in enumerate(kept):
            targets[row, [column[name] for name in example.labels or ()]] = 1
            if example.unknown != ():
                targets[row, slice(None) if example.unknown is None else [column[n] for n in example.unknown]] = np.nan
        arrays |= {options.targets_field: targets, "label_names": np.array(list(column), dtype=np.str_)}
    with writing(path) as file:
        np.savez_compressed(file, **cast(dict[str, Any], arrays))


def written_files(path: str | Path, format: str) -> list[Path]:
    """All files that writing to `path` makes."""
    beside = [Path(sibling(str(path), "text", "label"))] if format == "sgm" else []
    return [Path(path), *beside]


def natural_file(example: Example) -> tuple[str, str]:
    """How the name of a file that holds such examples ends, and its format."""
    return (".npz", "npz") if isinstance(example.features, np.ndarray) else (".jsonl.gz", "jsonl")


WRITERS: dict[str, Writer] = {
    "jsonl": functools.partial(_write_lines, to_line=_json_line),
    "fasttext": functools.partial(_write_lines, to_line=_fasttext_line),
    "libmultilabel": functools.partial(_write_lines, to_line=_libmultilabel_line),
    "libsvm": functools.partial(_write_lines, to_line=_libsvm_line),
    "csv": functools.partial(_write_delimited, delimiter=","),
    "tsv": functools.partial(_write_delimited, delimiter="\t"),
    "sgm": _write_sgm,
    "parquet": _write_parquet,
    "npz": _write_npz,
}


class PredictionWriter(Protocol):
    def write(self, record: dict[str, Any]) -> None: ...


@contextlib.contextmanager
def open_prediction_writer(
    path: str, format: str, more: tuple[str, ...] = (), separator: str = ","
) -> Iterator[PredictionWriter]:
    """Takes records with id, labels, decoder, log_prob, probs and perhaps alternatives; path "-" is standard output.

    jsonl holds a record as it is; csv and parquet leave the alternatives out. In csv the labels stand in one cell,
    joined by the separator, or as a JSON array where that would be read as other labels or run as a formula by a
    spreadsheet; probs are a JSON object; an id that would be run gets a single quote in front. `more`: further columns
    of text in parquet, of JSON in csv."""
    if format not in ("jsonl", "csv", "parquet"):
        raise ConfigError(f"cannot write predictions as {format!r}; known: csv, jsonl, parquet.")
    if format == "parquet":
        if is_standard_output(path):
            raise DataError("Parquet cannot be written to standard output; name a file or choose jsonl.")
        with _parquet_file(Path(path), _prediction_schema(more)) as rows:
            yield rows
        return
    with text_file(path) as file:
        yield _JsonLines(file) if format == "jsonl" else _CsvPredictions(file, separator, more)


class _JsonLines:
    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def write(self, record: dict[str, Any]) -> None:
        self.file.write(json.dumps(record, ensure_ascii=False) + "\n")


class _CsvPredictions:
    def __init__(self, file: IO[str], separator: str, more: tuple[str, ...]) -> None:
        self.rows, self.separator, self.more = csv_writer(file, ","), separator, more
        self.rows.writerow([*PREDICTION_COLUMNS, *more])

    def write(self, record: dict[str, Any]) -> None:
        labels = label_cell(record["labels"], self.separator)
        probs = record.get("probs")
        shown = "" if probs is None else json.dumps(probs, ensure_ascii=False)
        further = [json.dumps(record[name], ensure_ascii=False) for name in self.more]
        self.rows.writerow([_inert(record["id"]), labels, record["decoder"], record["log_prob"], shown, *further])


def label_cell(labels: Sequence[str], separator: str) -> str:
    """Labels as one cell of a table that the readers read back."""
    cell = separator.join(labels)
    if cell.startswith(FORMULA_STARTS) or cell_labels(cell, separator) != tuple(labels):
        return json.dumps(labels, ensure_ascii=False)
    return cell


def write_records(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Records of the same fields as JSON lines, or where the name ends in .csv as a table: lists and objects are JSON
    in their cell, and what a spreadsheet would run as a formula gets a single quote in front."""
    with text_file(path) as file:
        if Path(path).suffix != ".csv":
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            return
        rows = csv_writer(file, ",")
        rows.writerow(list(records[0]) if records else [])
        for record in records:
            cells = [json.dumps(v, ensure_ascii=False) if isinstance(v, list | dict) else v for v in record.values()]
            rows.writerow([_inert(cell) if isinstance(cell, str) else cell for cell in cells])


def _inert(cell: str) -> str:
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell


def _prediction_schema(more: tuple[str, ...]) -> pa.Schema:
    types = [pa.string(), PREDICTED_LABELS, pa.string(), pa.float64(), SUGGESTED_LABELS]
    return pa.schema(
        [
            *zip(PREDICTION_COLUMNS, types, strict=True),
            *((name, SUGGESTED_LABELS if name == SUGGESTIONS else pa.string()) for name in more),
        ]
    )


class _ParquetRows:
    """Collects rows and writes them in batches, so that memory does not grow with the file."""

    def __init__(self, file: pq.ParquetWriter) -> None:
        self.file = file
        self.waiting: list[dict[str, Any]] = []

    def write(self, record: dict[str, Any]) -> None:
        # Arrow takes a map as pairs.
        self.waiting.append({k: list(v.items()) if isinstance(v, dict) else v for k, v in record.items()})
        if len(self.waiting) == BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        self.file.write_batch(pa.RecordBatch.from_pylist(self.waiting, schema=self.file.schema))
        self.waiting = []


@contextlib.contextmanager
def _parquet_file(path: Path, schema: pa.Schema) -> Iterator[_ParquetRows]:
    with writing(path) as raw, pq.ParquetWriter(raw, schema) as file:
        rows = _ParquetRows(file)
        yield rows
        rows.flush()


def csv_writer(file: IO[str], delimiter: str) -> Any:
    """Lines end in a line feed alone; all text is quoted, as the csv module then leaves a carriage return unquoted."""
    return csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)


@contextlib.contextmanager
def text_file(path: str | Path, encoding: str = "utf-8") -> Iterator[IO[str]]:
    """A text file that appears when it is complete; standard output is left open."""
    if is_standard_output(path):
        if sys.__stdout__ is None:
            raise DataError("standard output is closed; name a file to write to.")
        yield sys.stdout
        sys.stdout.flush()
        return
    with writing(Path(path)) as raw, contextlib.ExitStack() as stack:
        packed = str(path).endswith(".gz")
        # No name and no time in the header: the same content gives the same bytes.
        binary = stack.enter_context(gzip.GzipFile("", "wb", fileobj=raw, mtime=0)) if packed else raw
        text = io.TextIOWrapper(cast(IO[bytes], binary), encoding=encoding, newline="")
        stack.callback(text.detach)
        yield text
