"""From a file to examples: one function per format, and `read_examples`, the road all of them share."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ...config import DataConfig
from ...errors import DataError
from ...types import Example
from . import (  # noqa: F401  importing them registers their formats
    arrays,
    delimited,
    excel,
    json_list,
    jsonl,
    lines,
    lyrl,
    parquet,
    reuters,
    sounds,
    text_folder,
    tfrecord,
    vectors,
)
from .checks import checked
from .classes import ClassList
from .recognise import Look, recognised
from .source import STDIN, ReadCounts, Reader, Source, readers, sibling

__all__ = [
    "FOLDER_FORMATS",
    "KeptRows",
    "Look",
    "ReadCounts",
    "Reader",
    "Source",
    "check_examples",
    "companions",
    "detect_format",
    "look_at",
    "read_examples",
    "readers",
    "resolve",
]

_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".xlsx": "xlsx",
    ".parquet": "parquet",
    ".ft": "fasttext",
    ".fasttext": "fasttext",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".svm": "libsvm",
    ".npz": "npz",
    ".npy": "npy",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".tfrecord": "tfrecord",
    **dict.fromkeys(sounds.SUFFIXES, "sounds"),
    ".sgm": "reuters-sgml",
}
_REMEDIES = {  # what to do with other files that hold tables
    **dict.fromkeys((".xls", ".ods", ".xlsb", ".numbers"), "save it as .xlsx or CSV"),
    **dict.fromkeys((".zip", ".7z", ".tar", ".tgz", ".bz2", ".xz"), "unpack it first; only .gz is read as it is"),
    **dict.fromkeys((".doc", ".docx", ".pdf"), "copy the texts and labels into a table, for example CSV"),
}
_FOLDERS = {  # what only one corpus has in its folder
    reuters.CATEGORIES: "nltk-reuters",
    reuters.SGML_FILES: "reuters-sgml",
    lyrl.TOKEN_FILES: "lyrl2004",
    tfrecord.TFRECORD_FILES: "tfrecord",
    **dict.fromkeys((f"*{suffix}" for suffix in sounds.SUFFIXES), "sounds"),
    **dict.fromkeys(("*.txt", "*/*.txt"), "texts"),
    sounds.TAGS: "sounds",
}
LOOKS: dict[str, Callable[[Source, DataConfig], Look]] = {
    "csv": delimited.look_at_csv,
    "tsv": delimited.look_at_tsv,
    "xlsx": excel.look_at_xlsx,
    "parquet": parquet.look_at_parquet,
    "jsonl": jsonl.look_at_jsonl,
    "json": json_list.look_at_json,
}
FOLDER_FORMATS = frozenset(_FOLDERS.values())


def detect_format(path: str) -> str:
    """The format a file's name tells, or what lies in a folder; standard input is taken for jsonl."""
    if path == STDIN:
        return "jsonl"
    if os.path.isdir(path):
        return _folder_format(Path(path))
    file = Path(path.removesuffix(".gz"))
    if file.suffix in ("", ".txt") and file.name.startswith("text_"):
        return "sgm"
    if file.match(lyrl.TOKEN_FILES):
        return "lyrl2004"
    try:
        return _SUFFIXES[file.suffix.lower()]
    except KeyError:
        if remedy := _REMEDIES.get(file.suffix.lower()):
            raise DataError(f"cannot be read; {remedy}.", path) from None
        raise DataError(
            "the name of the file does not tell its format; add --format csv for a table, --format jsonl for JSON "
            f"lines, or --format with one of {', '.join(readers.names())}.",
            path,
        ) from None


def _folder_format(folder: Path) -> str:
    """Folders are read where a corpus is given out as many files."""
    whole = folder.parent if folder.name in reuters.PARTS.values() else folder  # NLTK's training and test folders
    for pattern, name in _FOLDERS.items():
        if any(whole.glob(pattern)):
            return name
    raise DataError("is a directory, expected a file; name one of the files in it.", folder)


