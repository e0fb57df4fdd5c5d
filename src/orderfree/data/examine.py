"""What a labelled file is and what is wrong with it, found in one pass: the content of `orderfree check`."""

from __future__ import annotations

import shlex
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..config import DataConfig
from ..system.wording import counted
from .label_checks import CHARACTERS, forgotten_separator, label_warnings, rare_note, unspaced_note
from .readers import ReadCounts, detect_format, look_at, read_examples, resolve
from .seen import TextCounter, text_hash

SET_BY_HAND = ("id_field", "label_columns", "unknown_field", "encoding", "delimiter", "label_case", "empty", "classes")
MOST_COLUMNS = 20  # that are named
NAMES_OF_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}


@dataclass
class Examined:
    """Facts about a file, and remarks in the order of their weight, one sentence each."""

    path: str
    format: str
    encoding: str | None
    delimiter: str | None
    sheet: str | None
    columns: list[str]
    options: DataConfig  # with what was recognised
    asked: DataConfig  # what the user has set
    counts: ReadCounts = field(default_factory=ReadCounts)
    labels: Counter[str] = field(default_factory=Counter)
    words: int = 0
    longest: int = 0
    long_texts: int = 0
    also_in: dict[str, int] = field(default_factory=dict)  # another file: how many of its texts stand in this one
    texts: TextCounter = field(default_factory=TextCounter)
    repeated_ids: int = 0
    unread_texts: list[str] = field(default_factory=list)  # other columns that hold texts

    def remarks(self) -> Iterator[str]:
        """What looks wrong, what matters most first."""
        counts, found = self.counts, self.texts.found()
        if counts.skipped:
            damaged = counted(counts.skipped, "row is damaged", "rows are damaged")
            yield f"{damaged} (--skip-bad leaves them out); the first: {counts.first_skipped}"
        for path, number in self.also_in.items():
            if number:
                also = counted(number, "text", "texts")
                yield f"{also} of {path} also occur in {self.path}; scores on them would be too good"
        if self.unread_texts:
            names = [self.options.text_field, *self.options.more_text_fields, *self.unread_texts]
            others = " and ".join(map(repr, self.unread_texts))
            options = shlex.join(word for name in names for word in ("--text", name))
            yield f"the column {others} also holds texts, which are not read; to join them: {options}"
        if unspaced := unspaced_note(counts.unspaced, counts.examples):
            yield unspaced
        yield from label_warnings(self.labels, self.options.label_separator if counts.cells else None)
        if found["conflicting"]:
            one_each = sum(self.labels.values()) <= counts.examples
            joined = "; if every row holds one label, write all labels of a text in one row" * one_each
            again = counted(found["conflicting"], "row repeats", "rows repeat")
            yield f"{again} an earlier text with other labels{joined}"
        if counts.unlabelled:
            share = f"{counts.unlabelled:,} of {counted(counts.examples, 'row')}"
            have = "has no label" if counts.unlabelled == 1 else "have no labels"
            yield f"{share} {have} and would be learned as having none; if labels are missing: --set data.empty=unknown"
        if found["repeated"]:
            yield f"{counted(found['repeated'], 'row repeats', 'rows repeat')} an earlier text"
        if self.repeated_ids:
            yield f"{counted(self.repeated_ids, 'row repeats', 'rows repeat')} an earlier id"
        if counts.empty_texts:
            yield counted(counts.empty_texts, "text is empty", "texts are empty")
        if rare := rare_note(self.labels):
            yield rare
        if self.long_texts:
            most = self.options.max_words
            longer = counted(self.long_texts, "text is", "texts are")
            yield f"{longer} longer than {most:,} words; the rest would not be read (data.max_words)"
        yield from counts.notes_on_labels()

    def command(self) -> str:
        """How to train on this file."""
        default, own = DataConfig(), self.options
        words = ["orderfree", "train", self.path]
        if own.text_field != default.text_field or own.more_text_fields:
            words += [word for name in (own.text_field, *own.more_text_fields) for word in ("--text", name)]
        if own.labels_field != default.labels_field:
            words += ["--labels", own.labels_field]
        forgotten = forgotten_separator(self.labels, own.label_separator) if self.counts.cells else None
        separator = forgotten or own.label_separator
        if separator != default.label_separator:
            words += ["--separator", separator.replace("\n", "\\n").replace("\t", "\\t")]
        words += ["--format", self.asked.format] if self.asked.format != default.format else []
        for key in SET_BY_HAND:
            if (value := getattr(self.asked, key)) != getattr(default, key):
                words += ["--set", f"data.{key}={value}"]
        words += ["--skip-bad"] if self.counts.skipped else []
        words += ["--set", CHARACTERS] if unspaced_note(self.counts.unspaced, self.counts.examples) else []
        return shlex.join([*words, "--out", f"runs/{Path(self.path).name.split('.')[0]}"])

    def to_json(self) -> dict[str, Any]:
        rows, own = self.counts.examples, self.options
        tables = bool(self.columns)
        return {
            "file": self.path,
            "format": self.format,
            "encoding": self.encoding,
            "delimiter": self.delimiter,
            "sheet": self.sheet,
            "columns": self.columns,
            "text": [own.text_field, *own.more_text_fields] if tables else [],
            "labels": own.labels_field if tables and own.label_columns is None else None,
            "label_columns": own.label_columns,
            "separator": own.label_separator if self.counts.cells else None,
            "rows": rows,
            "different_labels": len(self.labels),
            "labels_per_row": sum(self.labels.values()) / max(rows, 1),
            "words_per_text": self.words / max(rows, 1),
            "longest_text": self.longest,
            "remarks": list(self.remarks()),
            "command": self.command(),
        }

    def lines(self) -> Iterator[str]:
        """The same for a person."""
        facts = self.to_json()
        kind = [f"{self.path}: {self.format}"]
        if self.delimiter is not None:
            kind.append(f"cells separated by {NAMES_OF_DELIMITERS.get(self.delimiter, repr(self.delimiter))}")
        if self.encoding is not None:
            name = self.encoding.removesuffix("-sig")
            kind.append(f"encoding {name.upper() if name.startswith('utf') else name}")
        if self.sheet is not None:
            kind.append(f"sheet {self.sheet!r}")
        yield ", ".join([*kind, counted(facts["rows"], "row")])
        if self.columns:
            more = f" and {len(self.columns) - MOST_COLUMNS:,} more" * (len(self.columns) > MOST_COLUMNS)
            yield f"Columns: {', '.join(name or '(no name)' for name in self.columns[:MOST_COLUMNS])}{more}"
            yield f"Text: {' + '.join(facts['text'])}; labels: {self._where_labels_are()}"
        yield (
            f"{counted(facts['different_labels'], 'label')}, {facts['labels_per_row']:.2f} per row; "
            f"{facts['words_per_text']:.0f} words per text, {facts['longest_text']:,} in the longest"
        )
        remarks = facts["remarks"]
        yield "Nothing looks wrong." if not remarks else "Remarks:"
        yield from (f"  - {remark}" for remark in remarks)
        yield f"Train on it: {facts['command']}"

    def _where_labels_are(self) -> str:
        if self.options.label_columns is not None:
            return f"{len(self.labels):,} columns of 0 and 1"
        how = ", as lists" if self.counts.list_cells > self.counts.cells else ""
        if self.counts.cells > self.counts.list_cells:
            how = f", separated by {self.options.label_separator!r}"
        return self.options.labels_field + how


