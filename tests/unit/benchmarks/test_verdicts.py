"""The rule of the verdicts, on made-up result files with known answers."""

from __future__ import annotations

import numpy as np
import pytest

from claims.claims import CLAIMS, Claim, judge_claim, printed_verdict
from claims.measures import FOUR, drawn, outcomes, value
from claims.orders import case_study, order_verdict, pair_orders
from claims.verdicts import Comparison, Evidence, Side, ended_by, overall, was_cut
from orderfree.experiments.cell_result import packed

LABELS = 10
DOCUMENTS = 400
MEASURE = "test/example_f1"
PAIR = Comparison(Side(("ocd", "beam"), MEASURE), Side(("seq2seq", "beam"), MEASURE))
CLAIM = Claim("OCD is ahead", "here", ("reuters",), (PAIR,))


def counts_of(right: int, documents: int = DOCUMENTS) -> list[list[int]]:
    """Documents of one label, every third of two; the first `right` are found, the others are given a wrong label."""
    sizes = [2 if place % 3 == 0 else 1 for place in range(documents)]
    return [[size, 0, 0] if place < right else [0, 1, size] for place, size in enumerate(sizes)]


def scores_of(counts: list[list[int]]) -> dict[str, float]:
    hits, extra, missed = np.array(counts, dtype=float).T
    f1 = 2 * hits / (2 * hits + extra + missed)
    four = {
        "micro_f1": 2 * hits.sum() / (2 * hits + extra + missed).sum(),
        "example_f1": f1.mean(),
        "subset_accuracy": (extra + missed == 0).mean(),
        "hamming_accuracy": 1 - (extra + missed).mean() / LABELS,
    }
    return {**four, "macro_f1": 0.5, "average": (0.5 + sum(four.values())) / 5}


@pytest.fixture
def run(make_result):
    def made(method: str, right: int, seed: int = 1, documents: int = DOCUMENTS, **changes):
        counts = counts_of(right, documents)
        content = {
            "variant": "paper",
            "test": {"beam": scores_of(counts)},
            "outcomes": {"beam": packed(counts)},
        }
        return make_result(method, seed=seed, **{**content, **changes})

    return made


def rows(run, ocd: tuple[int, ...], seq2seq: tuple[int, ...], **changes) -> list:
    return [
        *(run("ocd", right, seed, **changes) for seed, right in enumerate(ocd, 1)),
        *(run("seq2seq", right, seed) for seed, right in enumerate(seq2seq, 1)),
    ]


def judged(results, claim: Claim = CLAIM, corpus: str = "reuters"):
    found = judge_claim(claim, Evidence(results, {corpus: "paper", "aapd": "paper"}))
    return found.verdict, found.findings[corpus][0]


def test_a_clear_win_holds_and_the_other_way_round_does_not(run):
    verdict, finding = judged(rows(run, (360, 362, 358), (300, 302, 298)))
    assert (verdict, finding.outcome) == ("holds", "ahead")
    assert finding.difference == pytest.approx(60 / DOCUMENTS)
    assert 0 < finding.documents[0] < finding.difference < finding.documents[1]
    assert judged(rows(run, (300, 302, 298), (360, 362, 358)))[0] == "does not hold"


def test_the_bar_of_the_seeds_is_the_one_of_the_book(run):
    _, finding = judged(rows(run, (360, 362, 358), (300, 302, 298)))
    deviation = 2 / DOCUMENTS  # of 360, 362, 358 and of 300, 302, 298
    assert finding.bar == pytest.approx(2.776445 * deviation * (2 / 3) ** 0.5)  # t of 4 degrees of freedom


def test_inside_the_noise_of_the_seeds_cannot_be_told(run):
    # The documents alone would say that OCD is ahead: its ten more are never lost in a draw.
    verdict, finding = judged(rows(run, (330, 380, 320), (310, 370, 320)))
    assert (verdict, finding.outcome) == ("cannot be told", "inside the noise")
    assert finding.documents[0] > 0


def test_inside_the_noise_of_the_documents_cannot_be_told(run):
    verdict, finding = judged(rows(run, (301, 301, 301), (300, 300, 300)))
    assert finding.difference > finding.bar == 0
    assert finding.documents[0] == 0
    assert verdict == "cannot be told"


def test_too_few_seeds_cannot_be_told(run):
    verdict, finding = judged(rows(run, (390,), (100,)))
    assert verdict == "cannot be told"
    assert "too few seeds" in finding.reason


def test_a_corpus_of_single_seeds_takes_the_bar_of_the_other(run):
    single = rows(run, (360,), (300,))
    elsewhere = [run("br", right, seed, corpus="aapd") for seed, right in enumerate((360, 362, 358), 1)]
    verdict, finding = judged([*single, *elsewhere])
    assert (verdict, finding.noise_from) == ("holds", "aapd")


@pytest.mark.parametrize("changes", [{"cut_short": True}, {"ended_by": "budget"}])
def test_a_row_that_was_cut_carries_no_verdict(run, changes):
    cut = rows(run, (360, 362, 358), (300, 302, 298), flattened=False, **changes)
    verdict, finding = judged(cut)
    assert verdict == "cannot be told"
    assert finding.reason == "cut before it flattened"
    worse = rows(run, (300, 302, 298), (360, 362, 358), flattened=False, **changes)
    assert judged(worse)[0] == "cannot be told"


def test_older_files_have_no_paired_test(run):
    results = rows(run, (360, 362, 358), (300, 302, 298), outcomes={})
    verdict, finding = judged(results)
    assert verdict == "cannot be told"
    assert finding.reason.startswith("no paired test")
    assert finding.difference is not None  # it is shown all the same


