"""Tables as people have them: delimiters, encodings, columns and separators that nobody named."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orderfree.config import DataConfig
from orderfree.data.readers import KeptRows, ReadCounts, read_examples, resolve
from orderfree.data.readers import excel as excel_reader
from orderfree.data.readers.delimited import recognised_delimiter
from orderfree.data.readers.encodings import recognised_encoding
from orderfree.data.readers.recognise import recognised_separator
from orderfree.errors import DataError

ROWS = [("red fish swims in the sea", "x;y"), ("blue whale sings a long song", "y"), ("no fish at all today here", "x")]
PAIRS = [(text, tuple(tags.split(";"))) for text, tags in ROWS]


def table(header: str, delimiter: str = ",", end: str = "\n") -> str:
    return end.join([header, *(f"{text}{delimiter}{tags}" for text, tags in ROWS)]) + end


def pairs(path: Path, labelled: bool = True, **options: Any) -> list[tuple[str | None, tuple[str, ...] | None]]:
    return [(e.text, e.labels) for e in read_examples(path, DataConfig(**options), labelled=labelled)]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("excel.csv", table("Text;Tags", ";", "\r\n").encode("utf-8-sig")),
        ("hint.csv", "sep=;\r\n" + table("Text;Tags", ";", "\r\n")),
        ("tab.csv", table("body\ttopics", "\t")),
        ("bar.csv", table("text|labels", "|")),
        ("unicode.csv", table("Text\tTags", "\t").encode("utf-16")),
        ("semicolon.tsv", table("message;category", ";").replace("x;y", '"x;y"')),
        ("id.csv", table("ID,comment,genres", ",").replace("\n", "\n7,").removesuffix("7,").replace("7,ID", "ID")),
        ("unnamed.csv", table("what was said,kind")),
    ],
)  # fmt: skip
def test_tables_of_every_kind_are_read_without_a_setting(tmp_path: Path, name: str, content: str | bytes) -> None:
    if name == "hint.csv" or name == "excel.csv":
        content = content.replace(b"x;y", b'"x;y"') if isinstance(content, bytes) else content.replace("x;y", '"x;y"')
    assert pairs(write(tmp_path / name, content)) == PAIRS


def test_what_was_recognised_is_said_and_can_be_kept(tmp_path: Path) -> None:
    path = write(
        tmp_path / "d.csv", table("Body;Tags", ";").replace("x;y", '"x|y"').replace("sea", "café").encode("cp1252")
    )
    counts = ReadCounts()
    assert next(iter(read_examples(path, DataConfig(), labelled=True, counts=counts))).labels == ("x", "y")
    (note,) = counts.notes()
    for part in ("'Body' as text", "'Tags' as labels", "labels separated by '|'", "cells separated by ';'", "cp1252"):
        assert part in note
    options, told = resolve(path, DataConfig())
    assert (options.text_field, options.labels_field, options.label_separator) == ("Body", "Tags", "|")
    assert told == note
    plain = write(tmp_path / "plain.csv", "text,labels\na,x\n")
    assert resolve(plain, DataConfig()) == (DataConfig(), None)


def test_what_the_settings_say_is_not_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", "body,title,tags\n" + "one two three four,five six seven eight,a;b\n" * 3)
    assert pairs(path, text_field="title", label_separator=",")[0] == ("five six seven eight", ("a;b",))
    with pytest.raises(DataError, match=r"'text' is missing.*--text"):
        pairs(path, text_field="text")
    path = write(tmp_path / "e.csv", "text;labels\na,b;x\n")
    with pytest.raises(DataError, match="'text' is missing"):
        pairs(path, delimiter=",")


def test_doubt_is_answered_with_the_options_that_end_it(tmp_path: Path) -> None:
    two = write(tmp_path / "two.csv", "title,tags,more\n" + "a story about some fish,x,why it was told at all\n" * 2)
    with pytest.raises(DataError, match=r"not clear \('title', 'more'\).*--text title --text more\."):
        pairs(two)
    assert pairs(two, text_field="title", more_text_fields=["more"])[0] == (
        "a story about some fish\nwhy it was told at all",
        ("x",),
    )
    labels = write(tmp_path / "labels.csv", "text,tags,topics\na,x,y\n")
    with pytest.raises(DataError, match=r"not clear \('tags', 'topics'\); choose one: --labels tags"):
        pairs(labels)


def test_columns_of_zeros_and_ones_are_labels(tmp_path: Path) -> None:
    path = write(
        tmp_path / "wide.csv", "comment,toxic,rude\nyou are quite a nice one,0,0\nwhat a stupid thing it is,1,1\n"
    )
    assert [labels for _, labels in pairs(path)] == [(), ("toxic", "rude")]


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        (["a;b", "b", "a"], ";"),
        (["a|b", "c|d"], "|"),
        (["a, b", "b"], ","),
        (["a\nb", "b\nc"], "\n"),
        (["Smith, J; Doe, K", "Doe, K; Smith, J", "Smith, J"], None),  # both recur
        (["a", "b"], None),
        (["['a', 'b;c']", "['d;e']"], None),
        (["usa, west", *"abcdefghijklmno"], None),  # one name that holds a comma
        ([["a"], None, 3], None),
    ],
)
def test_separators(cells: list[Any], separator: str | None) -> None:
    assert recognised_separator(cells) == separator


@pytest.mark.parametrize(
    ("lines", "usual", "delimiter"),
    [
        (["a,b\n", "1;2,3\n"], ",", ","),
        (["a;b\n", "1,2;3\n"], ",", ";"),
        (["a;b|c\n", "1;2|3\n"], ",", ","),  # two would do
        (["text\n", "one; two\n"], ",", ","),
        (["a\tb\n", '"1\n', '2"\t3\n'], ",", "\t"),
        ([], ",", ","),
    ],
)
def test_delimiters(lines: list[str], usual: str, delimiter: str) -> None:
    assert recognised_delimiter(lines, usual) == delimiter


@pytest.mark.parametrize(
    ("sample", "western", "encoding"),
    [
        ("Grüße – “eine naïve Frage”".encode("cp1252"), True, "cp1252"),
        ("Grüße".encode("cp1252"), False, "utf-8"),
        ("Grüße".encode(), True, "utf-8"),
        ("Grüße".encode()[:-2], True, "utf-8"),  # cut inside a character
        ("привет всем друзьям".encode("cp1251"), True, "utf-8"),
        ("text \xff".encode("latin-1"), True, "utf-8"),
        ("Grüße".encode("utf-16"), False, "utf-16"),
        (b"", True, "utf-8"),
    ],
)
def test_encodings(sample: bytes, western: bool, encoding: str) -> None:
    assert recognised_encoding(sample, western) == encoding


def test_an_encoding_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", "text,labels\nпривет,x\n".encode("cp1251"))
    assert pairs(path, encoding="cp1251") == [("привет", ("x",))]
    with pytest.raises(DataError, match=r"line 2: is not UTF-8 text .*data\.encoding=cp1252"):
        pairs(path)
    with pytest.raises(DataError, match=r"data\.encoding 'rot13' is no encoding of text"):
        pairs(path, encoding="rot13")
    lines = write(
        tmp_path / "d.jsonl", '{"text": "ä", "labels": ["x"]}\n{"text": "b", "labels": []}\n'.encode("utf-16")
    )
    assert pairs(lines) == [("ä", ("x",)), ("b", ())]


def test_a_json_list_is_read_object_by_object(tmp_path: Path) -> None:
    rows = [
        {"text": f'brace }} "quoted\\" [{n}', "labels": [f"l{n}"], "more": {"deep": [1, {"a": "]"}]}} for n in range(50)
    ]
    for number, indent in enumerate((None, 2)):
        path = write(tmp_path / f"{number}.json", json.dumps(rows, indent=indent))
        assert pairs(path) == [(row["text"], tuple(row["labels"])) for row in rows]
    lines = write(tmp_path / "lines.json", "\n".join(map(json.dumps, rows)))
    assert len(pairs(lines)) == 50


def test_a_json_list_does_not_depend_on_where_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from orderfree.data.readers.source import Source

    rows = [{"text": 'a\\"b\\\\', "labels": ["x{", "]y"]}, {"text": "é\n\t", "labels": []}]
    path = write(tmp_path / "a.json", json.dumps(rows, ensure_ascii=False))
    whole, chunks = pairs(path), Source.chunks
    for size in (1, 2, 3, 7):
        monkeypatch.setattr(Source, "chunks", lambda self, size=size: chunks(self, size))
        assert pairs(path) == whole
    assert whole == [(row["text"], tuple(row["labels"])) for row in rows]


def test_other_names_of_fields_are_recognised_in_json_and_parquet(tmp_path: Path) -> None:
    rows = [{"headline": "one two three four", "body": "b", "tags": ["x"]}] * 3
    path = write(tmp_path / "a.json", json.dumps(rows))
    assert pairs(path) == [("b", ("x",))] * 3
    pq.write_table(pa.table({"content": ["some words stand here"] * 3, "tags": [["x"]] * 3}), tmp_path / "a.parquet")
    assert pairs(tmp_path / "a.parquet") == [("some words stand here", ("x",))] * 3


def workbook(path: Path, rows: list[tuple[Any, ...]]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_excel(tmp_path: Path) -> None:
    rows = [("Nr", "Text", "Tags"), (1, "red fish", "x; y"), (None, None, None), (2.0, "blue", None), (3, 17, "x;y")]
    path = workbook(tmp_path / "a.xlsx", rows)
    assert pairs(path) == [("red fish", ("x", "y")), ("blue", ()), ("17", ("x", "y"))]
    kept = KeptRows()
    assert len(list(read_examples(path, DataConfig(), labelled=False, kept=kept))) == 3
    assert kept.rows[1] == {"Nr": "2", "Text": "blue", "Tags": ""}


def test_excel_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="is not a readable Excel file"):
        pairs(write(tmp_path / "a.xlsx", b"PK\x03\x04 nothing"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("readme.txt", "no workbook")
    with pytest.raises(DataError, match="is not a readable Excel file"):
        pairs(write(tmp_path / "b.xlsx", packed.getvalue()))
    good = workbook(tmp_path / "c.xlsx", [("text", "labels"), ("a" * 5000, "x")])
    monkeypatch.setattr(excel_reader, "LARGEST_STRINGS", 1000)
    with pytest.raises(DataError, match=r"would unpack .* expected at most 1,000"):
        pairs(good)


def test_a_folder_of_texts(tmp_path: Path) -> None:
    for name, text in (("sea/a.txt", "fish"), ("sea/b.txt", "whale"), ("air/a.txt", "bird")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, text)
    found = list(read_examples(tmp_path, DataConfig(), labelled=True))
    assert [(e.id, e.text, e.labels) for e in found] == [
        ("air/a.txt", "bird", ("air",)), ("sea/a.txt", "fish", ("sea",)), ("sea/b.txt", "whale", ("sea",)),
    ]  # fmt: skip
    assert [e.labels for e in read_examples(tmp_path, DataConfig(), labelled=False)] == [None] * 3
    write(tmp_path / "tags.csv", 'file,labels\nair/a.txt,"air,animal"\n')
    assert pairs(tmp_path) == [("bird", ("air", "animal"))]
    write(tmp_path / "tags.csv", "file,labels\n../secret.txt,x\n")
    with pytest.raises(DataError, match="not inside"):
        pairs(tmp_path)
    (tmp_path / "tags.csv").unlink()
    write(tmp_path / "loose.txt", "no label")
    with pytest.raises(DataError, match=r"loose\.txt: has no label; expected it in a subfolder"):
        pairs(tmp_path)