def examine(path: Path, options: DataConfig, others: list[Path]) -> Examined:
    """Reads the whole file, damaged rows left out; and the other files for texts that stand in both."""
    look = look_at(path, options)
    columns, _ = resolve(path, options)
    format = detect_format(str(path)) if options.format == "auto" else options.format
    dialect = (None, None) if look is None else (look.encoding, look.delimiter)
    sheet, names = (look.sheet, look.names) if look else (None, [])
    found = Examined(str(path), format, *dialect, sheet, names, columns, options)
    read = (columns.text_field, *columns.more_text_fields, columns.labels_field, columns.id_field)
    found.unread_texts = [name for name in look.wordy() if name not in read] if look else []
    hashes, ids = array("Q"), array("Q")
    lenient = columns.model_copy(update={"skip_bad": True})
    for example in read_examples(path, lenient, labelled=True, counts=found.counts):
        found.labels.update(example.labels or ())
        ids.append(text_hash(example.id))
        if example.text is not None:
            words = len(example.text.split())
            found.words += words
            found.longest = max(found.longest, words)
            found.long_texts += words > options.max_words
            found.texts.add(example)
            hashes.append(text_hash(example.text))
    found.repeated_ids = len(ids) - len(np.unique(np.array(ids, dtype=np.uint64)))
    known = np.unique(np.array(hashes, dtype=np.uint64))
    for other in others:
        found.also_in[str(other)] = _shared(other, lenient, known)
    return found


def _shared(path: Path, options: DataConfig, known: np.ndarray) -> int:
    texts = (e.text for e in read_examples(path, options, labelled=False) if e.text is not None)
    own = np.fromiter(map(text_hash, texts), dtype=np.uint64)
    return int(np.isin(own, known).sum())
