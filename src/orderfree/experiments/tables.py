"""The paper's tables with our measurements and the printed numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TypeVar

from ..errors import OrderfreeError
from .analyses import average_ranks
from .paper import (
    COMBINATIONS,
    DECODERS,
    METHODS,
    METRICS,
    PERFORMANCE,
    RANKED,
    RANKING,
    REFERENCE,
    Row,
    Scores,
    counterpart,
)
from .rendering import CUT_SHORT, Cell, Column, Table, TableRow, mark_best
from .result_files import Result

ValueT = TypeVar("ValueT")

# The content of one table in a result: decoder -> column -> value.
Measured = Callable[[Result], Mapping[str, Mapping[str, float]]]

METRIC_COLUMNS = tuple(Column(key, name, 4 if key == "hamming_accuracy" else 3) for key, name in METRICS.items())
# The released code computes maF1 from mean precision and mean recall, the paper's text as a mean of F1.
OF_MEANS_COLUMNS = {
    "macro_f1": Column("macro_f1_of_means", "maF1 of means"),
    "average": Column("average_of_means", "Average, maF1 of means"),
}
OF_MEANS = (
    "maF1 is the mean of the labels' F1, as the paper's text defines it; maF1 of means is the harmonic mean of mean "
    "precision and mean recall, as the released code computes it. Which of the two the paper prints is not said."
)
SEEN_COLUMNS = tuple(
    Column(f"{part}/{metric}", f"{part} {METRICS[metric]}")
    for part in ("seen", "unseen")
    for metric in ("micro_f1", "example_f1")
)
COMBINATION_COLUMNS = (Column("distinct", "S_test", 0, None), Column("unseen", "S_test-train", 0, None))
RANKING_COLUMNS = (
    Column("mean_average_precision", "mAP"),
    Column("auc", "AUC"),
    Column("d_prime", "d′"),
    Column("labels", "labels", 0, None),
)
RANK_COLUMNS = tuple(Column(k, "All five" if k == "average" else name, 2, "low") for k, name in METRICS.items())
PARTS = {
    "test": "",
    "test_multi": ", examples with more than one label",
    "test_seen": ", label sets that occur in training",
    "test_unseen": ", label sets that do not occur in training",
}


def corpus_table(results: Sequence[Result], corpus: str, part: str = "test", extra: bool = False) -> Table:
    """The performance table of one corpus; `part` is the whole test part or one of `Result.parts`.

    Decoders the paper does not have are shown only if a method has no other, or if `extra` asks for them."""
    printed = PERFORMANCE.get((counterpart(corpus)[0], part), {})
    title = corpus + PARTS.get(part, f", {part}")

    def measured(result: Result) -> dict[str, dict[str, float]]:
        return {decoder: _with_both_macros(scores) for decoder, scores in result.part(part).items()}

    all_scores = [scores for result in results if result.corpus == corpus for scores in measured(result).values()]
    both = bool(printed) and any("macro_f1_of_means" in scores for scores in all_scores)
    columns = [[column, OF_MEANS_COLUMNS.get(column.key) if both else None] for column in METRIC_COLUMNS]
    flat = tuple(column for pair in columns for column in pair if column is not None)
    table = _table(title, results, corpus, flat, printed, measured, extra)
    return replace(table, notes=[*table.notes, OF_MEANS]) if both else table


def _with_both_macros(scores: Mapping[str, float]) -> dict[str, float]:
    """The scores with the average of five metrics that uses the other macro-F1."""
    if not {"macro_f1", "macro_f1_of_means", "average"} <= scores.keys():
        return dict(scores)
    other = scores["average"] + (scores["macro_f1_of_means"] - scores["macro_f1"]) / 5
    return {**scores, "average_of_means": other}


def search_table(results: Sequence[Result], corpus: str) -> Table:
    """The same models decoded both ways: with p_rnn = softmax(o) as the paper defines it (Eq. 3), and with the
    probabilities renormalised over the labels that are not masked. Of files that hold both."""
    having = [result for result in results if result.renormalised]
    columns = tuple(
        Column(f"{way}{metric}", f"{METRICS[metric]}{suffix}", 4 if metric == "hamming_accuracy" else 3, None)
        for metric in METRICS
        for way, suffix in (("", ""), ("renormalised/", " renorm."))
    )

    def measured(result: Result) -> dict[str, dict[str, float]]:
        other = result.renormalised
        return {d: {**result.test.get(d, {}), **_joined({"renormalised": other[d]})} for d in other}

    title = f"{corpus}, two definitions of the search"
    table = _table(title, having, corpus, columns, {}, measured, extra=False)
    note = "The other tables show the first of each pair: p_rnn = softmax(o), Eq. 3, masked without renormalising."
    return replace(table, notes=[*table.notes, note] if table.rows else [])


def seen_unseen_table(results: Sequence[Result], corpus: str = "aapd-resplit", extra: bool = False) -> Table:
    """Micro- and example-F1 on label sets that occur in training and on those that do not.

    Printed numbers are those of the paper's detailed table; the short table has exchanged columns (see `paper`)."""
    theirs = counterpart(corpus)[0]
    parts = {part: PERFORMANCE.get((theirs, f"test_{part}"), {}) for part in ("seen", "unseen")}
    printed = {row: _joined({part: rows[row] for part, rows in parts.items()}) for row in parts["seen"]}

    def measured(result: Result) -> dict[str, dict[str, float]]:
        by_part = {part: result.part(f"test_{part}") for part in parts}
        decoders = dict.fromkeys(decoder for by_decoder in by_part.values() for decoder in by_decoder)
        return {d: _joined({part: by_part[part].get(d, {}) for part in parts}) for d in decoders}

    title = f"{corpus}, label sets seen and not seen in training"
    return _table(title, results, corpus, SEEN_COLUMNS, printed, measured, extra)