def test_files_of_different_documents_are_not_paired(run):
    results = [run("ocd", 360, 1), run("ocd", 361, 2), run("seq2seq", 200, 1, documents=300)]
    assert judged(results)[1].reason == "the files are of different test documents"


def test_a_row_nobody_has_run(run):
    assert judged([run("ocd", 360)])[1].reason == "not run yet"


def test_other_sizes_are_no_evidence(run):
    results = rows(run, (360, 362, 358), (300, 302, 298), variant="paper-small")
    assert judged(results)[1].reason == "not run yet"


def test_a_claim_on_several_corpora():
    assert overall(["holds", "holds"]) == "holds"
    assert overall(["holds", "cannot be told"]) == "cannot be told"
    assert overall(["cannot be told", "does not hold"]) == "does not hold"
    assert overall([]) == "cannot be told"


def test_the_lead_on_documents_of_several_labels(make_result):
    # OCD is right everywhere, Seq2seq only where there is one label: all of the lead is on the others.
    every, one = counts_of(DOCUMENTS), [c if c[0] == 1 else [0, 1, 2] for c in counts_of(DOCUMENTS)]
    results = []
    for method, counts in (("ocd", every), ("seq2seq", one)):
        several = scores_of([c for c in counts if c[0] + c[2] > 1])
        for seed in (1, 2):
            results.append(
                make_result(
                    method,
                    seed=seed,
                    variant="paper",
                    test={"beam": scores_of(counts)},
                    parts={"test_multi": {"beam": several}},
                    outcomes={"beam": packed(counts)},
                )
            )
    gap = Comparison(*(Side((method, "beam"), "gap/example_f1") for method in ("ocd", "seq2seq")))
    verdict, finding = judged(results, Claim("", "", ("reuters",), (gap,)))
    assert verdict == "holds"
    assert finding.difference == pytest.approx(1 - 134 / DOCUMENTS)  # 134 of 400 have two labels


@pytest.mark.parametrize("metric", FOUR)
def test_draws_lie_around_the_score_itself(run, metric):
    result = run("ocd", 320)
    draws = drawn(result, "beam", f"test/{metric}")
    assert draws.shape == (1000,)
    assert draws.mean() == pytest.approx(value(result, "beam", f"test/{metric}"), abs=0.003)


def test_documents_of_several_labels_are_found_by_their_true_labels(run):
    counts = outcomes(run("ocd", 320), "beam", "test_multi")
    assert len(counts) == 134
    assert set((counts[:, 0] + counts[:, 2]).tolist()) == {2}


def test_what_ended_a_run_is_read_from_older_files(make_result):
    def curve(*updates: int) -> list[dict]:
        return [{"update": update, "validation": {}} for update in updates]

    patient = {"training": {"patience": 2}}
    assert ended_by(make_result(config=patient, kept_update=10, updates=30, curve=curve(10, 20, 30))) == "patience"
    assert ended_by(make_result(config=patient, kept_update=20, updates=30, curve=curve(10, 20, 30))) == "cap"
    assert ended_by(make_result(cut_short=True)) == "budget"
    assert ended_by(make_result(updates=0)) == "nothing to descend"
    assert ended_by(make_result(ended_by="cap", cut_short=True)) == "cap"
    assert not was_cut(make_result(cut_short=True, flattened=True))


def examples(*sequences: list[str]) -> list[dict]:
    return [{"id": str(n), "target": ["a", "b"], "predicted": {"beam": labels}} for n, labels in enumerate(sequences)]


def test_both_orders_of_a_pair(make_result):
    both = make_result(examples=examples(["a", "b", "c"], ["b", "a"], ["a", "c"]))
    assert pair_orders([both], "beam") == (2, 1)  # a-b twice, once each way; a-c twice, one way
    assert order_verdict([both], "beam", both=True)[0] == "holds"
    assert order_verdict([both], "beam", both=False)[0] == "does not hold"
    few = make_result(examples=examples(["a", "b"], ["a", "b"]))
    assert order_verdict([few], "beam", both=False)[0] == "cannot be told"
    many = make_result(examples=examples(*[list("abcdefg")] * 2))  # 21 pairs, each twice
    assert order_verdict([many], "beam", both=False)[0] == "holds"
    assert order_verdict([], "beam", both=True) == ("cannot be told", "not run yet")


def test_case_study_shows_what_is_disputed_first(make_result):
    results = [
        make_result("seq2seq", examples=examples(["a", "b"], ["a", "b"])),
        make_result("ocd", examples=examples(["a", "b"], ["b", "a"])),
    ]
    lines = case_study(results)
    assert lines[0] == "| Model | 1 | 0 |"
    assert lines[2:] == ["| Ground truth | a, b | a, b |", "| Seq2seq | a, b | a, b |", "| OCD | b, a | a, b |"]
    assert case_study(results[:1]) == []


def test_what_the_printed_tables_say():
    by_text = {claim.text: printed_verdict(claim) for claim in CLAIMS}
    headline = CLAIMS[0]
    assert headline.text.startswith("OCD + MTL")
    assert by_text[headline.text] == "reuters 6 of 6, aapd 6 of 6, rcv1 6 of 6, audioset 5 of 5"
    acc = next(text for text in by_text if text.endswith("in ACC"))
    assert "aapd 2 of 6" in by_text[acc]
    assert len(by_text) == len(CLAIMS)
