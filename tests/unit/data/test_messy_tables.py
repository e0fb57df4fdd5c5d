"""Tables that go wrong in the way exported tables do: each is read, or refused with what repairs it."""

from __future__ import annotations

import datetime
import json
import time
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orderfree.cli.split import split_file
from orderfree.config import DataConfig
from orderfree.data.examine import examine
from orderfree.data.kept_rows import write_kept_rows
from orderfree.data.readers import KeptRows, read_examples
from orderfree.errors import DataError

TEXTS = ["red fish swims in the sea", "blue whale sings a long song", "no fish at all today here"] * 3
SETS = [("fish", "sea"), ("sea",), ("fish",)] * 3


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def csv_of(header: str, joint: str = ";", sets: list[Any] | None = None) -> str:
    rows = [f"{text},{joint.join(labels)}" for text, labels in zip(TEXTS, sets or SETS, strict=True)]
    return "\n".join([header, *rows]) + "\n"


def label_sets(path: Path, **options: Any) -> list[tuple[str, ...] | None]:
    return [example.labels for example in read_examples(path, DataConfig(**options), labelled=True)]


@pytest.mark.parametrize(
    ("header", "joint"),
    [("Beschreibung,Kategorie", ";"), ("text,Tags ", " | "), ("text,tags", " / "), ("Nachricht,Schlagwörter", "|")],
)
def test_names_and_separators_of_other_locales(tmp_path: Path, header: str, joint: str) -> None:
    assert label_sets(write(tmp_path / "a.csv", csv_of(header, joint))) == SETS


def test_numbers_are_labels_where_no_other_column_is_left(tmp_path: Path) -> None:
    numbers: list[Any] = [("1", "2"), ("2",), ("1",)] * 3
    assert label_sets(write(tmp_path / "a.csv", csv_of("text,what", ";", numbers))) == numbers
    two = "text,year,place\n" + "".join(f"{text},2001,7\n" for text in TEXTS)
    with pytest.raises(DataError, match="the column 'labels' is missing"):
        label_sets(write(tmp_path / "b.csv", two))


@pytest.mark.parametrize("flags", [("True", "False"), ("Yes", "No"), ("1.0", "0.0"), ("TRUE", "false")])
def test_columns_of_true_and_false_are_labels(tmp_path: Path, flags: tuple[str, str]) -> None:
    rows = [f"{text},{flags['fish' not in s]},{flags['sea' not in s]}" for text, s in zip(TEXTS, SETS, strict=True)]
    assert label_sets(write(tmp_path / "a.csv", "\n".join(["text,fish,sea", *rows]))) == SETS


def test_delimiters_behind_the_last_column(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,labels,,\n" + "".join(f"{t},{s[0]},,\n" for t, s in zip(TEXTS, SETS)))  # noqa: B905
    assert label_sets(path) == [(labels[0],) for labels in SETS]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (csv_of("no fish at all today here,fish"), "looks like an example, .* for example text,labels"),
        ("Export of today,,\n" + "".join(f"{n},{text},fish\n" for n, text in enumerate(TEXTS)), "remove what stands"),
        (csv_of("text,labels").replace("\n", "\r"), "carriage return alone.*save the table anew"),
        ("text,tag1,tag2\n" + "".join(f"{text},fish,sea\n" for text in TEXTS), "'tag1', 'tag2'.*joined in one"),
    ],
)
def test_what_cannot_be_read_says_what_repairs_it(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        label_sets(write(tmp_path / "a.csv", content))


def test_a_header_that_is_a_question_is_no_example(tmp_path: Path) -> None:
    assert label_sets(write(tmp_path / "a.csv", csv_of("What did you see in the sea?,kind"))) == SETS


def remarks(path: Path) -> str:
    return "\n".join(examine(path, DataConfig(), []).remarks())


def test_check_remarks_on_what_programs_write_for_nothing(tmp_path: Path) -> None:
    content = csv_of("text,labels").replace("here,fish", "here,nan")
    assert "the label 'nan' of 3 examples looks like a missing value" in remarks(write(tmp_path / "a.csv", content))


def test_check_remarks_on_ids_and_rows_of_one_label(tmp_path: Path) -> None:
    rows = "".join(f"{n // 2},{text},{label}\n" for n, text in enumerate(TEXTS[:3]) for label in ("fish", "sea"))
    said = remarks(write(tmp_path / "a.csv", "id,text,labels\n" + rows))
    assert "4 rows repeat an earlier id" in said
    assert "write all labels of a text in one row" in said


def test_check_of_many_columns_stays_short(tmp_path: Path) -> None:
    names = [f"topic {n}" for n in range(400)]
    rows = [",".join([text, *(str(int(n % 7 == place % 7)) for n in range(400))]) for place, text in enumerate(TEXTS)]
    found = examine(write(tmp_path / "a.csv", "\n".join([",".join(["text", *names]), *rows])), DataConfig(), [])
    lines = list(found.lines())
    assert "and 381 more" in lines[1]
    assert max(map(len, lines)) < 400
    assert found.command() == f"orderfree train {tmp_path / 'a.csv'} --out runs/a"


def test_check_repeats_the_settings_it_was_given(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", csv_of("text,labels").encode("cp1251"))
    options = DataConfig(format="csv", encoding="cp1251", label_case="lower")
    command = examine(path, options, []).command()
    assert "--format csv --set data.encoding=cp1251 --set data.label_case=lower" in command


def test_check_says_what_is_wrong_where_nothing_can_be_read(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"text": text, "labels": [1, 2]}) + "\n" for text in TEXTS)
    with pytest.raises(DataError, match=r"every example is damaged; the first of 9: .* line 1: .* quote each label"):
        remarks(write(tmp_path / "a.jsonl", lines))


