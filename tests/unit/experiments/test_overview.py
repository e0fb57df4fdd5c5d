from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from orderfree.experiments.overview import (
    compared_examples,
    frequency_table,
    label_scores,
    overview,
    positions_table,
)
from orderfree.report import figure_style as canvas

MTL = ("beam", "br", "rescore", "joint")


def row_of(table: dict, name: str) -> list[tuple[str, str, str]]:
    row = next(row for row in table["rows"] if row["name"] == name)
    return [(cell["ours"], cell["spread"], cell["paper"]) for cell in row["cells"]]


def label_row(label: str, support: int, f1: float, predicted: int = 1) -> dict:
    return {"label": label, "support": support, "predicted": predicted, "precision": f1, "recall": f1, "f1": f1}


def test_ours_and_printed_numbers_of_every_corpus_and_variant(make_result):
    results = [
        make_result(value=0.7, seed=2),
        make_result(value=0.5, seed=1),
        make_result(value=0.3, variant="paper"),
        make_result(value=0.2, corpus="toy"),
    ]
    found = overview(results)
    assert found["runs"] == 4
    corpora = {(corpus["corpus"], corpus["variant"]): corpus for corpus in found["corpora"]}
    assert list(corpora) == [("reuters", "paper"), ("reuters", "paper-small"), ("toy", "paper-small")]
    small = corpora["reuters", "paper-small"]
    assert row_of(small["scores"], "OCD")[1] == ("0.600", "0.141", "0.872")
    assert row_of(small["scores"], "BR")[1] == ("", "", "0.861")
    assert row_of(corpora["reuters", "paper"]["scores"], "OCD")[1] == ("0.300", "", "0.872")
    assert row_of(corpora["toy", "paper-small"]["scores"], "OCD")[1] == ("0.200", "", "")
    assert small["scores"]["unmeasured"]
    assert not corpora["toy", "paper-small"]["scores"]["has_printed"]
    assert small["best"] == {"name": "OCD", "average": "0.600 ± 0.141"}
    assert [run["seed"] for run in small["runs"]] == [1, 2]
    json.dumps(found, allow_nan=False)


def test_what_the_results_do_not_have_is_empty(make_result):
    (corpus,) = overview([make_result(corpus="toy", test={})])["corpora"]
    for key in ("scores", "best", "parts", "seen", "seen_parts", "combinations", "ranks", "positions", "frequency"):
        assert corpus[key] == {}
    assert corpus["drawings"] == corpus["labels"] == {}
    assert corpus["confused_pairs"] == corpus["examples"] == []


def test_parts_stand_apart_from_seen_and_unseen(make_result):
    parts = {part: {"beam": {"micro_f1": 0.25}} for part in ("test_multi", "test_seen", "test_unseen", "test_long")}
    (corpus,) = overview([make_result(parts=parts)])["corpora"]
    assert list(corpus["parts"]) == ["Test_long", "Examples with more than one label"]
    assert row_of(corpus["parts"]["Examples with more than one label"], "OCD")[1] == ("0.250", "", "0.734")
    assert row_of(corpus["seen"], "OCD") == [("0.250", "", ""), ("", "", ""), ("0.250", "", ""), ("", "", "")]
    assert len(corpus["seen_parts"]) == 2


def test_combinations_and_ranks(make_result):
    counts = {"reference": {"distinct": 210, "unseen": 94}, "beam": {"distinct": 150, "unseen": 30}}
    (corpus,) = overview([make_result(combinations=counts), make_result("br", ("br",), 0.2)])["corpora"]
    assert row_of(corpus["combinations"], "OCD") == [("150", "", "159"), ("30", "", "37")]
    assert [row_of(corpus["ranks"], name)[0][0] for name in ("BR", "OCD")] == ["2.00", "1.00"]


def test_one_method_has_no_rank(make_result):
    assert overview([make_result()])["corpora"][0]["ranks"] == {}


def test_ranks_over_corpora_are_taken_variant_by_variant(make_result):
    results = [
        make_result(method, decoders, value, corpus=corpus, variant=variant)
        for method, decoders, value in (("br", ("br",), 0.3), ("ocd", ("beam",), 0.5))
        for corpus, variant in (("reuters", "paper-small"), ("rcv1-subset", "paper-small"), ("reuters", "paper"))
    ]
    (ranks,) = overview(results)["overall_ranks"]
    assert ranks["variant"] == "paper-small"
    assert row_of(ranks["table"], "OCD")[0][0] == "1.00"
    assert any("rcv1-subset beside the printed figures: not comparable" in note for note in ranks["table"]["notes"])


def test_positions_are_the_mean_of_the_seeds_that_got_there(make_result):
    results = [
        make_result("ocd-mtl", MTL, position_accuracy={"beam": [0.9, 0.5], "joint": [0.8] * 12}),
        make_result("ocd-mtl", MTL, seed=2, position_accuracy={"beam": [0.7]}),
    ]
    table = positions_table(results)
    assert [row.name for row in table.rows] == ["OCD + MTL, RNN dec.", "OCD + MTL, Logistic joint dec."]
    means = [table.rows[0].cells[column.key].mean for column in table.columns]
    assert means == [pytest.approx(0.8), 0.5, *[None] * 8]
    assert table.notes[0] == "The first 10 of 12 positions."