def _joined(parts: Mapping[str, Mapping[str, ValueT]]) -> dict[str, ValueT]:
    return {f"{part}/{key}": value for part, values in parts.items() for key, value in values.items()}


def combinations_table(results: Sequence[Result], corpus: str, extra: bool = False) -> Table:
    """The number of distinct label sets of each method, and how many of them do not occur in training."""
    printed = dict(COMBINATIONS.get(counterpart(corpus)[0], {}))
    printed_reference = printed.pop(REFERENCE, {})

    def measured(result: Result) -> dict[str, dict[str, float]]:
        return {d: counts.model_dump() for d, counts in result.combinations.items() if d != "reference"}

    table = _table(f"{corpus}, label combinations", results, corpus, COMBINATION_COLUMNS, printed, measured, extra)
    # All methods with one seed have the same reference: one result per seed suffices.
    per_seed = {
        r.seed: r.combinations["reference"] for r in results if r.corpus == corpus and "reference" in r.combinations
    }
    cells = {
        column.key: Cell.of(
            [getattr(counts, column.key) for counts in per_seed.values()], printed_reference.get(column.key)
        )
        for column in COMBINATION_COLUMNS
    }
    table.rows.insert(0, TableRow("Reference", *REFERENCE, None, len(per_seed), False, cells))
    return table


def ranking_table(results: Sequence[Result], corpus: str) -> Table:
    """How well each label's examples are ranked: by binary relevance, and by the marginals of the label decoder."""
    printed = RANKING.get(counterpart(corpus)[0], {})

    def measured(result: Result) -> dict[str, dict[str, float]]:
        return {
            by: {name: value for name, value in ranking.items() if value is not None}
            for by, ranking in result.ranking.items()
        }

    return _table(f"{corpus}, ranking of labels", results, corpus, RANKING_COLUMNS, printed, measured, extra=True)


def rank_table(
    results: Sequence[Result], corpora: Sequence[str], variant: str | None = None, rows: Sequence[Row] = RANKED
) -> Table:
    """Average rank of the methods in each metric over the corpora, 1 the best (the paper's figure of average ranks).

    The figure prints no numbers; the printed ranks here follow from the printed tables, among the same methods as our
    ranks, or among all of `rows` if we have no results."""
    metrics = [metric for metric in METRICS if metric != "average"]
    runs = {corpus: [r for r in results if r.corpus == corpus and variant in (None, r.variant)] for corpus in corpora}
    ours = average_ranks([_means(runs[corpus], rows) for corpus in corpora], metrics)
    shown = [row for row in rows if row in ours] or list(rows)
    tables = [PERFORMANCE.get((counterpart(corpus)[0], "test"), {}) for corpus in corpora]
    theirs = average_ranks([{row: table[row] for row in shown if row in table} for table in tables], metrics)
    theirs = theirs if len(theirs) == len(shown) else {}  # ranks among fewer methods are not comparable
    made = []
    for row in shown:
        ranks, printed = ours.get(row, {}), theirs.get(row, {})
        cells = {
            metric: Cell.of([ranks[metric]] if ranks else [], Decimal(f"{printed[metric]:.2f}") if printed else None)
            for metric in METRICS
        }
        used = [[r for r in runs[corpus] if r.method == row[0]] for corpus in corpora]
        cut_short = any(r.cut_short for group in used for r in group)
        seeds = min((len(group) for group in used), default=0) if ranks else 0
        made.append(TableRow(row_name(row, shown), *row, variant, seeds, cut_short, cells))
    notes = [
        f"Ranks among {len(shown)} methods, averaged over {', '.join(corpora)}; 1 is best. "
        "paper: ranks that follow from its printed tables.",
        *(_caveat(corpus) for corpus in corpora if theirs and counterpart(corpus)[1]),
        *([CUT_SHORT] if any(row.cut_short for row in made) else []),
    ]
    return Table("Average ranks", RANK_COLUMNS, mark_best(made, RANK_COLUMNS), notes)