def _format_of(source: Source) -> str:
    try:
        return detect_format(source.path)
    except DataError:
        with source.open():  # where there is no such file, or it is a directory, that is the better answer
            raise


def companions(path: str | Path, format: str) -> dict[str, list[Path]]:
    """Other files that reading this one draws on, by what they hold."""
    if format == "sgm":
        return {"labels": [Path(sibling(str(path), "text", "label"))]}
    if format == "lyrl2004":
        return {"labels": [lyrl.topics_file(Path(path).parent)]}
    if format == "nltk-reuters":
        return {"texts": [file for part in reuters.PARTS.values() for file in (Path(path).parent / part).glob("*")]}
    if format == "npy":
        return {"labels": [Path(path).with_suffix(arrays.LABELS_SUFFIX)]}
    return {}


def read_examples(
    path: str | Path,
    options: DataConfig,
    *,
    labelled: bool,
    counts: ReadCounts | None = None,
    part: range | None = None,
    kept: KeptRows | None = None,
) -> Iterator[Example]:
    """Streams the examples of a file ("-": standard input), each checked and with each label once.

    `labelled`: every example must say its labels; otherwise labels are ignored and come out as None. `part`: only these
    rows of a Parquet file. `kept` is given the whole row of every example, where the file is a table."""
    source = Source(str(path), labelled, part=part, counts=ReadCounts() if counts is None else counts)
    source.encoding, source.keeps_rows = options.encoding, kept is not None
    name = _format_of(source) if options.format == "auto" else options.format
    classes = ClassList.read(options.classes) if options.classes and labelled else None
    yielded = 0
    for example in readers[name](source, options):
        good = source.unless_bad(
            options.skip_bad, checked, example, source, classes, options.label_case, empty=options.empty
        )
        if good is not None:
            source.counts.position = source.position
            if kept is not None:
                kept.add(source)
            yield good
            yielded += 1
            source.position += 1
    if not yielded and part is None:
        if source.position:
            first = source.counts.first_skipped
            raise DataError(f"every example is damaged; the first of {source.position:,}: {first}", source.name)
        raise DataError("holds no examples; check that it is the file you meant.", source.name)


class KeptRows:
    """Whole rows of a table in the order of its examples, for as long as nobody has taken them."""

    def __init__(self) -> None:
        self.rows: deque[dict[str, Any]] = deque()
        self.delimiter: str | None = None  # of the table, where it is CSV or TSV,
        self.encoding: str | None = None
        self.schema: Any = None  # of a Parquet table

    def add(self, source: Source) -> None:
        if source.record is None:
            raise source.error("is no table whose columns can be kept; expected CSV, TSV, Excel, JSON or Parquet.")
        self.delimiter, self.encoding = source.dialect
        self.schema = source.schema
        self.rows.append(source.record)


def look_at(path: str | Path, options: DataConfig) -> Look | None:
    """What the beginning of a table shows; None of a format that is no table."""
    source = Source(str(path), labelled=True, encoding=options.encoding)
    name = _format_of(source) if options.format == "auto" else options.format
    return LOOKS[name](source, options) if name in LOOKS else None


def resolve(path: str | Path, options: DataConfig) -> tuple[DataConfig, str | None]:
    """The options with the columns and the separator of this labelled table, and a sentence on what was recognised."""
    look = look_at(path, options)
    if look is None or not look.names:
        return options, None
    source = Source(str(path), labelled=True)
    return recognised(look, options, source), source.counts.recognised


def check_examples(
    examples: Iterable[Example], counts: ReadCounts | None = None, empty: str = "none"
) -> Iterator[Example]:
    """Examples made in memory, checked as those of a file are."""
    source = Source("the examples", labelled=True, counts=ReadCounts() if counts is None else counts)
    for place, example in enumerate(examples):
        source.row = place + 1
        yield checked(example, source, clean=False, empty=empty)  # whoever made them compares with the names they have
