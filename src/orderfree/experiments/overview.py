"""The content of the page of a results folder: tables with formatted cells, figures as SVG.

Runs of different corpora or variants are never mixed. Tables show the mean over seeds; content that cannot be averaged
(labels, confused pairs, examples) is from the first seed of each method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

from .drawings import available, corpus_drawings, rank_drawing
from .paper import DECODERS, METHODS, PERFORMANCE, Row, counterpart
from .rendering import CUT_SHORT, Cell, Column, Table, TableRow, mark_best
from .result_files import Result
from .tables import PARTS, combinations_table, corpus_table, place_of, rank_table, row_name, seen_unseen_table

POSITIONS_SHOWN = 10
SEEN_PARTS = ("test_seen", "test_unseen")


def overview(results: Sequence[Result]) -> dict[str, Any]:
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in sorted(results, key=lambda result: result.identity):
        groups[result.corpus, result.variant].append(result)
    return {
        "runs": len(results),
        "drawn": available(),
        "corpora": [
            _corpus_overview(group, *names, prefix=f"part{number}")
            for number, (names, group) in enumerate(groups.items(), 1)
        ],
        "overall_ranks": _overall_ranks(groups),
    }


def _corpus_overview(results: Sequence[Result], corpus: str, variant: str, prefix: str) -> dict[str, Any]:
    """The content of one corpus and variant; entries without results are empty."""
    parts = sorted({part for result in results for part in result.parts})
    tables = {part: corpus_table(results, corpus, part) for part in ("test", *parts)}
    shown = {part: _shown(table) for part, table in tables.items()}
    has_seen = any(part in SEEN_PARTS for part in parts)
    ranks = rank_table(results, [corpus], variant)
    first = {method: next(of_method) for method, of_method in groupby(results, key=lambda result: result.method)}
    return {
        "corpus": corpus,
        "variant": variant,
        "prefix": prefix,
        "methods": len(first),
        "runs": [_run(result) for result in sorted(results, key=lambda result: place_of(result.method, METHODS))],
        "best": _best(tables["test"]),
        "scores": shown["test"],
        "parts": {_part_title(part): shown[part] for part in parts if part not in SEEN_PARTS},
        "seen": _shown(seen_unseen_table(results, corpus)) if has_seen else {},
        "seen_parts": {_part_title(part): shown[part] for part in parts if part in SEEN_PARTS},
        "combinations": _shown(combinations_table(results, corpus)) if any(r.combinations for r in results) else {},
        "ranks": _shown(ranks) if sum(row.seeds > 0 for row in ranks.rows) > 1 else {},
        "positions": _shown(positions_table(results)),
        "frequency": _shown(frequency_table(results)),
        "drawings": corpus_drawings(results, corpus, prefix),
        "labels": label_scores(first),
        "confused_pairs": [
            {"name": _method(method), "seed": result.seed, "pairs": result.confused_pairs}
            for method, result in _in_order(first)
            if result.confused_pairs
        ],
        "examples": compared_examples(list(first.values())),
    }


def _overall_ranks(groups: Mapping[tuple[str, str], Sequence[Result]]) -> list[dict[str, Any]]:
    """Average ranks over all corpora with a table in the paper, by variant."""
    by_variant: dict[str, list[str]] = defaultdict(list)
    for corpus, variant in groups:
        if (counterpart(corpus)[0], "test") in PERFORMANCE:
            by_variant[variant].append(corpus)
    rankings: list[dict[str, Any]] = []
    for variant, corpora in by_variant.items():
        results = [result for corpus in corpora for result in groups[corpus, variant]]
        table = rank_table(results, corpora, variant) if len(corpora) > 1 else None
        if table is not None and sum(row.seeds > 0 for row in table.rows) > 1:
            drawing = rank_drawing(results, corpora, f"overall{len(rankings) + 1}")
            rankings.append({"variant": variant, "table": _shown(table), "drawing": drawing})
    return rankings


def _shown(table: Table) -> dict[str, Any]:
    """A table with formatted cells; empty if it has no row."""
    if not table.rows:
        return {}
    return {
        "columns": [column.heading for column in table.columns],
        "rows": [
            {"name": row.title(), "seeds": row.seeds, "cells": [_cell(row.cells[c.key], c) for c in table.columns]}
            for row in table.rows
        ],
        "notes": table.notes,
        "has_printed": table.has_printed,
        "unmeasured": any(not row.seeds for row in table.rows),
    }


def _cell(cell: Cell, column: Column) -> dict[str, Any]:
    mean, _, spread = cell.ours(column.digits).partition(" ± ")
    return {"ours": mean, "spread": spread, "paper": cell.theirs(), "best": cell.best}


def _best(table: Table) -> dict[str, str]:
    """Our row with the highest average."""
    measured = [row for row in table.rows if row.cells["average"].mean is not None]
    best = max(measured, key=lambda row: row.cells["average"].mean or 0.0, default=None)
    return {} if best is None else {"name": best.title(), "average": best.cells["average"].ours(3)}


def _part_title(part: str) -> str:
    title = PARTS.get(part, f", {part}").removeprefix(", ")
    return title[0].upper() + title[1:]


def positions_table(results: Sequence[Result]) -> Table:
    """How often the label at each position of the generated sequence is right; the mean of the seeds that reach it."""
    decoded = _decoded(results, lambda result: result.position_accuracy)
    longest = max((len(r.position_accuracy[d]) for (_, d), group in decoded.items() for r in group), default=0)
    columns = tuple(Column(str(p), str(p + 1)) for p in range(min(longest, POSITIONS_SHOWN)))
    cells = {}
    for row, group in decoded.items():
        accuracies = [result.position_accuracy[row[1]] for result in group]
        reached = {c.key: [one[p] for one in accuracies if len(one) > p] for p, c in enumerate(columns)}
        cells[row] = {
            key: Cell(fmean(values), seeds=len(values)) if values else Cell() for key, values in reached.items()
        }
    notes = [f"The first {POSITIONS_SHOWN} of {longest} positions."] if longest > POSITIONS_SHOWN else []
    return _table("Accuracy by position", columns, decoded, cells, notes)


def frequency_table(results: Sequence[Result]) -> Table:
    """Example-F1 by the frequency of the label set in training; the examples of all seeds are pooled."""
    decoded = _decoded(results, lambda result: result.by_frequency)
    examples: dict[str, int] = {}
    for entry in (e for (_, decoder), group in decoded.items() for r in group for e in r.by_frequency[decoder]):
        examples[entry.times] = max(examples.get(entry.times, 0), entry.examples)
    columns = tuple(Column(times, f"{times} (n = {n:,})") for times, n in examples.items() if n)
    cells = {row: {c.key: _pooled(group, row[1], c.key) for c in columns} for row, group in decoded.items()}
    return _table("Example-F1 by frequency of the label set", columns, decoded, cells, [])


def _pooled(group: Sequence[Result], decoder: str, times: str) -> Cell:
    bins = [
        (entry.examples, entry.example_f1)
        for result in group
        for entry in result.by_frequency[decoder]
        if entry.times == times and entry.example_f1 is not None
    ]
    total = sum(examples for examples, _ in bins)
    return Cell(sum(examples * f1 for examples, f1 in bins) / total, seeds=len(bins)) if total else Cell()


def _table(
    title: str,
    columns: tuple[Column, ...],
    decoded: Mapping[Row, Sequence[Result]],
    cells: Mapping[Row, dict[str, Cell]],
    notes: list[str],
) -> Table:
    if not columns:
        return Table(title, columns, [], [])
    rows = [
        TableRow(
            row_name(row, decoded), *row, group[0].variant, len(group), any(r.cut_short for r in group), cells[row]
        )
        for row, group in decoded.items()
    ]
    marked = ["The best of each column is marked."] if len(rows) > 1 else []
    cut_short = [CUT_SHORT] if any(row.cut_short for row in rows) else []
    return Table(title, columns, mark_best(rows, columns), [*notes, *marked, *cut_short])


def _decoded(results: Sequence[Result], measured: Callable[[Result], Collection[str]]) -> dict[Row, list[Result]]:
    """The results with a non-empty `measured`, by method and decoder, in the order of the paper's tables."""
    rows: dict[Row, list[Result]] = defaultdict(list)
    for result in results:
        for decoder in measured(result):
            rows[result.method, decoder].append(result)
    return dict(sorted(rows.items(), key=lambda item: (place_of(item[0][0], METHODS), place_of(item[0][1], DECODERS))))


