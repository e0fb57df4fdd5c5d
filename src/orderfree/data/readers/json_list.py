"""A JSON list of objects, as most programs export one: `[{"text": …, "labels": […]}, …]`. One object at a time is held
in memory, however long the list is. A .json file with one object on each line is read as JSON Lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from ...config import DataConfig
from ...types import Example
from .jsonl import look_at_records, record_examples
from .recognise import Look
from .source import LONGEST_LINE, Source, readers

_MARKS = re.compile(r'\\.|["{}\[\]]', re.DOTALL)
_BETWEEN = re.compile(r"[\s,]*")


@readers.register("json")
def read_json(source: Source, options: DataConfig) -> Iterator[Example]:
    yield from record_examples(_objects(source), source, options)


def look_at_json(source: Source, options: DataConfig) -> Look:
    return look_at_records(_objects(source), source, options)


def _objects(source: Source) -> Iterator[str]:
    """The text of every object; while one is out, `source.line` is the line it begins on."""
    chunks = source.chunks()
    first = ""
    for first in chunks:
        if first.strip():
            break
    whole = chain([first], chunks)
    if first.lstrip().startswith("["):
        return _listed(whole, source)
    return _lines(whole, source)


def _lines(chunks: Iterator[str], source: Source) -> Iterator[str]:
    rest, source.line = "", 0
    for chunk in chunks:
        *lines, rest = (rest + chunk).split("\n")
        if len(rest) > LONGEST_LINE:
            raise source.error(f"is longer than {LONGEST_LINE:,} characters; split it, or check the file.")
        for line in lines:
            source.line += 1
            yield line.removesuffix("\r")
    source.line += 1
    yield rest


def _listed(chunks: Iterator[str], source: Source) -> Iterator[str]:
    scan = _Scan(source)
    for chunk in chunks:
        yield from scan.objects(chunk)
    scan.end()


class _Scan:
    """Finds where the objects of a list begin and end, without parsing them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.depth, self.in_string, self.ended = 0, False, False
        self.pending = ""  # of the object that has begun, or what stands between two of them
        self.line = self.begin = 1
        self.searched = 0  # characters of `pending` that have been looked through

    def objects(self, chunk: str) -> Iterator[str]:
        text = self.pending + chunk
        start, position = 0, self.searched
        while (mark := _MARKS.search(text, position)) is not None:
            if mark.end() == len(text) and text.endswith("\\"):
                break
            position = mark.end()
            if mark[0] == '"':
                self.in_string = not self.in_string
            elif mark[0] in "{[" and not self.in_string:
                if self.depth <= 1:
                    self._between(text[start : mark.start()], mark[0])
                    start = mark.start() if mark[0] == "{" else position
                self.depth += 1
            elif mark[0] in "}]" and not self.in_string:
                self.depth -= 1
                if self.depth == 1:
                    self.source.line = self.begin
                    yield text[start:position]
                    self.line += text.count("\n", start, position)
                    start = position
                elif self.depth == 0:
                    self._between(text[start : mark.start()], "]")
                    start, self.ended = position, True
        self._keep(text[start:], max(position, start) - start)

    def _keep(self, rest: str, searched: int) -> None:
        self.pending, self.searched = rest, searched
        if _MARKS.search(rest, searched) is None:
            self.searched = len(rest) - rest.endswith("\\")  # a backslash at the very end belongs to what follows
        if len(rest) > LONGEST_LINE:
            self.source.line = self.line
            raise self.source.error(f"an object is longer than {LONGEST_LINE:,} characters; check the file.")

    def _between(self, text: str, mark: str) -> None:
        """What stands before an object or the end of the list: blanks and commas."""
        self.line += text.count("\n")
        self.begin = self.source.line = self.line
        wrong = self.ended or (mark == "[" and self.depth == 1) or not _BETWEEN.fullmatch(text)
        if wrong:
            raise self.source.error("is not a JSON list of objects; expected [{…}, {…}], or one object on each line.")

    def end(self) -> None:
        self.source.line = self.line + self.pending.count("\n")
        if self.depth or self.in_string:
            raise self.source.error("the JSON list has no end; get a whole copy of the file.")
        if self.pending.strip():
            self._between(self.pending, "")