@pytest.mark.parametrize(
    ("cells", "warning"),
    [
        ("fish#sea sea#fish fish", '--separator "#"'),
        ("fish_and_sea sea_and_fish fish", '--separator " and "'),
        ("fish_+_sea sea_+_fish fish", '--separator " + "'),
        ("fish_-_sea sea_-_fish sea", '--separator " - "'),
        ("[fish,sea] [sea] [fish]", "labels such as '[fish' look like parts of a list"),
        ("{fish,sea} [sea] {fish}", "labels such as '{fish' look like parts of a list"),
    ],
)
def test_check_remarks_on_cells_that_should_be_split(tmp_path: Path, cells: str, warning: str) -> None:
    rows = "".join(f'{text},"{cell.replace("_", " ")}"\n' for text, cell in zip(TEXTS, cells.split() * 3, strict=True))
    found = examine(write(tmp_path / "a.csv", "text,labels\n" + rows), DataConfig(), [])
    said = "\n".join(found.remarks())
    assert warning in said
    if warning.startswith("--separator"):
        assert warning.replace('"', "'") in found.command()
    assert "blanks separate the labels" not in said


@pytest.mark.parametrize("cells", ["('fish', 'sea') ('sea',) ('fish',)", "{'fish', 'sea'} {'sea'} {'fish'}"])
def test_tuples_and_sets_of_python_are_read(tmp_path: Path, cells: str) -> None:
    closed = cells.replace("', '", "'~'").split() * 3
    rows = "".join(f'{text},"{cell.replace("~", ", ")}"\n' for text, cell in zip(TEXTS, closed, strict=True))
    assert label_sets(write(tmp_path / "a.csv", "text,labels\n" + rows)) == SETS


def test_check_remarks_on_mistyped_labels_and_not_on_codes(tmp_path: Path) -> None:
    codes = {
        "math.CO": 30,
        "math.LO": 20,
        "math.IT": 300,
        "biology": 40,
        "biologgy": 1,
        "K08.11": 50,
        "K08.12": 1,
        "arts": 9,
        "art": 1,
    }
    rows = "".join(f"text {n} of {code},{code}\n" for code, count in codes.items() for n in range(count))
    said = remarks(write(tmp_path / "a.csv", "text,labels\n" + rows))
    assert "1 label differs from a far more frequent label in one letter (biologgy, biology)" in said


def test_check_names_columns_of_texts_that_are_not_read(tmp_path: Path) -> None:
    rows = "".join(f"a title of some words,{text},fish\n" for text in TEXTS)
    said = remarks(write(tmp_path / "a.csv", "title,body,tags\n" + rows))
    assert "the column 'title' also holds texts, which are not read; to join them: --text body --text title" in said


