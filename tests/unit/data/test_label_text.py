"""Names of labels: one rule for every format, lists in cells, and warnings about labels that look like mistakes."""

from __future__ import annotations

import itertools
import json
import unicodedata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orderfree.config import DataConfig
from orderfree.data.hierarchy import Hierarchy
from orderfree.data.label_checks import label_warnings, spelling_note
from orderfree.data.readers import ReadCounts, read_examples
from orderfree.data.readers.checks import cell_labels, split_labels
from orderfree.data.seen import MOST, SeenTexts, TextCounter
from orderfree.errors import DataError
from orderfree.types import Example

COMPOSED, DECOMPOSED = "café", unicodedata.normalize("NFD", "café")


def read(path: Path, **options: object) -> tuple[list[Example], ReadCounts]:
    counts = ReadCounts()
    return list(read_examples(path, DataConfig(**options), labelled=True, counts=counts)), counts


def write_rows(path: Path, label_sets: list[list[str]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"text": ["x"] * len(label_sets), "labels": label_sets}), path)
    elif path.suffix == ".csv":
        cells = [",".join(labels) for labels in label_sets]
        path.write_text("text,labels\n" + "".join(f'x,"{cell}"\n' for cell in cells), encoding="utf-8")
    else:
        lines = [json.dumps({"text": "x", "labels": labels}) for labels in label_sets]
        path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_all_formats_read_the_same_labels(tmp_path: Path, name: str) -> None:
    path = write_rows(tmp_path / name, [[" a", "b"], ["a "], ["a"], [DECOMPOSED], [COMPOSED], ["\u00a0a"]])
    examples, counts = read(path)
    assert [example.labels for example in examples] == [("a", "b"), ("a",), ("a",), (COMPOSED,), (COMPOSED,), ("a",)]
    assert counts.cleaned_labels == (1 if name == "a.csv" else 4), "blanks between cells are no mistake"
    [note] = counts.notes()
    assert "NFC" in note


def test_labels_that_become_the_same_count_once(tmp_path: Path) -> None:
    [example], counts = read(write_rows(tmp_path / "a.jsonl", [["a", " a"]]))
    assert example.labels == ("a",)
    assert counts.repeated_labels == 1


def test_a_no_break_space_is_part_of_a_label(tmp_path: Path) -> None:
    (tmp_path / "a.ft").write_text("__label__New\u00a0York __label__b red\u00a0fish\n", encoding="utf-8")
    [example], _ = read(tmp_path / "a.ft")
    assert example.labels == ("New\u00a0York", "b")
    assert example.text == "red\u00a0fish"
    (tmp_path / "a.libsvm").write_text("New\u00a0York,b 1:2\n", encoding="utf-8")
    [example], _ = read(tmp_path / "a.libsvm")
    assert example.labels == ("New\u00a0York", "b")


def test_a_key_that_stands_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x", "labels": ["a"], "labels": ["b"]}\n', encoding="utf-8")
    with pytest.raises(DataError, match="line 1: names the field 'labels' twice"):
        read(path)
    path.write_text('{"text": "x", "labels": ["a"], "other": 1, "other": 2}\n', encoding="utf-8")
    assert read(path)[0][0].labels == ("a",)


@pytest.mark.parametrize(("case", "expected"), [("keep", "CS.cl"), ("lower", "cs.cl"), ("upper", "CS.CL")])
def test_case_of_labels(tmp_path: Path, case: str, expected: str) -> None:
    [example], _ = read(write_rows(tmp_path / "a.jsonl", [["CS.cl"]]), label_case=case)
    assert example.labels == (expected,)


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("['a', 'b, c']", ("a", "b, c")),
        ("['a' 'b']", ("a", "b")),
        ('["a", "b"]', ("a", "b")),
        ("""["it's", 'b']""", ("it's", "b")),
        ('["caf\\u00e9"]', ("café",)),
        ('["a\\/b"]', ("a/b",)),
        ("[1, 22]", ("1", "22")),
        ("[]", ()),
        (" ['a'] ", ("a",)),
        ("[a, b]", ("[a", "b]")),
        ("['a', b]", ("['a'", "b]")),
        ("[1.5]", ("[1.5]",)),
        ("[true]", ("[true]",)),
        ("a,b", ("a", "b")),
        ("a,b,", ("a", "b")),
        ("a,,b", ("a", "", "b")),
        (",", ("",)),
        ("", ()),
    ],
)
def test_labels_of_a_cell(cell: str, labels: tuple[str, ...]) -> None:
    assert cell_labels(cell, ",") == labels


def test_a_hostile_cell_takes_no_time() -> None:
    for cell in ("['" + "\\'" * 300_000 + "]", "[" * 1_000_000 + "]", "['a'" * 200_000 + "]"):
        assert cell_labels(cell, ";") == (cell,)
    assert split_labels("a \t b", " ") == ("a", "b")


def test_lists_in_cells_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,labels\nx,\"['a', 'b']\"\ny,\"a,b,\"\n", encoding="utf-8")
    examples, counts = read(path)
    assert [example.labels for example in examples] == [("a", "b"), ("a", "b")]
    assert (counts.cells, counts.list_cells) == (1, 1)