def _means(runs: Sequence[Result], rows: Sequence[Row]) -> dict[Row, dict[str, float | None]]:
    means = {}
    for method, decoder in rows:
        of_method = [result for result in runs if result.method == method]
        variants = {result.variant for result in of_method}
        if len(variants) > 1:
            raise OrderfreeError(
                f"{method} on {runs[0].corpus} was run as {', '.join(sorted(variants))}: choose one variant to rank."
            )
        scores = [result.test[decoder] for result in of_method if decoder in result.test]
        means[method, decoder] = {metric: Cell.of(_values(scores, metric)).mean for metric in METRICS}
    return means


def _table(
    title: str,
    results: Sequence[Result],
    corpus: str,
    columns: tuple[Column, ...],
    printed: Mapping[Row, Scores],
    measured: Measured,
    extra: bool,
) -> Table:
    runs: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))  # method -> variant -> results
    for result in results:
        if result.corpus == corpus and measured(result):
            runs[result.method][result.variant].append(result)
    keys = [*printed, *_own_rows(runs, printed, measured, extra)]
    rows = []
    for key in keys:
        method, decoder = key
        groups: dict[str | None, list[Result]] = {
            variant: having
            for variant, group in runs.get(method, {}).items()
            if (having := [result for result in group if decoder in measured(result)])
        }
        for variant, group in (groups or {None: []}).items():
            scores = [measured(result)[decoder] for result in group]
            theirs = printed.get(key, {})
            cells = {c.key: Cell.of(_values(scores, c.key), theirs.get(c.key)) for c in columns}
            name = row_name(key, keys) + (f" [{variant}]" if len(groups) > 1 else "")
            cut_short = any(result.cut_short for result in group)
            rows.append(TableRow(name, method, decoder, variant, len(group), cut_short, cells))
    return Table(title, columns, mark_best(rows, columns), _notes(corpus, rows, columns, bool(printed)))


def _own_rows(
    runs: Mapping[str, Mapping[str, Sequence[Result]]], printed: Collection[Row], measured: Measured, extra: bool
) -> list[Row]:
    """Rows of ours that the paper's table does not have."""
    own_rows = []
    for method in sorted(runs, key=lambda name: place_of(name, METHODS)):
        groups = runs[method].values()
        decoders = {decoder for group in groups for result in group for decoder in measured(result)}
        for decoder in sorted(decoders, key=lambda name: place_of(name, DECODERS)):
            if (method, decoder) not in printed and (extra or decoder in DECODERS or len(decoders) == 1):
                own_rows.append((method, decoder))
    return own_rows


def place_of(name: str, known: Collection[str]) -> tuple[int, str]:
    """Sort key: the position in the paper's order; other names come last, in alphabetical order."""
    return (list(known).index(name) if name in known else len(known)), name


def row_name(row: Row, rows: Collection[Row]) -> str:
    """The method, and the decoder where the method has several rows."""
    method, decoder = row
    alone = sum(other == method for other, _ in rows) == 1
    name = METHODS.get(method, method)
    return name if alone else f"{name}, {DECODERS.get(decoder, decoder)}"


def _values(scores: Sequence[Mapping[str, float]], key: str) -> list[float]:
    return [values[key] for values in scores if key in values]


def _notes(corpus: str, rows: Sequence[TableRow], columns: Sequence[Column], has_printed: bool) -> list[str]:
    variants = sorted({row.variant for row in rows if row.variant})
    notes = []
    if variants:
        several = any(row.seeds > 1 for row in rows)
        what = "mean ± sample standard deviation over seeds" if several else "a single seed"
        best = "; the best of our rows in each column is marked" if any(column.better for column in columns) else ""
        notes.append(f"Ours: {what}; variant {', '.join(variants)}{best}.")
    if has_printed and counterpart(corpus)[1]:
        notes.append(_caveat(corpus))
    if any(row.cut_short for row in rows):
        notes.append(CUT_SHORT)
    return notes


def _caveat(corpus: str) -> str:
    return f"{corpus} beside the printed figures: {counterpart(corpus)[1]}."
