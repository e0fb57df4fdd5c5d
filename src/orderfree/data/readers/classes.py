"""The class list: names for labels that a file only numbers."""

from __future__ import annotations

import csv
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from ...errors import DataError
from .source import STDIN, Source

LARGEST = 1 << 26  # bytes
NAME_COLUMNS = ("display_name", "name", "label")  # AudioSet's class_labels_indices.csv has the first


@dataclass(frozen=True)
class ClassList:
    path: str
    names: tuple[str, ...]
    known: frozenset[str]

    @classmethod
    def read(cls, path: str) -> ClassList:
        """One name a line, or a CSV file with an index (0, 1, … in order) and a name: index,mid,display_name."""
        source = Source(path, labelled=True)
        if path == STDIN or (Path(path).exists() and not Path(path).is_file()):
            raise source.error("is not a regular file, expected one: a class list is read more than once.")
        if Path(path).is_file() and Path(path).stat().st_size > LARGEST:
            raise source.error(f"is larger than {LARGEST:,} bytes, which no class list needs; check data.classes.")
        lines = [line for line in source.lines() if line.strip()]
        source.line = None
        if not lines:
            raise source.error("holds no class; expected one name a line, or a CSV file with index and display_name.")
        names = _of_table(lines, source) if Path(path).suffix == ".csv" else [line.strip() for line in lines]
        names = [unicodedata.normalize("NFC", name) for name in names]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise source.error(f"names the class {twice!r} twice; rename one of them.")
        return cls(path, tuple(names), frozenset(names))

    def name(self, label: str, source: Source) -> str:
        """The label itself where it is a name of the list, else the name of the class with this index."""
        if label in self.known:
            return label
        if label.isascii() and label.isdigit():
            if int(label) < len(self.names):
                return self.names[int(label)]
            raise source.label_error(
                f"the label index {label} is outside the class list {self.path}, which has 0 … {len(self.names) - 1}; "
                "correct it or give the right list (data.classes)."
            )
        raise source.label_error(f"the label {label!r} is not in the class list {self.path}; correct one of them.")


def _of_table(lines: list[str], source: Source) -> list[str]:
    try:
        header, *rows = csv.reader(lines, strict=True)
    except csv.Error as error:
        raise source.error(f"is not a CSV file ({error}); quote names that hold a comma.") from None
    column = next((name for name in NAME_COLUMNS if name in header), None)
    if column is None:
        raise source.error(f"has no column {' or '.join(NAME_COLUMNS)}; its columns are {', '.join(header)}.")
    place = header.index(column)
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise DataError(f"has {len(row)} cells, expected {len(header)}.", source.path, number + 2)
        if "index" in header and row[header.index("index")].strip() != str(number):
            found = row[header.index("index")]
            raise DataError(f"has the index {found}, expected {number}: 0, 1, … in order.", source.path, number + 2)
    return [row[place].strip() for row in rows]