def test_frequency_pools_the_examples_of_all_seeds(make_result):
    def bins(n: int, f1: float) -> dict:
        empty = {"times": "1", "examples": 0, "example_f1": None}
        return {"beam": [{"times": "0", "examples": n, "example_f1": f1}, empty]}

    table = frequency_table([make_result(by_frequency=bins(1, 0.2)), make_result(seed=2, by_frequency=bins(3, 0.6))])
    assert [column.heading for column in table.columns] == ["0 (n = 3)"]  # a bin without examples is left out
    assert table.rows[0].cells["0"].mean == pytest.approx(0.5)


def test_labels_of_several_methods_stand_side_by_side(make_result):
    br = make_result("br", ("br",), per_label=[label_row("rare", 2, 0.5), label_row("often", 9, 0.75)])
    ocd = make_result("ocd", per_label=[label_row("often", 9, 0.25), label_row("absent", 0, 0.0, predicted=0)])
    found = label_scores({"ocd": ocd, "br": br})
    assert found["methods"] == ["BR", "OCD"]  # in the order of the paper
    assert found["f1"] == [
        {"label": "often", "support": 9, "f1": [0.75, 0.25]},
        {"label": "rare", "support": 2, "f1": [0.5, None]},
    ]
    assert [(method["name"], len(method["rows"])) for method in found["by_method"]] == [("BR", 2), ("OCD", 1)]


def test_confused_pairs_are_those_of_the_first_seed(make_result):
    pairs = [[{"missed": "a", "instead": "b", "count": count}] for count in (4, 7)]
    results = [make_result(seed=seed, confused_pairs=pairs[seed - 1]) for seed in (2, 1)]
    (corpus,) = overview(results)["corpora"]
    assert corpus["confused_pairs"] == [{"name": "OCD", "seed": 1, "pairs": pairs[0]}]


def test_examples_of_all_methods_and_those_in_dispute_first(make_result):
    def example(name: str, **predicted: list[str]) -> dict:
        return {"id": name, "target": ["a", "b"], "predicted": predicted}

    br = make_result("br", ("br",), examples=[example("1", br=["a"]), example("2", br=["a", "b"])])
    mtl = make_result(
        "ocd-mtl",
        MTL,
        examples=[example("1", beam=["a"], joint=["a"]), example("2", beam=["b", "a"], joint=["c"])],
    )
    first, second = compared_examples([br, mtl])
    assert (first["id"], second["id"]) == ("2", "1")
    assert first["predicted"] == [
        {"names": ["BR"], "labels": ["a", "b"]},
        {"names": ["OCD + MTL, RNN dec."], "labels": ["b", "a"]},  # the order of generation tells them apart
        {"names": ["OCD + MTL, Logistic joint dec."], "labels": ["c"]},
    ]
    assert second["predicted"] == [
        {"names": ["BR", "OCD + MTL, RNN dec.", "OCD + MTL, Logistic joint dec."], "labels": ["a"]}
    ]


def test_an_id_that_is_another_document_elsewhere_is_not_compared(make_result):
    def of(target: str) -> list[dict]:
        return [{"id": "1", "target": [target], "predicted": {"beam": ["a"]}}]

    (example,) = compared_examples([make_result(examples=of("a")), make_result("seq2seq", seed=2, examples=of("b"))])
    assert example["predicted"] == [{"names": ["Seq2seq"], "labels": ["a"]}]  # the paper has Seq2seq first
    assert example["target"] == ["b"]


def with_curves(make_result):
    curve = [{"update": u, "validation": {"beam": {"micro_f1": 0.5, "subset_accuracy": 0.4}}} for u in (10, 20)]
    return make_result(position_accuracy={"beam": [0.9, 0.5]}, curve=curve)


def test_drawings_bring_nothing_into_the_page_but_themselves(make_result):
    pytest.importorskip("matplotlib")
    (corpus,) = overview([with_curves(make_result)])["corpora"]
    assert list(corpus["drawings"]) == ["positions", "curves"]
    ids: list[str] = []
    for svg in corpus["drawings"].values():
        root = ElementTree.fromstring(svg)
        assert root.tag == "svg"
        assert "Date" not in svg
        assert not re.search(r"https?://|<style|<metadata|<!DOCTYPE|<\?xml", svg)
        own = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
        used = re.findall(r'(?:url\(#|href="#)([^")]+)', svg)
        assert used
        assert set(used) <= set(own)
        ids += own
    assert len(ids) == len(set(ids))


def test_without_matplotlib_there_are_tables_and_no_drawings(monkeypatch, make_result):
    monkeypatch.setattr(canvas.importlib.util, "find_spec", lambda name: None)
    found = overview([with_curves(make_result)])
    assert not found["drawn"]
    assert found["corpora"][0]["drawings"] == {}
    assert row_of(found["corpora"][0]["positions"], "OCD") == [("0.900", "", ""), ("0.500", "", "")]
