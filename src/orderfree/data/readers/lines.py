"""Formats of one document on each line: fastText, SGM (Yang et al. 2018) and LibMultiLabel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from ...config import DataConfig
from ...types import Example
from .checks import BLANKS, split_labels
from .source import STDIN, Source, readers, sibling

LABEL_PREFIX = "__label__"
# Behind the last label exactly one blank is dropped, so that a text which begins with blanks stays what it was.
_B, _NB = f"[{BLANKS}]", f"[^{BLANKS}]"
_LEADING_LABELS = re.compile(rf"{_B}*((?:{LABEL_PREFIX}{_NB}*{_B}+)*{LABEL_PREFIX}{_NB}*)(?:{_B}|$)")


@readers.register("fasttext")
def read_fasttext(source: Source, options: DataConfig) -> Iterator[Example]:
    """`__label__a __label__b the text`: labels stand at the start of the line."""
    for line in source.lines():
        found = _LEADING_LABELS.match(line)
        names = [word.removeprefix(LABEL_PREFIX) for word in split_labels(found[1], " ")] if found else []
        text = line[found.end() :] if found else line
        yield Example(source.example_id(None), text=text, labels=tuple(names) if source.labelled else None)


@readers.register("libmultilabel")
def read_libmultilabel(source: Source, options: DataConfig) -> Iterator[Example]:
    """`id TAB labels TAB text`, or without the id; where labels are not wanted, the text alone will do."""
    fewest = 2 if source.labelled else 1
    width: int | None = None
    for line in source.lines():
        cells = line.split("\t")
        width = width or len(cells)
        if not fewest <= width <= 3 or (len(cells) != width and not options.skip_bad):
            raise source.error(
                f"has {len(cells)} columns, expected {width if fewest <= width <= 3 else '2 or 3'}: "
                "[id TAB] labels TAB text; remove tabs from the text."
            )
        if len(cells) != width:
            source.skip()
            continue
        own_id = cells[0] if width == 3 else None
        labels = split_labels(cells[-2], " ") if source.labelled else None
        yield Example(source.example_id(own_id), text=cells[-1], labels=labels)


@readers.register("sgm")
def read_sgm(source: Source, options: DataConfig) -> Iterator[Example]:
    """Texts in `text_train`, their labels line by line in `label_train` beside it."""
    if not source.labelled:
        yield from (Example(source.example_id(None), text=text) for text in source.lines())
        return
    beside = Source(_labels_path(source), labelled=True)
    source.labels_path = beside.path
    texts, labels = 0, 0
    for text, names in zip_longest(source.lines(), beside.lines()):
        texts += text is not None
        labels += names is not None
        if text is not None and names is not None:
            yield Example(source.example_id(None), text=text, labels=split_labels(names, " "))
    if texts != labels:
        source.line = None
        raise source.error(f"holds {texts:,} lines but {beside.path} holds {labels:,}; expected one label line a text.")


def _labels_path(source: Source) -> str:
    if source.path == STDIN or "text" not in Path(source.path).name:
        raise source.error(
            "expected a file with 'text' in its name, such as text_train, beside label_train; rename the two files."
        )
    return sibling(source.path, "text", "label")
