"""The order in which labels are generated: the paper's case study, and methods that generate both orders of a pair."""

from __future__ import annotations

from collections.abc import Sequence

from orderfree.experiments.cell_result import count_pairs
from orderfree.experiments.paper import DECODERS, METHODS, Row
from orderfree.experiments.result_files import Result

from .verdicts import FAILS, HOLDS, UNTOLD, Verdict, was_cut

CASES: tuple[Row, ...] = (("seq2seq", "beam"), ("order-free-rnn", "beam"), ("ocd", "beam"), ("ocd-mtl", "joint"))
CASES_SHOWN = 3
ENOUGH_PAIRS = 20  # repeated pairs needed before the absence of a second order is evidence


def pair_orders(results: Sequence[Result], decoder: str) -> tuple[int, int]:
    """`count_pairs` over all seeds; older files hold only the first sequences."""
    repeated = reversed_too = 0
    for result in results:
        kept = count_pairs(example.predicted.get(decoder, ()) for example in result.examples)
        counted = result.pair_orders.get(decoder, kept)
        repeated, reversed_too = repeated + counted[0], reversed_too + counted[1]
    return repeated, reversed_too


def order_verdict(results: Sequence[Result], decoder: str, both: bool) -> tuple[Verdict, str]:
    """One pair in both orders proves that a method generates both; the opposite needs many pairs in one order only."""
    if not results:
        return UNTOLD, "not run yet"
    repeated, reversed_too = pair_orders(results, decoder)
    counted = f"{reversed_too} of {repeated} repeated pairs in both orders"
    if any(was_cut(result) for result in results):
        return UNTOLD, f"cut before it flattened; {counted}"
    if reversed_too:
        return (HOLDS if both else FAILS), counted
    if repeated < ENOUGH_PAIRS:
        return UNTOLD, counted
    return (FAILS if both else HOLDS), counted


def case_study(results: Sequence[Result]) -> list[str]:
    """Markdown: the label sequences of four methods for the same documents, from the first seed of each method.

    It shows the documents with several labels on which the methods differ most. Empty with fewer than two methods."""
    rows: dict[Row, Result] = {}
    for row in CASES:
        having = [r for r in results if r.method == row[0] and any(row[1] in e.predicted for e in r.examples)]
        if having:
            rows[row] = min(having, key=lambda result: result.seed)
    generated = {row: {e.id: e.predicted.get(row[1], []) for e in result.examples} for row, result in rows.items()}
    targets = {e.id: e.target for result in rows.values() for e in result.examples if len(e.target) > 1}
    shared = [name for name in targets if all(name in made for made in generated.values())]
    if len(rows) < 2 or not shared:
        return []
    opinions = {name: len({tuple(made[name]) for made in generated.values()}) for name in shared}
    cases = sorted(shared, key=lambda name: (-opinions[name], shared.index(name)))[:CASES_SHOWN]
    lines = ["| Model | " + " | ".join(cases) + " |", "| --- |" + " --- |" * len(cases)]
    lines.append("| Ground truth | " + " | ".join(", ".join(targets[name]) for name in cases) + " |")
    for (method, decoder), made in generated.items():
        title = METHODS[method] + (f", {DECODERS[decoder]}" if method == "ocd-mtl" else "")
        lines.append(f"| {title} | " + " | ".join(", ".join(made[name]) or "(none)" for name in cases) + " |")
    return lines
