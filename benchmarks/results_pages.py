"""Writes docs/results/README.md, one page a corpus and their figures from the result files.

python benchmarks/results_pages.py
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import exp
from pathlib import Path

from claims.claims import CLAIMS, EVIDENCE, OWN_DATA, Judged, judge_claim, printed_verdict
from claims.orders import ENOUGH_PAIRS, case_study
from claims.verdicts import FAILS, HOLDS, UNTOLD, Evidence, Finding, Verdict, ended_by, was_cut
from orderfree.data.corpora import corpora
from orderfree.experiments.overview import frequency_table, positions_table
from orderfree.experiments.paper import DECODERS, METHODS, METRICS, PERFORMANCE, RANKED, Row, counterpart
from orderfree.experiments.paper_figures import ranks, write_figures
from orderfree.experiments.rendering import Table
from orderfree.experiments.result_files import Result, load_results
from orderfree.experiments.tables import combinations_table, corpus_table, rank_table, search_table, seen_unseen_table
from orderfree.report.figure_style import save
from orderfree.system.files import write_text

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "results"
MADE = "Made by `make results` from the files in `results/`; do not edit."
SIZES = {"paper": "the paper's size", "paper-small": "a smaller size (`paper-small`)"}
IN_SHORT = {
    HOLDS: "Yes: in the runs finished so far the paper's method is ahead of its baselines on average.",
    FAILS: "No: in the runs finished so far the paper's method is not ahead of its baselines on average.",
    UNTOLD: "Not decided yet: too few of the paper's experiments are finished at their full size to say.",
}
ENDED = {"patience": "flattened", "cap": "reached the cap", "budget": "cut", "nothing to descend": "nothing to descend"}


def main() -> None:
    for path in write_pages(load_results(ROOT / "results", _complain), PAGES):
        print(path)


def write_pages(results: Sequence[Result], folder: Path) -> list[Path]:
    """Every page and its figures; corpora by name, so that one nobody has run yet says so."""
    evidence = Evidence(results, EVIDENCE)
    judged = [judge_claim(claim, evidence) for claim in CLAIMS]
    written = []
    for corpus in EVIDENCE:
        lines = corpus_page(corpus, [result for result in results if result.corpus == corpus], judged, folder)
        written.append(_write(folder / f"{corpus}.md", lines))
    return [*written, _write(folder / "README.md", overview_page(results, evidence, judged, folder))]


def overview_page(results: Sequence[Result], evidence: Evidence, judged: Sequence[Judged], folder: Path) -> list[str]:
    data = " · [the data](data.md)" if (folder / "data.md").exists() else ""
    links = " · ".join(f"[{corpus}]({corpus}.md)" for corpus in EVIDENCE)
    return [
        "# Does order-free learning work?",
        "",
        _answer(judged),
        "",
        f"{MADE} Tables, figures and runs: {links}{data}. Beside other systems: [quality](quality.md).",
        "",
        "## The paper's claims",
        "",
        *_claims_table(judged),
        "",
        *_rule(),
        *_noise_table(evidence),
        "## What has been run",
        "",
        *_coverage(results),
        "",
        "## Average ranks over all corpora",
        "",
        *_overall_ranks(results, folder),
        "",
        "## Case study",
        "",
        *_cases(results),
    ]


def _answer(judged: Sequence[Judged]) -> str:
    headline = judged[0]
    own = [corpus for corpus in headline.claim.corpora if corpus in OWN_DATA]
    why = "; ".join(f"{corpus}: {headline.by_corpus[corpus][1]}" for corpus in own)
    return (
        f"{IN_SHORT[headline.verdict]}\n\n"
        f"The headline claim, that {headline.claim.text}: **{headline.verdict}** ({why}). "
        f"{_tally([judgement.verdict for judgement in judged], 'claims below')}{_beside(judged)}"
    )


def _beside(judged: Sequence[Judged]) -> str:
    """What is decided on data other than the paper's, at a smaller size."""
    sentences = []
    for corpus in EVIDENCE:
        verdicts = [judgement.by_corpus[corpus][0] for judgement in judged if corpus in judgement.by_corpus]
        hold, fail = verdicts.count(HOLDS), verdicts.count(FAILS)
        if corpus not in OWN_DATA and hold + fail:
            sentences.append(f" On `{corpus}`, at {SIZES[EVIDENCE[corpus]]}, {hold} hold and {fail} do not.")
    return "".join(sentences)