def test_empty_texts_are_no_repetitions(tmp_path: Path) -> None:
    said = remarks(write(tmp_path / "a.csv", "text,labels\n,fish\n,sea\n" + "".join(f"{t},fish\n" for t in TEXTS[:3])))
    assert "2 texts are empty" in said
    assert "repeat" not in said


def test_texts_without_blanks_between_words_are_texts(tmp_path: Path) -> None:
    rows = ["今天新闻报道出口关税货物,贸易;法院", "今天新闻报道伪造诈骗法院,法院", "今天新闻报道粮食小麦收获,贸易"]
    found = label_sets(write(tmp_path / "a.csv", "\n".join(["内容,标签", *rows])))
    assert found == [("贸易", "法院"), ("法院",), ("贸易",)]
    content = examine(tmp_path / "a.csv", DataConfig(), [])
    assert "3 texts have no blanks between words; read them as character n-grams" in "\n".join(content.remarks())
    assert "--set model.encoder_options.chars=5" in content.command()


@pytest.mark.parametrize("cells", ["fish;sea", "sea;fish"])
def test_a_first_line_of_several_labels_is_an_example(tmp_path: Path, cells: str) -> None:
    path = write(
        tmp_path / "a.csv", csv_of(f"no fish at all today here,{cells}", sets=[("fish",), ("sea",)] * 4 + [("fish",)])
    )
    with pytest.raises(DataError, match="looks like an example"):
        label_sets(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"text": TEXTS, "labels": SETS}, r"'text' is a list, .*to_json\(path, orient='records'\)"),
        ({"text": {"0": TEXTS[0]}, "labels": {"0": []}}, "'text' is an object, .*write rows instead of columns"),
        ({"data": [{"text": TEXTS[0], "labels": []}]}, r"'data' holds a list of objects, .*write this list alone"),
        ([{"text": TEXTS[0], "labels": "fish;sea"}], r"is a string, .*or say with --separator"),
    ],
)
def test_tables_in_one_json_object(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        label_sets(write(tmp_path / "a.json", json.dumps(content)))


def test_labels_of_json_in_one_string_are_split_when_told(tmp_path: Path) -> None:
    rows = [{"text": text, "labels": ";".join(labels)} for text, labels in zip(TEXTS, SETS, strict=True)]
    assert label_sets(write(tmp_path / "a.json", json.dumps(rows)), label_separator=";") == SETS


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("a.xls", "save it as .xlsx"), ("a.ods", ".xlsx or CSV"), ("a.zip", "unpack"), ("a.pdf", "copy")],
)
def test_other_files_that_hold_tables_are_refused_with_a_remedy(tmp_path: Path, name: str, remedy: str) -> None:
    with pytest.raises(DataError, match=remedy):
        label_sets(write(tmp_path / name, "x"))