def _in_order(first: Mapping[str, Result]) -> list[tuple[str, Result]]:
    return sorted(first.items(), key=lambda item: place_of(item[0], METHODS))


def _method(method: str) -> str:
    return METHODS.get(method, method)


def label_scores(first: Mapping[str, Result]) -> dict[str, Any]:
    """F1 of every label by method, most frequent first, and the full rows of each method.

    Labels that are neither true nor predicted anywhere are left out."""
    having = [
        (_method(method), result.seed, rows)
        for method, result in _in_order(first)
        if (rows := [row for row in result.per_label if row["support"] or row["predicted"]])
    ]
    support: dict[str, int] = {}
    f1: dict[str, dict[str, float]] = defaultdict(dict)
    for name, _, rows in having:
        for row in rows:
            support[row["label"]] = max(support.get(row["label"], 0), row["support"])
            f1[row["label"]][name] = row["f1"]
    if not support:
        return {}
    names = [name for name, _, _ in having]
    return {
        "methods": names,
        "f1": [
            {"label": label, "support": support[label], "f1": [f1[label].get(name) for name in names]}
            for label in sorted(support, key=lambda label: (-support[label], label))
        ],
        "by_method": [{"name": name, "seed": seed, "rows": rows} for name, seed, rows in having],
    }


def compared_examples(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The sequences that all methods and decoders generated for the same example; equal sequences are grouped.

    Examples with the most distinct label sets, then with the most distinct orders, come first."""
    decoded = _decoded(results, lambda result: {decoder for e in result.examples for decoder in e.predicted})
    targets: dict[str, list[str]] = {}
    generated: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for row, group in decoded.items():
        for example in (example for result in group for example in result.examples):
            target = targets.setdefault(example.id, example.target)
            # If the split depends on the seed, the same id may be another document.
            if row[1] in example.predicted and set(target) == set(example.target):
                generated[example.id][tuple(example.predicted[row[1]])].append(row_name(row, decoded))
    opinions = {name: (len(set(map(frozenset, made))), len(made)) for name, made in generated.items()}
    return [
        {
            "id": name,
            "target": targets[name],
            "predicted": [{"names": names, "labels": list(labels)} for labels, names in generated[name].items()],
        }
        for name in sorted(opinions, key=lambda name: opinions[name], reverse=True)
    ]


def _run(result: Result) -> dict[str, Any]:
    """The provenance of a cell, with which a reader can check or reproduce its numbers."""
    return {
        "name": _method(result.method),
        "method": result.method,
        "seed": result.seed,
        "updates": result.updates,
        "kept_update": result.kept_update,
        "flattened": result.flattened,
        "cut_short": result.cut_short,
        "parameters": result.parameters,
        "train_examples": getattr(result, "train_examples", None),
        "truncated": result.truncated,
        "seconds": {"train": result.seconds.train, "test": result.seconds.test},
        "commit": result.commit,
        "command": result.command,
        "versions": result.versions,
        "config": result.config,
    }