def _tally(verdicts: Sequence[Verdict], of_what: str) -> str:
    hold, fail, untold = (verdicts.count(verdict) for verdict in (HOLDS, FAILS, UNTOLD))
    return (
        f"Of the {len(verdicts)} {of_what}, {hold} hold, {fail} do not hold and {untold} cannot be told from the runs "
        "finished so far."
    )


def _claims_table(judged: Sequence[Judged]) -> list[str]:
    """One column a corpus. Reasons that stop a whole verdict are numbered and stand once, below the table."""
    lines = [
        f"| claim | where in the paper | its own tables agree | verdict | {' | '.join(EVIDENCE)} |",
        "| --- | --- | --- | --- |" + " --- |" * len(EVIDENCE),
    ]
    reasons: list[str] = []
    for judgement in judged:
        cells = [judgement.claim.text, judgement.claim.where, printed_verdict(judgement.claim) or "no numbers printed"]
        cells.append(f"**{judgement.verdict}**")
        cells += [_corpus_cell(judgement, corpus, reasons) for corpus in EVIDENCE]
        lines.append(f"| {' | '.join(cells)} |")
    notes = [f"- ({number}) {reason}" for number, reason in enumerate(reasons, 1)]
    return [*lines, *(["", "Not decided because:", "", *notes] if notes else [])]


def _corpus_cell(judgement: Judged, corpus: str, reasons: list[str]) -> str:
    """The verdict on one corpus. A reason shared by all pairs becomes a number; counts of pairs are written out."""
    if corpus not in judgement.by_corpus:
        return ""
    verdict, why = judgement.by_corpus[corpus]
    if verdict != UNTOLD or any(character.isdigit() for character in why):
        return f"{verdict} ({why})" if why else verdict
    if why not in reasons:
        reasons.append(why)
    return f"({reasons.index(why) + 1})"


def _rule() -> list[str]:
    own = ", ".join(f"`{corpus}`" for corpus in OWN_DATA)
    return [
        "How a verdict is made: a claim is a list of pairs of rows. A row is ahead of another if the difference of the "
        "means over seeds is larger than the 95 % bar of the seeds **and** 95 % of the paired bootstrap draws of the "
        "test documents lie on the same side of zero. A claim holds if every pair is ahead, does not hold if one pair "
        "is clearly the other way round, and cannot be told otherwise. A row that was cut before it flattened decides "
        f"nothing. The verdict in bold is that of the paper's own data ({own}) at the paper's size; `rcv1-subset` and "
        "`audioset-balanced` are other data at a smaller size and stand beside it.",
        "",
        "Bars for a corpus where no row has two seeds are those of the noisiest corpus that has. The average is "
        "tested on documents by the four metrics that files keep per document. Macro-F1, numbers of label sets, "
        "positions and frequencies have no outcome per document: seeds alone decide them. Whether a method generates "
        "both orders of a pair is counted over all test documents: one pair found both ways is a proof, and "
        f"{ENOUGH_PAIRS} repeated pairs without one are taken as enough for the contrary. That all models are "
        "alike in Hamming accuracy is not judged: the paper states no margin.",
        "",
    ]


