"""The claims of the paper, as comparisons of rows, and the verdict on each of our corpora.

A claim is a record: its text, where the paper makes it, its corpora, and the rows to compare; `verdicts` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orderfree.experiments.paper import COMBINATIONS, METRICS, PERFORMANCE, Row, counterpart

from .measures import on_scale
from .orders import order_verdict
from .verdicts import Comparison, Evidence, Finding, Side, Verdict, judge, overall

# The variant whose results are the evidence for each corpus. Only the first three are the paper's own data.
EVIDENCE = {
    "reuters": "paper",
    "aapd": "paper",
    "aapd-resplit": "paper",
    "rcv1-subset": "paper-small",
    "audioset-balanced": "paper-small",
}
OWN_DATA = ("reuters", "aapd", "aapd-resplit")
TABLES = ("reuters", "aapd", "rcv1-subset", "audioset-balanced")  # corpora with a performance table in the paper
NOT_THERE = {("audioset-balanced", "br++"), ("aapd-resplit", "ocd-mtl")}  # the paper has no such rows either

BR, BRPP = ("br", "br"), ("br++", "br")
SEQ2SEQ, SEQ2SEQ_SS = ("seq2seq", "beam"), ("seq2seq-ss", "beam")
OFRNN, OFRNN_SS = ("order-free-rnn", "beam"), ("order-free-rnn-ss", "beam")
OCD, CORRECT = ("ocd", "beam"), ("ocd-correct-prefix", "beam")
MTL_RNN, MTL_BR, RESCORE, JOINT = (("ocd-mtl", decoder) for decoder in ("beam", "br", "rescore", "joint"))
SEQUENCES = (SEQ2SEQ, SEQ2SEQ_SS, OFRNN, OFRNN_SS)
BASELINES = (BR, BRPP, *SEQUENCES)


@dataclass(frozen=True, slots=True)
class Claim:
    text: str
    where: str
    corpora: tuple[str, ...]
    comparisons: tuple[Comparison, ...] = ()
    orders: tuple[Row, bool] | None = None  # a row, and whether the claim is that it generates pairs in both orders


@dataclass(frozen=True, slots=True)
class Judged:
    claim: Claim
    verdict: Verdict
    by_corpus: dict[str, tuple[Verdict, str]]  # the verdict and its reason
    findings: dict[str, list[Finding]]


def _ahead(firsts: Sequence[Row], seconds: Sequence[Row], *measures: str) -> tuple[Comparison, ...]:
    return tuple(Comparison(Side(a, m), Side(b, m)) for m in measures for a in firsts for b in seconds if a != b)


def _within(rows: Sequence[Row], higher: str, lower: str) -> tuple[Comparison, ...]:
    return tuple(Comparison(Side(row, higher), Side(row, lower)) for row in rows)


AVERAGE = "test/average"
RESPLIT = ("aapd-resplit",)
RESPLIT_ROWS = (*SEQUENCES, CORRECT, OCD)
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "OCD + MTL (joint decoding) is ahead of all baselines on the average of five metrics",
        "abstract; tables of AAPD, Reuters, Audio set, RCV1",
        TABLES,
        _ahead([JOINT], BASELINES, AVERAGE),
    ),
    *(
        Claim(
            f"OCD + MTL (joint decoding) is ahead of all baselines in {name}",
            "the same tables",
            TABLES,
            _ahead([JOINT], BASELINES, f"test/{metric}"),
        )
        for metric, name in METRICS.items()
        if metric != "average"
    ),
    Claim("OCD is ahead of all baselines on the average", "results", TABLES, _ahead([OCD], BASELINES, AVERAGE)),
    Claim(
        "OCD is ahead of Seq2seq in micro- and example-F1",
        "results",
        TABLES,
        _ahead([OCD], [SEQ2SEQ], "test/micro_f1", "test/example_f1"),
    ),
    Claim(
        "OCD is ahead of order-free RNN in micro- and example-F1",
        "results",
        TABLES,
        _ahead([OCD], [OFRNN], "test/micro_f1", "test/example_f1"),
    ),
    Claim("MTL helps the RNN decoder (average)", "results", TABLES, _ahead([MTL_RNN], [OCD], AVERAGE)),
    Claim("MTL helps the BR decoder (average)", "results", TABLES, _ahead([MTL_BR], [BR], AVERAGE)),
    Claim(
        "With MTL, BR learns faster (validation micro-F1, first four validations)",
        "figure of training curves",
        TABLES,
        _ahead([MTL_BR], [BR], "early/micro_f1"),
    ),
    Claim(
        "Both combined decoders are ahead of either decoder of the same model (average)",
        "results on AAPD",
        TABLES,
        _ahead([RESCORE, JOINT], [MTL_RNN, MTL_BR], AVERAGE),
    ),
    Claim("Joint decoding is ahead of rescoring (average)", "tables", TABLES, _ahead([JOINT], [RESCORE], AVERAGE)),
    Claim(
        "Seq2seq has the best subset accuracy",
        "results on AAPD and Audio set",
        ("aapd", "audioset-balanced"),
        _ahead([SEQ2SEQ], [BR, BRPP, SEQ2SEQ_SS, OFRNN, OFRNN_SS, OCD, JOINT], "test/subset_accuracy"),
    ),
    Claim(
        "Rescoring and joint decoding are ahead of Seq2set and SGM+GE in micro-F1",
        "results on AAPD",
        ("aapd",),
        _ahead(
            [RESCORE, JOINT],
            [("seq2set-simplified", "beam"), ("seq2set", "beam"), ("sgm-ge", "beam")],
            "test/micro_f1",
        ),
    ),
    Claim(
        "OCD + MTL (joint decoding) is ahead of EncDec and of an SVM in micro- and macro-F1",
        "table of Reuters",
        ("reuters",),
        _ahead([JOINT], [("encdec", "beam"), ("svm", "br")], "test/micro_f1", "test/macro_f1"),
    ),
    Claim(
        "OCD from sampled prefixes is ahead of OCD from correct ones, on seen and on unseen label sets (example-F1)",
        "discussion of scheduled sampling and OCD",
        RESPLIT,
        _ahead([OCD], [CORRECT], "test_seen/example_f1", "test_unseen/example_f1"),
    ),
    Claim(
        "Sampled prefixes are better than correct ones for OCD (micro- and example-F1)",
        "the same, on the whole test part",
        ("reuters", "aapd", "rcv1-subset"),
        _ahead([OCD], [CORRECT], "test/micro_f1", "test/example_f1"),
    ),
    Claim(
        "OCD is the best on label sets never seen in training (example-F1)",
        "table of the re-split",
        RESPLIT,
        _ahead([OCD], RESPLIT_ROWS, "test_unseen/example_f1"),
    ),
    Claim(
        "OCD names the most unseen label sets as a whole (subset accuracy)",
        "detailed table of the re-split",
        RESPLIT,
        _ahead([OCD], RESPLIT_ROWS, "test_unseen/subset_accuracy"),
    ),
    Claim(
        "Every model is worse on unseen label sets than on seen ones (example-F1)",
        "table of the re-split",
        RESPLIT,
        _within(RESPLIT_ROWS, "test_seen/example_f1", "test_unseen/example_f1"),
    ),
    Claim(
        "OCD generates the most label sets never seen in training",
        "table of combinations",
        ("reuters", "aapd", "audioset-balanced"),
        _ahead([OCD], SEQUENCES, "combinations/unseen"),
    ),
    Claim(
        "Seq2seq and order-free RNN generate fewer different label sets than OCD",
        "table of combinations",
        ("reuters", "aapd", "audioset-balanced"),
        _ahead([OCD], [SEQ2SEQ, OFRNN], "combinations/distinct"),
    ),
    Claim(
        "OCD and OCD + MTL are more accurate than the baselines after position 2",
        "figures of position-wise accuracy (Audio set, AAPD)",
        (*TABLES, "aapd-resplit"),
        _ahead([OCD, JOINT], SEQUENCES, "position/3", "position/4"),
    ),
    Claim(
        "Accuracy falls from position to position in every model",
        "the same figures",
        (*TABLES, "aapd-resplit"),
        tuple(pair for k in (1, 2) for pair in _within((*SEQUENCES, OCD, JOINT), f"position/{k}", f"position/{k + 1}")),
    ),
    Claim(
        "Scheduled sampling helps Seq2seq and order-free RNN on unseen label sets (example-F1)",
        "table of the re-split",
        RESPLIT,
        (
            *_ahead([SEQ2SEQ_SS], [SEQ2SEQ], "test_unseen/example_f1"),
            *_ahead([OFRNN_SS], [OFRNN], "test_unseen/example_f1"),
        ),
    ),
    Claim(
        "Scheduled sampling helps with label sets seen at most five times",
        "figure of example-F1 by frequency (AAPD)",
        ("reuters", "aapd"),
        (*_ahead([SEQ2SEQ_SS], [SEQ2SEQ], "frequency/rare"), *_ahead([OFRNN_SS], [OFRNN], "frequency/rare")),
    ),
    Claim(
        "Scheduled sampling does harm with label sets seen more than a hundred times",
        "the same figure",
        ("reuters", "aapd"),
        (*_ahead([SEQ2SEQ], [SEQ2SEQ_SS], "frequency/frequent"), *_ahead([OFRNN], [OFRNN_SS], "frequency/frequent")),
    ),
    Claim(
        "The lead of OCD + MTL over the baselines is larger on documents with several labels (example-F1)",
        "table of Reuters documents with several labels",
        ("reuters",),
        _ahead([JOINT], [BR, *SEQUENCES], "gap/example_f1"),
    ),
    Claim("OCD generates pairs of labels in both orders", "case study", (*TABLES, "aapd-resplit"), orders=(OCD, True)),
    Claim(
        "Seq2seq generates a pair of labels in one order only",
        "case study",
        (*TABLES, "aapd-resplit"),
        orders=(SEQ2SEQ, False),
    ),
    Claim(
        "Order-free RNN generates a pair of labels in one order only",
        "case study",
        (*TABLES, "aapd-resplit"),
        orders=(OFRNN, False),
    ),
    Claim(
        "OCD + MTL has the best average rank, OCD the second (average of five metrics on every corpus)",
        "figure of average ranks",
        TABLES,
        (*_ahead([JOINT], [*BASELINES, OCD], AVERAGE), *_ahead([OCD], BASELINES, AVERAGE)),
    ),
)


def judge_claim(claim: Claim, evidence: Evidence) -> Judged:
    """The verdict on every corpus, and the verdict over the corpora with the paper's own data."""
    by_corpus: dict[str, tuple[Verdict, str]] = {}
    findings: dict[str, list[Finding]] = {}
    for corpus in claim.corpora:
        if claim.orders is not None:
            row, both = claim.orders
            by_corpus[corpus] = order_verdict(evidence.of(corpus, row), row[1], both)
            continue
        asked = [pair for pair in claim.comparisons if not _not_there(corpus, pair)]
        findings[corpus] = [evidence.compare(corpus, pair) for pair in asked]
        by_corpus[corpus] = judge(findings[corpus]), why(findings[corpus])
    own_verdicts = [by_corpus[corpus][0] for corpus in claim.corpora if corpus in OWN_DATA]
    return Judged(claim, overall(own_verdicts), by_corpus, findings)


