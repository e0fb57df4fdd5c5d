from __future__ import annotations

import json

import pytest

from orderfree.errors import OrderfreeError
from orderfree.experiments.paper import PERFORMANCE
from orderfree.experiments.rendering import Cell
from orderfree.experiments.tables import combinations_table, corpus_table, rank_table, seen_unseen_table

MTL = ("beam", "br", "rescore", "joint")


def row_of(table, method, decoder="beam"):
    return next(row for row in table.rows if (row.method, row.decoder) == (method, decoder))


def test_rows_of_two_sizes_are_told_apart_in_text_too(make_result):
    results = [make_result("br", ("br",), 0.3), make_result("br", ("br",), 0.4, variant="paper")]
    text = " ".join(corpus_table(results, "reuters").to_text().split())
    assert "[paper]" in text
    assert "[paper-small]" in text


def test_mean_and_sample_deviation():
    cell = Cell.of([0.5, 0.6, 0.7])
    assert (cell.mean, cell.sd, cell.seeds) == (pytest.approx(0.6), pytest.approx(0.1), 3)
    assert cell.ours(3) == "0.600 ± 0.100"
    assert Cell.of([0.5]).ours(3) == "0.500"
    assert Cell.of([]).ours(3) == Cell.of([]).theirs() == ""


def test_without_results_the_table_is_the_papers():
    table = corpus_table([], "reuters")
    assert [(row.method, row.decoder) for row in table.rows] == list(PERFORMANCE["reuters", "test"])
    assert all(cell.mean is None and not cell.best for row in table.rows for cell in row.cells.values())
    assert table.notes == []
    svm = next(line for line in table.to_markdown().splitlines() if line.startswith("| SVM"))
    assert [cell.strip() for cell in svm.split("|")[2:8]] == ["", "", "0.468", "", "0.787", ""]


def test_ours_stands_beside_the_printed_numbers(make_result):
    results = [make_result("ocd", value=value, seed=seed) for seed, value in ((1, 0.5), (2, 0.7))]
    table = corpus_table([*results, make_result("ocd", corpus="rcv1-subset")], "reuters")
    row = row_of(table, "ocd")
    assert (row.seeds, row.cells["micro_f1"].mean, float(row.cells["micro_f1"].printed)) == (2, 0.6, 0.872)
    assert "| OCD | 2 | 0.600 ± 0.141 | 0.458 |" in table.to_markdown()
    lines = table.to_text().splitlines()
    assert max(map(len, lines)) <= 100
    assert all(line.split()[-1] == "(paper)" for line in lines if "(paper)" in line), "no column is cut off"
    above = next(number for number, line in enumerate(lines) if "0.600" in line)
    assert "±0.141" in lines[above + 1]
    assert "(0.458)" in table.to_text()
    assert "not comparable" not in table.to_markdown()


def test_the_best_of_our_rows_is_marked_as_it_is_shown(make_result):
    results = [
        make_result("br", ("br",), 0.3),
        make_result("ocd", value=0.70004),
        make_result("ocd-mtl", MTL, 0.70001),  # printed the same: marked the same
    ]
    table = corpus_table(results, "reuters")
    assert not row_of(table, "br", "br").cells["micro_f1"].best
    assert row_of(table, "ocd").cells["micro_f1"].best
    assert row_of(table, "ocd-mtl", "joint").cells["micro_f1"].best
    assert not row_of(table, "seq2seq").cells["micro_f1"].best
    assert "**0.700**" in table.to_markdown()
    assert "0.700*" in table.to_text()


def test_a_single_row_is_not_the_best_of_anything(make_result):
    assert "**" not in corpus_table([make_result()], "reuters").to_markdown()


def test_a_metric_that_was_not_measured_stays_empty(make_result):
    table = corpus_table([make_result(test={"beam": {"micro_f1": 0.5}})], "reuters")
    assert row_of(table, "ocd").cells["macro_f1"].mean is None
    assert "| OCD | 1 |  | 0.458 | 0.500 | 0.872 |" in table.to_markdown()


def test_runs_cut_short_carry_a_dagger_and_a_footnote(make_result):
    table = corpus_table([make_result(), make_result(seed=2, cut_short=True)], "reuters")
    assert "| OCD † | 2 |" in table.to_markdown()
    assert any(note.startswith("†") for note in table.notes)


def test_caveat_of_a_corpus_that_is_not_the_papers(make_result):
    table = corpus_table([make_result(corpus="rcv1-subset")], "rcv1-subset")
    assert any("rcv1-subset beside the printed figures: not comparable" in note for note in table.notes)
    assert row_of(table, "ocd").cells["micro_f1"].printed is not None


def test_variants_are_never_averaged(make_result):
    table = corpus_table([make_result(value=0.2), make_result(value=0.4, variant="paper")], "reuters")
    rows = [(row.name, row.cells["micro_f1"].mean) for row in table.rows if row.method == "ocd"]
    assert rows == [("OCD [paper-small]", 0.2), ("OCD [paper]", 0.4)]


