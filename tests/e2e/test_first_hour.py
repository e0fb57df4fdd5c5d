"""Six tables as people have them, each from the file to a tagged file in at most three commands, without a setting
that says what kind of file it is; and what a person reads on the way."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path

import pytest
from e2e_support import Cli, Ended, sets

WORDS = {
    "Grain": "harvest silo bushel wheat",
    "Oil": "crude barrel rig pump",
    "Trade": "exports tariff cargo port",
    "Fraud": "forged swindle court judge",
}
FAST = sets(
    [
        *("training.epochs=1", "training.tensorboard=false", "model.encoder_options={c: 1.0, folds: 2}"),
        *("model.label_embedding=8", "model.decoder_hidden=16", "decoding.beam_width=2"),
    ]
)
NEW = [("the harvest in the silo is late", {"Grain"}), ("crude from the rig, by the barrel", {"Oil"})]


def examples(count: int = 60) -> list[tuple[str, list[str]]]:
    chance = random.Random(1)
    rows = []
    for number in range(count):
        labels = chance.sample(list(WORDS), chance.choice((1, 1, 2)))
        words = " ".join(word for label in labels for word in chance.sample(WORDS[label].split(), 3))
        rows.append((f"today {words} was seen, report {number}", labels))
    return rows


def table(rows: list[list[str]], delimiter: str = ",") -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows(rows)
    return file.getvalue()


def trained(cli: Cli, path: Path, *options: str) -> Ended:
    return cli("train", path, "--out", path.parent / "run", *options, *FAST).worked()


def tagged(cli: Cli, path: Path, new: Path) -> Ended:
    out = path.parent / f"tagged{new.suffix}"
    return cli("predict", path.parent / "run", new, "--keep-columns", "--out", out).worked()


def right(found: list[set[str]], case: str = "keep") -> bool:
    wanted = [{label.lower() if case == "lower" else label for label in labels} for _, labels in NEW]
    return [bool(labels & own) for labels, own in zip(wanted, found, strict=True)] == [True, True]


def test_a_table_of_excel_in_a_european_locale(cli: Cli, tmp_path: Path) -> None:
    """Semicolons between cells, commas in texts, cp1252."""
    path, new = tmp_path / "export.csv", tmp_path / "new.csv"
    rows = [[str(n), f"{text} – naïve", "|".join(tags)] for n, (text, tags) in enumerate(examples())]
    path.write_bytes(table([["Nr", "Text", "Tags"], *rows], ";").encode("cp1252"))
    new.write_bytes(
        table([["Nr", "Text"], *([f"N{n}", f"{text} é"] for n, (text, _) in enumerate(NEW))], ";").encode("cp1252")
    )
    checked = cli("check", path).worked().out
    assert "cells separated by semicolon, encoding cp1252, 60 rows" in checked
    assert "Text: Text; labels: Tags, separated by '|'" in checked
    assert f"orderfree train {path} --text Text --labels Tags --separator '|' --out runs/export" in checked
    said = trained(cli, path).err
    assert "'Text' as text, 'Tags' as labels, labels separated by '|', cells separated by ';', encoding cp1252" in said
    assert "2 inputs predicted" in tagged(cli, path, new).err
    lines = (tmp_path / "tagged.csv").read_bytes().decode("cp1252").splitlines()
    header, *body = csv.reader(lines, delimiter=";")
    assert header == ["Nr", "Text", "Tags"]
    assert [row[:2] for row in body] == [[f"N{n}", f"{text} é"] for n, (text, _) in enumerate(NEW)]
    assert right([set(row[2].split("|")) for row in body])


def test_lists_as_pandas_writes_them(cli: Cli, tmp_path: Path) -> None:
    path, new = tmp_path / "frame.csv", tmp_path / "new.csv"
    rows = [[str(number), text, str(tags)] for number, (text, tags) in enumerate(examples())]
    path.write_text(table([["", "body", "topics"], *rows]), "utf-8")
    new.write_text(table([["body"], *([text] for text, _ in NEW)]), "utf-8")
    assert "labels: topics, as lists" in cli("check", path).worked().out
    said = trained(cli, path).err
    assert "60 cells hold lists such as ['a', 'b'], read as such" in said
    tagged(cli, path, new)
    header, *body = csv.reader((tmp_path / "tagged.csv").read_text("utf-8").splitlines())
    assert header == ["body", "topics"]
    assert right([set(row[1].split(",")) for row in body])


def test_a_byte_order_mark_blank_cells_and_case_twins(cli: Cli, tmp_path: Path) -> None:
    path, new = tmp_path / "notes.csv", tmp_path / "new.csv"
    rows = [[text, "" if n % 20 == 7 else " ; ".join(t.upper() if n % 5 == 0 else t for t in tags)]
            for n, (text, tags) in enumerate(examples())]  # fmt: skip
    path.write_text(table([["text", "tags"], *rows, rows[0]]), "utf-8-sig")
    new.write_text(table([["text", "tags"], *([text, "old"] for text, _ in NEW)]), "utf-8-sig")
    checked = json.loads(cli("check", path, "--json").worked().out)
    assert (checked["separator"], checked["rows"], checked["different_labels"]) == (";", 61, 8)
    remarks = "\n".join(checked["remarks"])
    for part in (
        "8 labels differ from another label only in case",
        "3 of 61 rows have no labels",
        "1 row repeats an earlier text",
    ):
        assert part in remarks
    said = trained(cli, path, "--set", "data.label_case=lower").err
    assert "differ" not in said
    assert "3 of 61 examples have no label" in said
    tagged(cli, path, new)
    raw = (tmp_path / "tagged.csv").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf")
    header, *body = csv.reader(raw.decode("utf-8-sig").splitlines())
    assert header == ["text", "tags", "predicted_tags"]
    assert [row[1] for row in body] == ["old", "old"]
    assert right([set(row[2].split(";")) for row in body], "lower")


def test_pipes(cli: Cli, tmp_path: Path) -> None:
    path, new = tmp_path / "pipes.csv", tmp_path / "new.csv"
    path.write_text("\n".join(["text|labels", *(f"{t}|{';'.join(tags)}" for t, tags in examples())]), "utf-8")
    new.write_text("\n".join(["text|source", *(f"{text}|wire" for text, _ in NEW)]), "utf-8")
    assert "cells separated by vertical bar" in cli("check", path).worked().out
    assert "labels separated by ';', cells separated by '|'" in trained(cli, path).err
    tagged(cli, path, new)
    header, *body = csv.reader((tmp_path / "tagged.csv").read_text("utf-8").splitlines(), delimiter="|")
    assert header == ["text", "source", "labels"]
    assert right([set(row[2].split(";")) for row in body])


def test_two_columns_of_text(cli: Cli, tmp_path: Path) -> None:
    path, new = tmp_path / "articles.csv", tmp_path / "new.csv"
    rows = [[" ".join(text.split()[:4]), " ".join(text.split()[4:]), ", ".join(tags)] for text, tags in examples()]
    path.write_text(table([["headline", "story", "tags"], *rows]), "utf-8")
    new.write_text(table([["headline", "story"], *([text, "what else was seen"] for text, _ in NEW)]), "utf-8")
    message = cli("train", path, "--out", tmp_path / "run").refused("('headline', 'story')")
    assert "--text headline --text story" in message
    trained(cli, path, "--text", "headline", "--text", "story")
    tagged(cli, path, new)
    header, *body = csv.reader((tmp_path / "tagged.csv").read_text("utf-8").splitlines())
    assert header == ["headline", "story", "tags"]
    assert right([set(row[2].split(",")) for row in body])


def test_a_json_array(cli: Cli, tmp_path: Path) -> None:
    path, new = tmp_path / "export.json", tmp_path / "new.json"
    path.write_text(json.dumps([{"content": t, "tags": tags} for t, tags in examples()], indent=1), "utf-8")
    new.write_text(json.dumps([{"content": text, "by": {"name": "x"}} for text, _ in NEW]), "utf-8")
    assert f"train {path} --text content --labels tags" in cli("check", path).worked().out
    assert "'content' as text, 'tags' as labels" in trained(cli, path).err
    tagged(cli, path, new)
    found = json.loads((tmp_path / "tagged.json").read_text("utf-8"))
    assert [(row["content"], row["by"]) for row in found] == [(text, {"name": "x"}) for text, _ in NEW]
    assert right([set(row["tags"]) for row in found])


@pytest.fixture(scope="module")
def news(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from e2e_support import call_process

    path = tmp_path_factory.mktemp("news") / "news.csv"
    path.write_text(table([["text", "labels"], *([t, ";".join(tags)] for t, tags in examples())]), "utf-8")
    call_process("train", path, "--out", path.parent / "run", *FAST).worked()
    return path.parent / "run"


def test_a_text_on_the_command_line(cli: Cli, news: Path) -> None:
    first, *more = cli("predict", news, "--text", NEW[0][0]).worked().out.splitlines()
    assert "Grain" in first
    assert len(more) == 4
    assert more[0].split()[0] == "Grain"
    assert [float(line.split()[1]) for line in more] == sorted((float(line.split()[1]) for line in more), reverse=True)
    (record,) = cli("predict", news, "--text", NEW[1][0], "--out-format", "jsonl", "--top-k", 2).worked().records()
    assert next(iter(record["suggestions"])) == "Oil"
    assert len(record["suggestions"]) == 2
    assert "None of the words" in cli("predict", news, "--text", "qwxz vbnm").worked().err
    cli("predict", news).refused("nothing to predict", "--text")
    cli("predict", news, "--text", "x", "--keep-columns").refused("--keep-columns")


def test_a_file_is_not_replaced_unasked(cli: Cli, news: Path, tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    new.write_text(table([["text"], *([text] for text, _ in NEW)]), "utf-8")
    out.write_text("mine", "utf-8")
    cli("predict", news, new, "--out", out).refused(out, "already exists", "--overwrite")
    assert out.read_text("utf-8") == "mine"
    cli("predict", news, new, "--out", out, "--overwrite", "--top-k", 1).worked()
    header, *rows = csv.reader(out.read_text("utf-8").splitlines())
    assert header[-1] == "suggestions"
    assert list(json.loads(rows[0][-1])) == ["Grain"]


def test_excel_in_and_out(cli: Cli, news: Path, tmp_path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for row in (["text", "when"], *([text, "=1+1"] for text, _ in NEW)):
        book.active.append(row)
    book.save(tmp_path / "new.xlsx")
    cli("predict", news, tmp_path / "new.xlsx", "--keep-columns", "--out", tmp_path / "out.xlsx").worked()
    rows = list(openpyxl.load_workbook(tmp_path / "out.xlsx").worksheets[0].iter_rows(values_only=True))
    assert rows[0] == ("text", "when", "labels")
    assert right([set(str(row[2]).split(";")) for row in rows[1:]])


def test_what_has_no_columns_to_keep(cli: Cli, news: Path, tmp_path: Path) -> None:
    new, out = tmp_path / "new.ft", tmp_path / "out.csv"
    new.write_text("a text\n", "utf-8")
    cli("predict", news, new, "--keep-columns", "--out", out).refused(new, "no table whose columns can be kept")
    assert not out.exists()


def test_texts_that_stand_in_both_parts_are_said(cli: Cli, tmp_path: Path) -> None:
    rows = [[t, ";".join(tags)] for t, tags in examples()]
    for name, part in (("train.csv", rows[:50]), ("test.csv", rows[45:])):
        (tmp_path / name).write_text(table([["text", "labels"], *part]), "utf-8")
    said = cli("check", tmp_path / "train.csv", tmp_path / "test.csv").worked().out
    assert f"5 texts of {tmp_path / 'test.csv'} also occur in {tmp_path / 'train.csv'}" in said