def _not_there(corpus: str, comparison: Comparison) -> bool:
    return any((corpus, side.row[0]) in NOT_THERE for side in (comparison.first, comparison.second))


def why(findings: Sequence[Finding]) -> str:
    """The number of comparisons by outcome, and why the others are undecided."""
    reasons = {finding.reason for finding in findings}
    if len(reasons) == 1 and "" not in reasons:
        return reasons.pop()
    counts = {
        outcome: sum(f.outcome == outcome for f in findings) for outcome in ("ahead", "behind", "inside the noise")
    }
    parts = [f"{count} {outcome}" for outcome, count in counts.items() if count]
    for reason in dict.fromkeys(finding.reason for finding in findings if finding.reason):
        parts.append(f"{sum(finding.reason == reason for finding in findings)} undecided ({reason})")
    return f"of {len(findings)}: " + ", ".join(parts)


def printed_verdict(claim: Claim) -> str:
    """How many comparisons hold in the paper's own tables, ignoring noise; empty if they have no such numbers."""
    counts = []
    for corpus in claim.corpora:
        theirs = counterpart(corpus)[0]
        signs = [_printed_sign(theirs, pair) for pair in claim.comparisons if not _not_there(corpus, pair)]
        known = [sign for sign in signs if sign is not None]
        if known:
            counts.append(f"{theirs} {sum(known)} of {len(known)}")
    return ", ".join(counts)


def _printed_sign(corpus: str, comparison: Comparison) -> bool | None:
    first, second = (_printed(corpus, side) for side in (comparison.first, comparison.second))
    return None if first is None or second is None else first > second


def _printed(corpus: str, side: Side) -> float | None:
    kind, _, name = side.measure.partition("/")
    if kind == "gap":
        parts = [_printed(corpus, Side(side.row, f"{part}/{name}")) for part in ("test_multi", "test")]
        return None if parts[0] is None or parts[1] is None else parts[0] - parts[1]
    table = COMBINATIONS.get(corpus, {}) if kind == "combinations" else PERFORMANCE.get((corpus, kind), {})
    number = table.get(side.row, {}).get(name)
    return None if number is None else on_scale(side.measure, float(number))
