"""A hierarchy of labels: whoever has a label has its parents too."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import DataError, nearest
from ..types import Example
from .readers.checks import clean_label

CSV_HEADER = ["child", "parent"]
LARGEST = 1 << 26  # characters


@dataclass(frozen=True)
class Hierarchy:
    parents: dict[str, tuple[str, ...]]  # of every label that has some

    @classmethod
    def read(cls, path: Path, labels: Collection[str]) -> Hierarchy:
        """From JSON ({"wheat": "grain", "corn": ["grain", "feed"]}) or CSV (columns child, parent) about `labels`."""
        pairs = _pairs(path)
        for name in (name for pair in pairs for name in pair):
            if name not in labels:
                raise DataError(
                    f"{name!r} is no label of this model; correct or remove it.{nearest(name, list(labels))}", path
                )
        parents: dict[str, tuple[str, ...]] = {}
        for child, parent in dict.fromkeys(pairs):
            parents[child] = (*parents.get(child, ()), parent)
        if label := _in_a_circle(parents):
            way = _way_back(label, parents) or []
            raise DataError(f"{label!r} is its own ancestor ({' < '.join(way)}); remove one of these.", path)
        return cls(parents)

    def closed(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The labels in their order, then all their ancestors that are not among them, nearest first."""
        found = list(dict.fromkeys(labels))
        seen = set(found)
        for label in found:  # grows while it is gone through
            more = [parent for parent in self.parents.get(label, ()) if parent not in seen]
            found += more
            seen.update(more)
        return tuple(found)

    def closed_example(self, example: Example) -> Example:
        """The example with the ancestors of its labels, which are then known."""
        labels = self.closed(example.labels or ())
        unknown = example.unknown and tuple(label for label in example.unknown if label not in labels)
        return replace(example, labels=labels, unknown=unknown)


def _in_a_circle(parents: dict[str, tuple[str, ...]]) -> str | None:
    """A label that is its own ancestor: labels without parents are taken away until none is left, or only circles and
    what lies below them."""
    children: dict[str, list[str]] = {}
    for child, above in parents.items():
        for parent in above:
            children.setdefault(parent, []).append(child)
    waiting = {child: len(above) for child, above in parents.items()}
    free = [parent for parent in children if parent not in parents]
    for parent in free:  # grows while it is gone through
        for child in children.get(parent, ()):
            waiting[child] -= 1
            if not waiting[child]:
                free.append(child)
    circling = (child for child, left in waiting.items() if left)
    label: str | None = next(circling, None)
    seen = set()
    while label is not None and label not in seen:  # up, until the way is in the circle
        seen.add(label)
        label = next(parent for parent in parents[label] if waiting.get(parent))
    return label


def _way_back(start: str, parents: dict[str, tuple[str, ...]]) -> list[str] | None:
    """The way from a label up to itself, if there is one."""
    below: dict[str, str] = {}
    reached = [start]
    for label in reached:  # grows while it is gone through
        for parent in parents.get(label, ()):
            if parent not in below:
                below[parent] = label
                reached.append(parent)
    if start not in below:
        return None
    way = [start, below[start]]
    while way[-1] != start:
        way.append(below[way[-1]])
    return way[::-1]


def _pairs(path: Path) -> list[tuple[str, str]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read(LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise DataError(f"the hierarchy cannot be read ({reason}); check the path.", path) from None
    if len(text) > LARGEST:
        raise DataError(f"is longer than {LARGEST:,} characters; check that it is a hierarchy.", path)
    pairs = _json_pairs(text, path) if path.suffix == ".json" else _csv_pairs(text, path)
    return [(clean_label(child), clean_label(parent)) for child, parent in pairs]


def _json_pairs(text: str, path: Path) -> list[tuple[str, str]]:
    try:
        content: Any = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not JSON ({error}); expected an object of children and parents.", path) from None
    if not isinstance(content, dict):
        raise DataError('expected an object of children and parents, {"wheat": "grain"}.', path)
    pairs = []
    for child, parents in content.items():
        for parent in [parents] if isinstance(parents, str) else parents if isinstance(parents, list) else [None]:
            if not isinstance(parent, str):
                raise DataError(
                    f"the parent of {child!r} is {repr(parents)[:100]}, expected a label or a list of labels.", path
                )
            pairs.append((child, parent))
    return pairs


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"it names {twice!r} twice; give its parents as one list")
    return found


def _csv_pairs(text: str, path: Path) -> list[tuple[str, str]]:
    try:
        return _table_pairs(csv.reader(io.StringIO(text, newline=""), strict=True), path)
    except csv.Error as error:
        raise DataError(f"is not CSV ({error}); expected the columns child and parent.", path) from None


def _table_pairs(rows: Any, path: Path) -> list[tuple[str, str]]:
    if [cell.strip() for cell in next(rows, [])] != CSV_HEADER:
        raise DataError("expected CSV with the header child,parent (or a file named .json).", path, 1)
    pairs = []
    for row in rows:
        if row and len(row) != 2:
            raise DataError(f"has {len(row)} cells, expected 2: child and parent.", path, rows.line_num)
        if row:
            pairs.append((row[0].strip(), row[1].strip()))
    return pairs