def workbook(path: Path, sheets: dict[str, list[list[Any]]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_the_sheet_with_the_table_is_read(tmp_path: Path) -> None:
    rows = [["text", "labels"], *([text, ";".join(labels)] for text, labels in zip(TEXTS, SETS, strict=True))]
    path = workbook(tmp_path / "a.xlsx", {"Read me": [["made by hand"]], "Sheet 2": rows, "Pivot": [["a", "b"]]})
    assert label_sets(path) == SETS
    assert "sheet 'Sheet 2'" in next(examine(path, DataConfig(), []).lines())


def test_rows_of_a_workbook_cost_no_more_than_their_cells(tmp_path: Path) -> None:
    """Each row was once padded to 16,384 cells and cut one by one: .2 s a row."""
    path = workbook(tmp_path / "a.xlsx", {"Sheet": [["text", "labels"], *([text, "fish"] for text in TEXTS * 20)]})
    begin = time.process_time()
    assert len(label_sets(path)) == 180
    assert time.process_time() - begin < 10


def table_of_parquet(path: Path) -> Path:
    when = [datetime.datetime(2024, 1, 1 + n) for n in range(9)]
    by = [{"name": str(n)} for n in range(9)]
    columns: dict[str, Any] = {"text": TEXTS, "labels": [list(s) for s in SETS], "when": when, "by": by}
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_keeps_its_columns_and_types(tmp_path: Path) -> None:
    path, out = table_of_parquet(tmp_path / "a.parquet"), tmp_path / "out.parquet"
    kept = KeptRows()
    examples = read_examples(path, DataConfig(), labelled=False, kept=kept)
    records: Any = ({"labels": ["fish"], "suggestions": {"fish": 0.5}} for _ in examples)
    write_kept_rows(records, kept, str(out), None, "labels", ",")
    before, after = pq.read_table(path), pq.read_table(out)
    assert after.select(before.schema.names) == before
    assert after.schema.names[4:] == ["predicted_labels", "suggestions"]
    assert after["predicted_labels"].to_pylist() == [["fish"]] * 9


def test_a_json_list_stays_one_and_rows_of_a_table_are_even(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", json.dumps([{"text": "a"}, {"text": "b", "more": 1}]))

    def kept_as(name: str) -> str:
        kept = KeptRows()
        examples = read_examples(path, DataConfig(), labelled=False, kept=kept)
        write_kept_rows(({"labels": ["x"]} for _ in examples), kept, str(tmp_path / name), None, "labels", ",")
        return (tmp_path / name).read_text("utf-8")

    assert json.loads(kept_as("out.json")) == [
        {"text": "a", "labels": ["x"]},
        {"text": "b", "more": 1, "labels": ["x"]},
    ]
    for name in ("out.csv", "out.parquet"):
        with pytest.raises(DataError, match=r"example 2 has the field 'more', which the first has not"):
            kept_as(name)
        assert not (tmp_path / name).exists()


def parts(path: Path, *names: str) -> list[Path]:
    said: list[str] = []
    outs = [path.parent / name for name in names]
    split_file(path, outs, [2 / 3, 1 / 3], 1, DataConfig(), said.append)
    return outs


def test_a_split_keeps_all_columns_of_a_table(tmp_path: Path) -> None:
    rows = [f"n{n};{t};{'|'.join(s)};{n},5 €" for n, (t, s) in enumerate(zip(TEXTS, SETS, strict=True))]
    path = write(tmp_path / "a.csv", "\r\n".join(["Nr;Text;Kategorie;Preis", *rows]).encode("cp1252"))
    written = [out.read_bytes().decode("cp1252").replace('"', "").splitlines() for out in parts(path, "b.csv", "c.csv")]
    assert [lines[0] for lines in written] == ["Nr;Text;Kategorie;Preis"] * 2
    assert [len(lines) for lines in written] == [7, 4]
    assert sorted([*written[0][1:], *written[1][1:]]) == sorted(rows)


def test_a_split_keeps_columns_of_parquet_and_fields_of_json(tmp_path: Path) -> None:
    first, second = parts(table_of_parquet(tmp_path / "a.parquet"), "b.parquet", "c.parquet")
    assert pq.read_schema(first).equals(pq.read_schema(tmp_path / "a.parquet"))
    assert pq.read_table(first).num_rows + pq.read_table(second).num_rows == 9
    records = [{"text": t, "labels": list(s), "by": {"n": n}} for n, (t, s) in enumerate(zip(TEXTS, SETS, strict=True))]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    written = [json.loads(line) for out in parts(path, "b.jsonl", "c.jsonl") for line in out.read_text().splitlines()]
    assert sorted(written, key=str) == sorted(records, key=str)


def test_a_split_into_another_format_says_what_is_lost(tmp_path: Path) -> None:
    said: list[str] = []
    path = table_of_parquet(tmp_path / "a.parquet")
    split_file(path, [tmp_path / "b.jsonl", tmp_path / "c.parquet"], [0.5, 0.5], 1, DataConfig(), said.append)
    assert [line for line in said if "b.jsonl: holds ids, texts and labels" in line]
    assert not [line for line in said if "c.parquet" in line]


def test_a_column_that_differs_in_case_is_not_written_beside_its_twin(tmp_path: Path) -> None:
    path, out = write(tmp_path / "a.csv", csv_of("text,tags")), tmp_path / "out.csv"
    kept = KeptRows()
    examples = read_examples(path, DataConfig(), labelled=False, kept=kept)
    write_kept_rows(({"labels": ["fish"]} for _ in examples), kept, str(out), None, "Tags", ",")
    assert out.read_text("utf-8").splitlines()[0] == '"text","tags","predicted_Tags"'
