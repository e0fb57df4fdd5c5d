"""A hierarchy of labels: whoever has a label has its parents too."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import DataError, nearest
from ..types import Example

CSV_HEADER = ["child", "parent"]


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
        for label in parents:
            if (cycle := _way_back(label, parents)) is not None:
                raise DataError(f"{label!r} is its own ancestor ({' < '.join(cycle)}); remove one of these.", path)
        return cls(parents)

    def closed(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The labels in their order, then all their ancestors that are not among them, nearest first."""
        found = list(dict.fromkeys(labels))
        for label in found:  # grows while it is gone through
            found += [parent for parent in self.parents.get(label, ()) if parent not in found]
        return tuple(found)

    def closed_example(self, example: Example) -> Example:
        """The example with the ancestors of its labels, which are then known."""
        labels = self.closed(example.labels or ())
        unknown = example.unknown and tuple(label for label in example.unknown if label not in labels)
        return replace(example, labels=labels, unknown=unknown)


def _way_back(start: str, parents: dict[str, tuple[str, ...]]) -> list[str] | None:
    """The way from a label up to itself, if there is one."""
    ways, seen = [[start]], set()
    for way in ways:  # grows while it is gone through
        for parent in parents.get(way[-1], ()):
            if parent == start:
                return [*way, start]
            if parent not in seen:
                seen.add(parent)
                ways.append([*way, parent])
    return None


def _pairs(path: Path) -> list[tuple[str, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise DataError(f"the hierarchy cannot be read ({reason}); check the path.", path) from None
    return _json_pairs(text, path) if path.suffix == ".json" else _csv_pairs(text, path)


def _json_pairs(text: str, path: Path) -> list[tuple[str, str]]:
    try:
        content: Any = json.loads(text)
    except ValueError as error:
        raise DataError(f"is not JSON ({error}); expected an object of children and parents.", path) from None
    if not isinstance(content, dict):
        raise DataError('expected an object of children and parents, {"wheat": "grain"}.', path)
    pairs = []
    for child, parents in content.items():
        for parent in [parents] if isinstance(parents, str) else parents if isinstance(parents, list) else [None]:
            if not isinstance(parent, str):
                raise DataError(f"the parent of {child!r} is {parents!r}, expected a label or a list of labels.", path)
            pairs.append((child, parent))
    return pairs


def _csv_pairs(text: str, path: Path) -> list[tuple[str, str]]:
    rows = csv.reader(text.splitlines())
    if [cell.strip() for cell in next(rows, [])] != CSV_HEADER:
        raise DataError("expected CSV with the header child,parent (or a file named .json).", path, 1)
    pairs = []
    for row in rows:
        if row and len(row) != 2:
            raise DataError(f"has {len(row)} cells, expected 2: child and parent.", path, rows.line_num)
        if row:
            pairs.append((row[0].strip(), row[1].strip()))
    return pairs
