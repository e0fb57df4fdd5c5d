"""Where examples come from: one file, or standard input, and the place in it that an error message names.

A reader is a function from a `Source` to examples; it is registered under the name of its format."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ParamSpec, Protocol, TypeVar, cast

from ...config import DataConfig
from ...errors import DataError
from ...system.registry import Registry
from ...system.wording import counted
from ...types import Example
from .encodings import LINE_BY_LINE, recognised_encoding

Given = ParamSpec("Given")
Made = TypeVar("Made")

STDIN = "-"
BYTE_ORDER_MARK = "\ufeff"
SAMPLE = 1 << 16  # bytes by which an encoding is recognised
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
    unspaced: int = 0  # texts of a script without blanks between words
    unlabelled: int = 0  # examples that say they have no label
    unknown: int = 0  # examples that say nothing is known of their labels
    skipped: int = 0  # examples that were damaged and left out, where that is allowed
    first_skipped: str | None = field(default=None, compare=False)  # what is wrong with the first of them
    cells: int = 0  # cells that were split at data.label_separator
    list_cells: int = 0  # cells that held a list such as "['a', 'b']" instead
    recognised: str | None = field(default=None, compare=False)  # what the reader found out about the file by itself
    position: int = field(default=0, compare=False)  # of the last example in its file; what is left out counts, too

    def notes(self) -> Iterator[str]:
        """What a user wants to know of it, one sentence each."""
        if self.recognised:
            yield self.recognised
        if self.skipped:
            skipped = counted(self.skipped, "damaged example was", "damaged examples were")
            yield f"{skipped} left out (data.skip_bad); the first: {self.first_skipped}"
        yield from self.notes_on_labels()

    def notes_on_labels(self) -> Iterator[str]:
        if self.repeated_labels:
            repeated = counted(self.repeated_labels, "example names", "examples name")
            yield f"{repeated} a label more than once; repetitions were removed"
        if self.cleaned_labels:
            cleaned = counted(self.cleaned_labels, "example", "examples")
            yield f"labels of {cleaned} were cleaned: surrounding blanks removed, Unicode composed (NFC)"
        if self.list_cells:
            lists = counted(self.list_cells, "cell holds a list", "cells hold lists")
            yield f"{lists} such as ['a', 'b'], read as such"


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
    encoding: str | None = None  # of its text; None: recognised by its first bytes, and known when these are read
    maybe_western: bool = False  # whether text that is not UTF-8 may be cp1252, as spreadsheets write it
    marked: bool = False  # whether it begins with a byte order mark
    keeps_rows: bool = False  # whether all cells of a table are wanted, not only those of its examples
    record: dict[str, Any] | None = None  # of a table: all cells of the example reading has come to
    schema: Any = None  # of a Parquet table
    dialect: tuple[str | None, str | None] = (None, None)  # of a table in text: its delimiter and encoding

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
        except DataError as error:
            if not skip_bad:
                raise
            self.counts.first_skipped = self.counts.first_skipped or str(error)
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
            return open(self.file or self.path, "rb", buffering=SAMPLE)
        except FileNotFoundError:
            raise self.error("there is no such file; check the path.") from None
        except IsADirectoryError:
            raise self.error("is a directory, expected a file; name one of the files in it.") from None
        except (OSError, ValueError) as error:
            raise self.error(f"cannot be read ({_reason(error)}); check the path and its permissions.") from None

    def lines(self, keep_ends: bool = False) -> Iterator[str]:
        """The lines of the file, split at line feeds only: other separators may be part of a text."""
        with self.open() as file, self._explained():
            for number, line in enumerate(self._text_lines(file), start=1):
                if number == 1:
                    self.marked = line.startswith(BYTE_ORDER_MARK)
                    line = line.removeprefix(BYTE_ORDER_MARK)
                yield line if keep_ends else line.removesuffix("\n").removesuffix("\r")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns what a disk or a damaged gzip file does while it is read into one sentence."""
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.error(f"the gzip file is damaged or cut off ({error}); get a whole copy.") from None
        except OSError as error:
            raise self.error(f"cannot be read further ({_reason(error)}).") from None

    def chunks(self, size: int = 1 << 16) -> Iterator[str]:
        """The text of the file in pieces, wherever its lines end."""
        with self.open() as file, self._explained():
            self.encoding = self.encoding or recognised_encoding(_peek(file), self.maybe_western)
            decoder = codecs.getincrementaldecoder(self._known_encoding())()
            first = True
            while raw := file.read(size):
                try:
                    text = decoder.decode(raw)
                except UnicodeDecodeError as error:
                    raise self._not_decodable(error) from None
                yield text.removeprefix(BYTE_ORDER_MARK) if first else text
                first = False

    def _text_lines(self, file: IO[bytes]) -> Iterator[str]:
        """Decoded lines with their ends, of bounded length; `line` is the number of the one that is out."""
        self.encoding = self.encoding or recognised_encoding(_peek(file), self.maybe_western)
        if self._known_encoding() not in LINE_BY_LINE:
            yield from self._wide_lines(file)
            return
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
            self.line = number
            if len(raw) > LONGEST_LINE:
                raise self.error(f"is longer than {LONGEST_LINE:,} bytes; split it, or check the file.")
            try:
                line = raw.decode(self.encoding)
            except UnicodeDecodeError as error:
                raise self._not_decodable(error) from None
            yield line

    def _wide_lines(self, file: IO[bytes]) -> Iterator[str]:
        """Of encodings such as UTF-16, whose line feed is not one byte."""
        text = io.TextIOWrapper(file, encoding=self.encoding, newline="\n")
        try:
            self.line = 1
            while line := text.readline(LONGEST_LINE // 4 + 1):
                if len(line) > LONGEST_LINE // 4:
                    raise self.error(f"is longer than {LONGEST_LINE // 4:,} characters; split it, or check the file.")
                yield line
                self.line += 1
        except UnicodeDecodeError as error:
            raise self._not_decodable(error) from None
        finally:
            text.detach()

    def _known_encoding(self) -> str:
        try:
            name = codecs.lookup(self.encoding or "utf-8").name
            "".encode(name)  # refuses codecs that are no encodings of text
        except LookupError:
            message = f"data.encoding {self.encoding!r} is no encoding of text; for example utf-8, cp1252 or utf-16."
            raise DataError(message, self.name) from None
        return name

    def _not_decodable(self, error: UnicodeDecodeError) -> DataError:
        name = "UTF-8" if self.encoding == "utf-8" else self.encoding
        return self.error(
            f"is not {name} text (byte {error.object[error.start]:#04x} at byte {error.start + 1:,} of the line); "
            "convert the file to UTF-8, or name its encoding, for example --set data.encoding=cp1252."
        )


def _peek(file: IO[bytes]) -> bytes:
    """The first bytes, which are still to be read afterwards."""
    peek = getattr(file, "peek", None)
    return bytes(peek(SAMPLE)[:SAMPLE]) if peek is not None else b""


def sibling(path: str, old: str, new: str) -> str:
    """The path with the first `old` in the file's name replaced."""
    file = Path(path)
    return str(file.with_name(file.name.replace(old, new, 1)))


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)
