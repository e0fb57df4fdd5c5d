"""Tables of measured and printed numbers as Markdown, as text for a terminal and as JSON.

A number that was not measured or not printed is an empty cell."""

from __future__ import annotations

import io
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

DAGGER = "†"
CUT_SHORT = f"{DAGGER} at least one run of this row was cut short; longer training may change it."
TEXT_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    heading: str
    digits: int = 3
    better: Literal["high", "low"] | None = "high"  # None: no value is better than another


@dataclass(frozen=True, slots=True)
class Cell:
    mean: float | None = None
    sd: float | None = None  # of the sample (n - 1); None for a single seed
    seeds: int = 0
    printed: Decimal | None = None
    best: bool = False

    @classmethod
    def of(cls, values: Sequence[float], printed: Decimal | None = None) -> Cell:
        if not values:
            return cls(printed=printed)
        sd = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), sd, len(values), printed)

    def ours(self, digits: int) -> str:
        if self.mean is None:
            return ""
        spread = "" if self.sd is None else f" ± {self.sd:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread}"

    def theirs(self) -> str:
        return "" if self.printed is None else str(self.printed)


@dataclass(frozen=True, slots=True)
class TableRow:
    name: str
    method: str
    decoder: str
    variant: str | None  # None: there are no runs of this row
    seeds: int
    cut_short: bool
    cells: dict[str, Cell]  # column key -> cell

    def title(self) -> str:
        return f"{self.name} {DAGGER}" if self.cut_short else self.name


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[Column, ...]
    rows: list[TableRow]
    notes: list[str]

    @property
    def has_printed(self) -> bool:
        return any(cell.printed is not None for row in self.rows for cell in row.cells.values())

    def prints(self, column: Column) -> bool:
        """Whether the paper prints a number in this column."""
        return any(row.cells[column.key].printed is not None for row in self.rows)

    def to_markdown(self) -> str:
        headings = ["Model", "Seeds"]
        for column in self.columns:
            headings += [column.heading, "paper"] if self.prints(column) else [column.heading]
        lines = [f"### {self.title}", "", _line(headings), _line(["---", *["---:"] * (len(headings) - 1)])]
        for row in self.rows:
            cells = [row.title(), str(row.seeds or "")]
            for column in self.columns:
                cell = row.cells[column.key]
                ours = cell.ours(column.digits)
                cells.append(f"**{ours}**" if cell.best else ours)
                if self.prints(column):
                    cells.append(cell.theirs())
            lines.append(_line(cells))
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)]) + "\n"

    def to_rich(self) -> RichTable:
        """Our numbers above the printed ones: in separate columns they would not fit a terminal."""
        drawn = RichTable(title=self.title, caption="\n".join(self.notes), box=box.SIMPLE, show_lines=self.has_printed)
        drawn.pad_edge, drawn.collapse_padding = False, True  # ten columns fit a terminal
        drawn.caption_justify = drawn.title_justify = "left"
        drawn.add_column("Model", min_width=14, overflow="fold")
        drawn.add_column("Seeds", justify="right")
        for column in self.columns:
            heading = column.heading.replace(" ", "\n")
            drawn.add_column(f"{heading}\n(paper)" if self.has_printed else heading, justify="right", no_wrap=True)
        for row in self.rows:
            cells = (row.title(), str(row.seeds or ""), *(self._stacked(row, column) for column in self.columns))
            drawn.add_row(*map(Text, cells))  # so that square brackets are not parsed as markup
        return drawn

    def _stacked(self, row: TableRow, column: Column) -> str:
        cell = row.cells[column.key]
        mean, _, spread = cell.ours(column.digits).partition(" ± ")
        theirs = f"({cell.theirs()})" if cell.printed is not None else ""
        lines = [mean + "*" * cell.best, *([f"±{spread}"] if spread else []), *([theirs] if self.has_printed else [])]
        return "\n".join(lines)

    def to_text(self, width: int = TEXT_WIDTH) -> str:
        console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
        console.print(self.to_rich(), highlight=False)
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "columns": [{"key": column.key, "heading": column.heading} for column in self.columns],
            "rows": [
                {
                    "name": row.name,
                    "method": row.method,
                    "decoder": row.decoder,
                    "variant": row.variant,
                    "seeds": row.seeds,
                    "cut_short": row.cut_short,
                    "cells": {key: _cell_json(cell) for key, cell in row.cells.items()},
                }
                for row in self.rows
            ],
            "notes": self.notes,
        }


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell_json(cell: Cell) -> dict[str, Any]:
    printed = None if cell.printed is None else float(cell.printed)
    return {"mean": cell.mean, "sd": cell.sd, "seeds": cell.seeds, "printed": printed, "best": cell.best}


def mark_best(rows: Sequence[TableRow], columns: Sequence[Column]) -> list[TableRow]:
    """Marks the best of our values in each column, after rounding; equal values are marked equally.

    Nothing is marked with a single row or if all values are equal."""
    best: dict[str, float] = {}
    for column in columns:
        shown = {
            round(cell.mean, column.digits)
            for row in rows
            if row.method != "reference" and (cell := row.cells[column.key]).mean is not None
        }
        if column.better and len(shown) > 1:
            best[column.key] = max(shown) if column.better == "high" else min(shown)
    digits = {column.key: column.digits for column in columns}

    def marked(key: str, cell: Cell) -> Cell:
        return replace(cell, best=cell.mean is not None and round(cell.mean, digits[key]) == best.get(key))

    return [replace(row, cells={key: marked(key, cell) for key, cell in row.cells.items()}) for row in rows]