def test_rows_the_paper_does_not_have(make_result):
    results = [make_result("ocd", ("greedy", "beam")), make_result("classifier-chain", ("chain",))]
    names = [row.name for row in corpus_table(results, "reuters").rows]
    assert names[-1] == "Classifier chain"
    assert "OCD, greedy" not in names
    extra = [row.name for row in corpus_table(results, "reuters", extra=True).rows]
    assert extra[-2:] == ["Classifier chain", "OCD, greedy"]


def test_a_corpus_the_paper_does_not_have(make_result):
    table = corpus_table([make_result(corpus="toy")], "toy")
    assert [row.name for row in table.rows] == ["OCD"]
    assert "paper |" not in table.to_markdown()
    assert "(paper)" not in table.to_text()


def test_more_than_one_label(make_result):
    parts = {"test_multi": {"beam": {"micro_f1": 0.25}}}
    table = corpus_table([make_result(parts=parts), make_result("br", ("br",))], "reuters", part="test_multi")
    assert row_of(table, "ocd").cells["micro_f1"].mean == 0.25
    assert str(row_of(table, "ocd").cells["micro_f1"].printed) == "0.734"
    assert row_of(table, "br", "br").seeds == 0  # has no such part


def test_seen_and_unseen(make_result):
    parts = {"test_seen": {"beam": {"micro_f1": 0.7}}, "test_unseen": {"beam": {"example_f1": 0.4}}}
    table = seen_unseen_table([make_result("seq2seq", corpus="aapd-resplit", parts=parts)])
    cells = row_of(table, "seq2seq").cells
    assert [cell.mean for cell in cells.values()] == [0.7, None, None, 0.4]
    assert [str(cell.printed) for cell in cells.values()] == ["0.730", "0.749", "0.503", "0.508"]  # the detailed table


def test_combinations(make_result):
    counts = {"reference": {"distinct": 210, "unseen": 94}, "beam": {"distinct": 150, "unseen": 30}}
    other = {**counts, "beam": {"distinct": 160, "unseen": 20}}
    results = [make_result(combinations=counts), make_result(seed=2, combinations=other), make_result("seq2seq")]
    table = combinations_table(results, "reuters")
    assert table.rows[0].name == "Reference"
    assert (table.rows[0].seeds, table.rows[0].cells["distinct"].mean) == (2, 210)
    assert "| OCD | 2 | 155 ± 7 | 159 | 25 ± 7 | 37 |" in table.to_markdown()
    assert "**" not in table.to_markdown()
    assert row_of(table, "seq2seq").seeds == 0


def test_ranks_of_ours_and_of_the_printed_tables_among_the_same_methods(make_result):
    results = [make_result("br", ("br",), 0.3), make_result("ocd", value=0.5), make_result("ocd-mtl", MTL, 0.5)]
    table = rank_table(results, ["reuters"])
    assert [row.name for row in table.rows] == ["BR", "OCD", "OCD + MTL"]
    assert [row.cells["average"].mean for row in table.rows] == [3.0, 1.5, 1.5]
    assert [str(row.cells["macro_f1"].printed) for row in table.rows] == ["3.00", "2.00", "1.00"]
    assert [row.cells["average"].best for row in table.rows] == [False, True, True]


def test_ranks_need_every_corpus(make_result):
    results = [make_result("br", ("br",)), make_result("ocd"), make_result("ocd", corpus="rcv1-subset", cut_short=True)]
    table = rank_table(results, ["reuters", "rcv1-subset"])
    assert [row.method for row in table.rows] == ["ocd"]
    assert table.rows[0].cut_short


def test_ranks_of_the_paper_alone():
    table = rank_table([], ["reuters", "aapd", "audioset", "rcv1"])
    ranks = {row.name: row.cells["average"].printed for row in table.rows}
    assert len(ranks) == 7
    assert min(ranks, key=lambda name: ranks[name]) == "OCD + MTL"  # as the paper says: MTL first,
    assert sorted(ranks, key=lambda name: ranks[name])[1] == "OCD"  # then OCD
    assert all(row.seeds == 0 and not row.cut_short for row in table.rows)


def test_ranks_do_not_mix_variants(make_result):
    results = [make_result(), make_result(variant="paper")]
    with pytest.raises(OrderfreeError, match="choose one variant"):
        rank_table(results, ["reuters"])
    assert rank_table(results, ["reuters"], variant="paper").rows[0].seeds == 1


def test_json_holds_all_and_nothing_else(make_result):
    content = json.loads(json.dumps(corpus_table([make_result()], "reuters").to_json(), allow_nan=False))
    row = next(row for row in content["rows"] if row["method"] == "ocd")
    cell = row["cells"]["micro_f1"]
    assert cell == {"mean": 0.5, "sd": None, "seeds": 1, "printed": 0.872, "best": False}
    assert (row["variant"], row["cut_short"]) == ("paper-small", False)