def test_a_forgotten_separator_and_case_twins_are_warned_about() -> None:
    [warning] = label_warnings(dict.fromkeys(["a;b", "b;c", "a;c", "a"], 5), ",")
    assert '--separator ";" (data.label_separator)' in warning
    [warning] = label_warnings(dict.fromkeys(["a|b", "b|c", "a|c"], 5), ",")
    assert '--separator "|"' in warning
    [warning] = label_warnings(dict.fromkeys(["CS.CL", "cs.cl", "x"], 5), ",")
    assert "2 labels" in warning
    assert "CS.CL, cs.cl" in warning
    assert "data.label_case=lower" in warning
    assert not list(label_warnings(dict.fromkeys(["a;b", "b;c", "a;c", "a"], 5), None)), "lists have no separator"
    assert not list(label_warnings(dict.fromkeys(["AT&T; Inc", "x; y", "z"], 5), ","))
    assert not list(label_warnings(dict.fromkeys(["a", "b", "c"], 5), ","))


def test_labels_that_a_model_spells_otherwise() -> None:
    known = {"fish", "sea", "Red Fish"}
    assert "'fish;sea' looks like several labels; split such labels with --separator ';'" in str(
        spelling_note(["other", "fish;sea"], known)
    )
    assert "'red fish' differs from a label of the model only in case" in str(spelling_note(["red fish"], known))
    assert spelling_note(["whale", "fish;whale", "fish;"], known) is None


def test_skipped_rows_do_not_renumber_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = [json.dumps({"text": f"t{i}", "labels": ["a"]}) for i in range(4)]
    path.write_text("\n".join([good[0], "oops", '{"text": "x", "labels": [""]}', good[3]]), encoding="utf-8")
    examples, counts = read(path, skip_bad=True)
    assert [(example.id, example.text) for example in examples] == [("0", "t0"), ("3", "t3")]
    assert counts.skipped == 2
    assert counts.position == 3
    path = tmp_path / "a.csv"
    path.write_text('text,labels\nt0,a\nt1,a,b\nt2,"a,,b"\nt3,a\n', encoding="utf-8")
    examples, counts = read(path, skip_bad=True)
    assert [(example.id, example.text) for example in examples] == [("0", "t0"), ("3", "t3")]
    path = tmp_path / "a.libsvm"
    path.write_text("a 1:1\na 1:x\na 1:inf\na 1:4\n", encoding="utf-8")
    assert [example.id for example in read(path, skip_bad=True)[0]] == ["0", "3"]
    path.write_text("a 1:x\n", encoding="utf-8")
    with pytest.raises(DataError, match="every example is damaged; the first of 1"):
        read(path, skip_bad=True)


def counter(texts: list[str], labels: tuple[str, ...] = ("a",)) -> TextCounter:
    texts_counted = TextCounter()
    for text in texts:
        texts_counted.add(Example("0", text=text, labels=labels))
    return texts_counted


def test_repeated_texts_are_counted() -> None:
    texts = counter(["a b", "a  b", "c"])
    texts.add(Example("0", text="c", labels=("other",)))
    found = texts.found()
    assert (found["repeated"], found["conflicting"], found["different"]) == (2, 1, 2)


@pytest.mark.parametrize("size", [100, 4 * MOST])
def test_texts_of_the_training_file_are_recognised(size: int) -> None:
    found = counter([f"text {i}" for i in range(size)]).found()
    assert len(found["sample"]) <= MOST * 8
    seen = SeenTexts({"texts": found})
    for i in range(size // 2, size + size // 2):  # half of them
        seen.look(Example("0", text=f"text {i}"))
    assert seen.seen / seen.sampled == pytest.approx(0.5, abs=0.05)
    assert ("50 texts" if size == 100 else "about ") in (seen.note() or "")
    unseen = SeenTexts({"texts": found})
    unseen.look(Example("0", text="something new"))
    assert unseen.note() is None


@pytest.mark.parametrize("texts", [None, 3, {}, {"sample": 3}, {"sample": "not base64"}])
def test_a_sample_that_is_none_says_nothing(texts: object) -> None:
    seen = SeenTexts({"texts": texts})
    seen.look(Example("0", text="a"))
    assert seen.note() is None


def test_a_deep_or_hostile_hierarchy(tmp_path: Path) -> None:
    path = tmp_path / "h.json"
    path.write_text("[" * 200_000, encoding="utf-8")
    with pytest.raises(DataError, match="is not JSON"):
        Hierarchy.read(path, {"a"})
    path.write_text('{"a": "b", "a": "c"}', encoding="utf-8")
    with pytest.raises(DataError, match="it names 'a' twice; give its parents as one list"):
        Hierarchy.read(path, {"a", "b", "c"})
    (tmp_path / "h.csv").write_text('child,parent\n"a"b,c\n', encoding="utf-8")
    with pytest.raises(DataError, match="is not CSV"):
        Hierarchy.read(tmp_path / "h.csv", {"a"})
    names = [f"l{i}" for i in range(20_000)]
    path.write_text(json.dumps(dict(itertools.pairwise(names))), encoding="utf-8")
    chain = Hierarchy.read(path, set(names))
    assert len(chain.closed(["l0"])) == 20_000
    path.write_text(json.dumps({"below": "a", "a": "b", "b": ["c", "a"]}), encoding="utf-8")
    with pytest.raises(DataError, match=r"'[ab]' is its own ancestor \((a < b < a|b < a < b)\)"):
        Hierarchy.read(path, {"a", "b", "c", "below"})