def _noise_table(evidence: Evidence) -> list[str]:
    lines = ["### Noise of the seeds", ""]
    bars = {corpus: [evidence.noise(corpus, f"test/{metric}") for metric in METRICS] for corpus in EVIDENCE}
    if all(noise is None for noises in bars.values() for noise in noises):
        return [*lines, "Not known yet: no complete row at these sizes has two seeds, so no difference is judged.", ""]
    lines += ["The smallest difference that is more than noise: one seed against one, three against three.", ""]
    lines += [
        "| corpus | noise of | " + " | ".join(METRICS.values()) + " |",
        "| --- | --- |" + " ---: |" * len(METRICS),
    ]
    for corpus, noises in bars.items():
        cells = ["" if noise is None else f"{noise.bar(1, 1):.4f}, {noise.bar(3, 3):.4f}" for noise in noises]
        source = next((noise.source for noise in noises if noise is not None), "not known")
        lines.append(f"| {corpus} | {source} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _coverage(results: Sequence[Result]) -> list[str]:
    lines = ["| corpus | size | rows | flattened or at the cap | cut |", "| --- | --- | ---: | ---: | ---: |"]
    for corpus, variant in EVIDENCE.items():
        own = [result for result in results if (result.corpus, result.variant) == (corpus, variant)]
        if not own:
            lines.append(f"| {corpus} | {variant} | not run yet | | |")
            continue
        cut = sum(was_cut(result) for result in own)
        lines.append(f"| {corpus} | {variant} | {len({r.method for r in own})} | {len(own) - cut} | {cut} |")
    return lines


def _overall_ranks(results: Sequence[Result], folder: Path) -> list[str]:
    """A corpus enters once all ranked rows are there and none was cut."""
    chosen, left_out = [], []
    for corpus, variant in EVIDENCE.items():
        if (counterpart(corpus)[0], "test") not in PERFORMANCE:
            continue
        runs = [result for result in results if (result.corpus, result.variant) == (corpus, variant)]
        missing = {row[0] for row in RANKED} - {result.method for result in runs if not was_cut(result)}
        (left_out if missing else chosen).append(corpus)
    lines = [f"Left out until all {len(RANKED)} rows are complete: {', '.join(left_out)}.", ""] if left_out else []
    if not chosen:
        return [*lines, "No corpus is complete yet."]
    own = [result for result in results if EVIDENCE.get(result.corpus) == result.variant and result.corpus in chosen]
    table = rank_table(own, chosen)
    figure = ranks(own, chosen)
    picture = []
    if figure is not None:
        save(figure, folder / "figures" / "average-ranks")
        picture = ["![Average ranks](figures/average-ranks.svg)"]
    return [*lines, *_without_title(table), "", *picture]


def _cases(results: Sequence[Result]) -> list[str]:
    lines = ["Labels in the order they were generated; the documents on which the methods differ most.", ""]
    for corpus in ("aapd", "reuters"):
        own = [result for result in results if (result.corpus, result.variant) == (corpus, EVIDENCE[corpus])]
        table = case_study(own)
        lines += [f"### {corpus}", "", *(table or ["Not run yet."])]
        cut = sorted({METHODS[result.method] for result in own if was_cut(result)})
        lines += ["", f"Cut before they flattened: {', '.join(cut)}.", ""] if table and cut else [""]
    return lines


def corpus_page(corpus: str, results: Sequence[Result], judged: Sequence[Judged], folder: Path) -> list[str]:
    caveat = counterpart(corpus)[1]
    lines = [f"# {corpus}", "", f"{_what_it_is(corpus)} {_corpus_answer(corpus, results, judged)}", ""]
    lines += [f"Beside the printed figures: {caveat}.", ""] if caveat else []
    lines += [MADE, ""]
    for variant, shown in _shown(corpus, results).items():
        lines += _variant(corpus, variant, shown, folder)
    return lines + _comparisons(corpus, judged)


def _what_it_is(corpus: str) -> str:
    comparable = {
        "yes": "Scores can be set beside the paper's.",
        "near": "Scores can nearly be set beside the paper's.",
        "no": "Scores cannot be set beside the paper's; they compare methods with one another.",
    }
    info = corpora[corpus].info
    return f"The corpus: {info.title}. {comparable[info.comparable]}"


def _corpus_answer(corpus: str, results: Sequence[Result], judged: Sequence[Judged]) -> str:
    size = SIZES[EVIDENCE[corpus]]
    own = [result for result in results if result.variant == EVIDENCE[corpus]]
    if not own:
        return f"`{corpus}` is not run yet at {size}."
    told = _tally([found.by_corpus[corpus][0] for found in judged if corpus in found.by_corpus], "claims about it")
    complete = [result for result in own if not was_cut(result)]
    if not complete:
        return f"All {len(own)} runs at {size} were cut before they flattened, so they decide nothing. {told}"
    rows = [row for row in corpus_table(complete, corpus).rows if row.seeds]
    best = max(rows, key=lambda row: row.cells["average"].mean or 0.0)
    average = best.cells["average"].ours(3)
    return f"{best.name} has the highest average of the five metrics, {average}, at {size}. {told}"


def _shown(corpus: str, results: Sequence[Result]) -> dict[str, list[Result]]:
    """By size. On the paper's own data a row at the paper's size replaces its smaller ones."""
    replaced = {result.method for result in results if result.variant == "paper"} if corpus in OWN_DATA else set()
    variants = sorted({result.variant for result in results}, key=lambda name: (name != EVIDENCE[corpus], name))
    chosen = {
        v: [r for r in results if r.variant == v and (v == "paper" or r.method not in replaced)] for v in variants
    }
    return {variant: runs for variant, runs in chosen.items() if runs}


def _variant(corpus: str, variant: str, results: list[Result], folder: Path) -> list[str]:
    size = SIZES.get(variant, f"`{variant}`")
    lines = [f"## At {size}", ""]
    parts = sorted({part for result in results for part in result.parts})
    tables = [corpus_table(results, corpus, part) for part in ("test", *parts)]
    lines += [_measured(tables[0]).to_markdown(), "", *_runs(results)]
    tables = [*tables[1:], search_table(results, corpus)]
    if "test_seen" in parts:
        tables.append(seen_unseen_table(results, corpus))
    tables += [combinations_table(results, corpus), positions_table(results), frequency_table(results)]
    for table in map(_measured, tables):
        lines += [table.to_markdown(), ""] if table.rows else []
    cases = case_study(results)
    lines += ["### Case study", "", "Labels in the order they were generated.", "", *cases, ""] if cases else []
    for path in write_figures(results, folder / "figures" / variant, lambda _: None, variant):
        if path.suffix == ".svg":
            lines += [f"![{path.stem}]({path.relative_to(folder).as_posix()})", ""]
    return lines


def _runs(results: Sequence[Result]) -> list[str]:
    lines = [
        "### Runs",
        "",
        "| row | seed | ended | precision | search | updates | kept | parameters | minutes | commit |",
    ]
    lines += ["| --- | ---: | --- | --- | --- | ---: | ---: | ---: | ---: | --- |"]
    for result in results:
        renormalises = result.config.get("decoding", {}).get("renormalise", False)
        old = renormalises and not result.renormalised
        cells = (
            METHODS.get(result.method, result.method), result.seed, ENDED.get(ended_by(result), ended_by(result)),
            result.precision, "renormalised" if old else "as in the paper",
            f"{result.updates:,}", f"{result.kept_update:,}", f"{result.parameters:,}",
            f"{result.seconds.train / 60:.0f}", f"`{result.commit[:9]}`" if result.commit else "not known",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    notes = sorted({result.commit_note for result in results if result.commit_note})
    return [*lines, "", *(line for note in notes for line in (f"Commit not known: {note}.", ""))]


def _comparisons(corpus: str, judged: Sequence[Judged]) -> list[str]:
    """Every pair of rows behind the verdicts, with its numbers."""
    pairs = {f.comparison: f for found in judged for f in found.findings.get(corpus, []) if f.difference is not None}
    if not pairs:
        return []
    lines = ["## Pairs behind the verdicts", ""]
    lines += ["bar: what seeds alone would make; documents: where 95 % of the bootstrap draws lie."]
    lines += ["Numbers of label sets are compared as factors.", ""]
    lines += ["| first | second | measure | seeds | means | difference | bar | documents | first is |"]
    lines += ["| --- | --- | --- | --- | --- | ---: | ---: | --- | --- |"]
    return [*lines, *(_pair(finding) for finding in pairs.values()), ""]


def _pair(finding: Finding) -> str:
    first, second = finding.comparison.first, finding.comparison.second
    counted = first.measure.startswith("combinations/")
    digits = 4 if "hamming" in first.measure else 0 if counted else 3
    measure = first.measure if first.measure == second.measure else f"{first.measure}, {second.measure}"
    means = ", ".join(f"{mean:.{digits}f}" for mean in finding.means if mean is not None)

    def change(number: float | None) -> str:
        return "" if number is None else f"×{exp(number):.2f}" if counted else f"{number:+.{digits}f}"

    documents = ", ".join(change(end) for end in finding.documents) if finding.documents else ""
    bar = change(finding.bar).lstrip("+")
    outcome = finding.outcome if not finding.reason else f"undecided: {finding.reason}"
    seeds = f"{finding.seeds[0]}, {finding.seeds[1]}"
    cells = (_title(first.row), _title(second.row), measure, seeds, means, change(finding.difference), bar, documents)
    return f"| {' | '.join(cells)} | {outcome} |"


def _title(row: Row) -> str:
    method, decoder = row
    return METHODS[method] + (f", {DECODERS[decoder]}" if method == "ocd-mtl" else "")


def _measured(table: Table) -> Table:
    """Without the rows nobody has run here."""
    return Table(table.title, table.columns, [row for row in table.rows if row.seeds], table.notes)


def _without_title(table: Table) -> list[str]:
    return _measured(table).to_markdown().splitlines()[2:]


def _write(path: Path, lines: Sequence[str]) -> Path:
    write_text(path, "\n".join(lines).rstrip() + "\n")
    return path


def _complain(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
