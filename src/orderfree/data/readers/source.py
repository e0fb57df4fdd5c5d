"""Where examples come from: one file, or standard input, and the place in it that an error message names.

A reader is a function from a `Source` to examples; it is registered under the name of its format."""

from __future__ import annotations

import contextlib
import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ParamSpec, Protocol, TypeVar, cast

from ...config import DataConfig
from ...errors import DataError
from ...registry import Registry
from ...types import Example

Given = ParamSpec("Given")
Made = TypeVar("Made")

STDIN = "-"
BYTE_ORDER_MARK = "\ufeff"
LONGEST_LINE = 1 << 25  # bytes; a small gzip file can hold a line that no memory does, and JSON takes 30 times as much


class Reader(Protocol):
    """Yields the examples of a source one by one, with its labels as they stand when `source.labelled`, else None.

    What all formats have in common (valid, unrepeated labels; finite features) is checked by the caller."""

    def __call__(self, source: Source, options: DataConfig) -> Iterator[Example]: ...


readers: Registry[Reader] = Registry("format")


@dataclass
class ReadCounts:
    """What was noticed in a file and is no error."""

    examples: int = 0
    repeated_labels: int = 0  # examples that named a label more than once
    cleaned_labels: int = 0  # examples with a label that had blanks around it or was not in Unicode's composed form
    empty_texts: int = 0
    unlabelled: int = 0  # examples that say they have no label
    unknown: int = 0  # examples that say nothing is known of their labels
    skipped: int = 0  # examples that were damaged and left out, where that is allowed
    cells: int = 0  # cells that were split at data.label_separator
    list_cells: int = 0  # cells that held a list such as "['a', 'b']" instead
    position: int = field(default=0, compare=False)  # of the last example in its file; what is left out counts, too

    def notes(self) -> Iterator[str]:
        """What a user wants to know of it, one sentence each."""
        if self.skipped:
            yield f"{self.skipped:,} examples are damaged and were left out (data.skip_bad)"
        if self.repeated_labels:
            yield f"{self.repeated_labels:,} examples name a label more than once; each counts once"
        if self.cleaned_labels:
            yield (
                f"{self.cleaned_labels:,} examples have labels with blanks around them or in decomposed Unicode; "
                "they are read without these blanks and composed (NFC)"
            )
        if self.list_cells:
            yield f"{self.list_cells:,} cells hold lists such as ['a', 'b'] and were read as lists"


@dataclass
class Source:
    path: str
    labelled: bool  # whether labels are wanted; if not, the file may lack them
    line: int | None = None  # where reading stands, counted from 1: a line of text,
    row: int | None = None  # or a row of a binary table
    position: int = 0  # of the example in the file, counted from 0: one that is left out counts, too
    labels_path: str | None = None  # where labels have a file of their own
    file: str | None = None  # of a folder: the file reading has come to
    offset: int | None = None  # or a byte of a file of records, counted from 0
    part: range | None = (
        None  # of a Parquet table: the rows to read, counted from 0; an id that is missing is the row's
    )
    counts: ReadCounts = field(default_factory=ReadCounts)

    @property
    def name(self) -> str:
        return "standard input" if self.path == STDIN else self.file or self.path

    def error(self, message: str) -> DataError:
        """The error that names this file and the place reading has come to."""
        if self.row is not None:
            message = f"row {self.row:,}: {message}"
        if self.offset is not None:
            message = f"byte {self.offset:,}: {message}"
        return DataError(message, self.name, self.line)

    def label_error(self, message: str) -> DataError:
        return DataError(message, self.labels_path, self.line) if self.labels_path else self.error(message)

    def unless_bad(
        self, skip_bad: bool, make: Callable[Given, Made], *args: Given.args, **kwargs: Given.kwargs
    ) -> Made | None:
        """What `make` makes of an example; None, and counted, where it is bad and such ones are left out."""
        try:
            return make(*args, **kwargs)
        except DataError:
            if not skip_bad:
                raise
            self.skip()
            return None

    def skip(self) -> None:
        """One example is left out; those behind it keep their positions."""
        self.counts.skipped += 1
        self.position += 1

    def example_id(self, value: Any) -> str:
        """The file's own id, or the example's position where it has none."""
        if value is None or value == "":
            return str(self.position)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self.error(f"the id is {value!r}, expected a string or a whole number; quote it.")
        return str(value)

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The bytes of the file, unpacked; standard input is left open."""
        if self.path == STDIN:
            if sys.stdin is None:
                raise self.error("is closed; give a file.")
            yield sys.stdin.buffer
            return
        with self.open_file() as file:
            if self.path.endswith(".gz"):
                with gzip.open(file) as unpacked:
                    yield cast(IO[bytes], unpacked)
            else:
                yield file

    @contextlib.contextmanager
    def open_seekable(self) -> Iterator[IO[bytes]]:
        """The file itself, for formats that are not read from front to back."""
        if self.path == STDIN:
            raise self.error("this format cannot be read from standard input; give a file, or send jsonl.")
        if self.path.endswith(".gz"):
            raise self.error("this format is compressed inside and not read through gzip; unpack the file first.")
        with self.open_file() as file:
            yield file

    def open_file(self) -> IO[bytes]:
        try:
            return open(self.file or self.path, "rb")
        except FileNotFoundError:
            raise self.error("there is no such file; check the path.") from None
        except IsADirectoryError:
            raise self.error("is a directory, expected a file; name one of the files in it.") from None
        except (OSError, ValueError) as error:
            raise self.error(f"cannot be read ({_reason(error)}); check the path and its permissions.") from None

    def lines(self, keep_ends: bool = False) -> Iterator[str]:
        """The lines of the file, split at line feeds only: other separators may be part of a text."""
        with self.open() as file:
            try:
                for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
                    self.line = number
                    if len(raw) > LONGEST_LINE:
                        raise self.error(f"is longer than {LONGEST_LINE:,} bytes; split it, or check the file.")
                    line = self._decoded(raw)
                    if number == 1:
                        line = line.removeprefix(BYTE_ORDER_MARK)
                    yield line if keep_ends else line.removesuffix("\n").removesuffix("\r")
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise self.error(f"the gzip file is damaged or cut off ({error}); get a whole copy.") from None
            except OSError as error:
                raise self.error(f"cannot be read further ({_reason(error)}).") from None

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(
                f"is not UTF-8 text (byte {raw[error.start]:#04x} at byte {error.start + 1:,} of the line); "
                "convert the file to UTF-8."
            ) from None


def sibling(path: str, old: str, new: str) -> str:
    """The path with the first `old` in the file's name replaced."""
    file = Path(path)
    return str(file.with_name(file.name.replace(old, new, 1)))


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)
