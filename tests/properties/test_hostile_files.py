"""Files of every format that were damaged, or made by somebody who means no good: examples or a clear error, always."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orderfree.config import DataConfig
from orderfree.data.readers import ReadCounts, read_examples, readers, source
from orderfree.data.writers import WRITERS, write_examples
from orderfree.errors import DataError
from orderfree.types import Example, SparseVector

REUTERS = """<!DOCTYPE lewis SYSTEM "lewis.dtd">
<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" CGISPLIT="TRAINING-SET" OLDID="5544" NEWID="1">
<TOPICS><D>cocoa</D><D>grain</D></TOPICS>
<TEXT>&#2;<TITLE>BAHIA COCOA</TITLE><BODY>Showers &lt;continued&gt;.&#3;</BODY></TEXT>
</REUTERS>
"""
LYRL = ".I 1\n.W\nred fish\nswim\n\n.I 2\n.W\nblue\n"
TEXTS = [
    *("red fish", "👩\u200d👧 emoji", "שלום مرحبا", "nul \0 byte", "=cmd()"),
    *("<script>alert(1)</script>", "\u202eright to left"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good file of every format there is, with its files beside it."""
    place = tmp_path_factory.mktemp("whole")
    found = {}
    for format in readers:
        folder = place / format
        folder.mkdir()
        if format in WRITERS:
            found[format] = folder / "text_train"
            write_examples(examples_for(format), found[format], format, DataConfig())
    found["reuters-sgml"] = place / "reuters-sgml" / "reut2-000.sgm"
    found["reuters-sgml"].write_text(REUTERS, encoding="latin-1")
    found["lyrl2004"] = place / "lyrl2004" / "lyrl2004_tokens_train.dat"
    found["lyrl2004"].write_text(LYRL, encoding="utf-8")
    (place / "lyrl2004" / "rcv1-v2.topics.qrels").write_text("E11 1 1\nECAT 1 1\nE11 2 1\n", encoding="utf-8")
    found["nltk-reuters"] = place / "nltk-reuters" / "cats.txt"
    found["nltk-reuters"].write_text("training/1 cocoa grain\n", encoding="utf-8")
    (place / "nltk-reuters" / "training").mkdir()
    (place / "nltk-reuters" / "training" / "1").write_text("BAHIA COCOA\n", encoding="utf-8")
    found["json"] = place / "json" / "a.json"
    found["json"].write_text(json.dumps([{"text": text, "labels": ["a", "b"]} for text in TEXTS]), encoding="utf-8")
    found["xlsx"] = place / "xlsx" / "a.xlsx"
    book = openpyxl.Workbook()
    for row in (("text", "labels"), *((text.replace("\0", ""), "a,b") for text in TEXTS)):
        book.active.append(row)
    book.save(found["xlsx"])
    return found


def examples_for(format: str) -> list[Example]:
    if format == "libsvm":
        vector = SparseVector(np.array([0, 4], np.int32), np.array([0.5, 1.0], np.float32))
        return [Example(str(i), features=vector, labels=("1", "3")) for i in range(3)]
    if format == "npz":
        return [Example(str(i), features=np.ones(4, np.float32), labels=("a", "b")) for i in range(3)]
    return [Example(str(i), text=text, labels=("a", "b")) for i, text in enumerate(TEXTS)]


def read(path: Path, format: str, labelled: bool = True) -> list[Example]:
    counts = ReadCounts()
    examples = list(read_examples(path, DataConfig(format=format), labelled=labelled, counts=counts))
    assert counts.examples == len(examples) > 0
    return examples


Damages = list[tuple[str, float, bytes]]
damages = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "insert", "repeat"]), st.floats(0, 1), st.binary(min_size=1, max_size=8)),
    min_size=1,
    max_size=3,
)


def damaged(content: bytes, how: Damages) -> bytes:
    for kind, place, extra in how:
        at = int(place * max(len(content) - 1, 0))
        if kind == "flip" and content:
            content = content[:at] + bytes([content[at] ^ (1 << extra[0] % 8)]) + content[at + 1 :]
        elif kind == "cut":
            content = content[:at]
        elif kind == "insert":
            content = content[:at] + extra + content[at:]
        else:
            content = content[:at] + content[at : at + 64] * (extra[0] + 1) + content[at:]
    return content


ELSEWHERE = {"hdf5", "npy", "sounds", "texts", "tfrecord"}  # damaged ones are in the tests of their readers


@pytest.mark.parametrize("format", sorted(set(readers.names()) - ELSEWHERE))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(how=damages, labelled=st.booleans())
def test_damaged_files(whole: dict[str, Path], format: str, how: Damages, labelled: bool) -> None:
    path = whole[format]
    content = path.read_bytes()
    path.write_bytes(damaged(content, how))
    try:
        read(path, format, labelled)
    except DataError as error:
        told = str(error)
    else:
        told = str(path)
    finally:
        path.write_bytes(content)
    assert str(path.parent) in told
    assert read(path, format), "the whole file is read"


@pytest.mark.parametrize("format", ["jsonl", "csv", "tsv", "parquet"])
def test_texts_of_every_kind_survive(whole: dict[str, Path], format: str) -> None:
    assert [example.text for example in read(whole[format], format)] == TEXTS


def test_a_line_of_ten_megabytes_is_read_and_an_endless_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"__label__a " + b"word " * 2_000_000 + b"\n__label__b short\n")
    assert [len(example.text or "") for example in read(path, "fasttext")] == [10_000_000, 5]
    monkeypatch.setattr(source, "LONGEST_LINE", 1000)
    with pytest.raises(DataError, match=r"text, line 1: is longer than 1,000 bytes"):
        read(path, "fasttext")


def archives() -> Iterator[tuple[str, bytes]]:
    """Archives whose headers promise terabytes."""
    for shape in ((1 << 40, 4), (1 << 62, 1 << 62), (-1, 4)):
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("X.npy", header.getvalue() + b"\0" * 64)
        yield str(shape), packed.getvalue()


@pytest.mark.parametrize(("shape", "content"), list(archives()))
def test_an_archive_that_promises_terabytes(tmp_path: Path, shape: str, content: bytes) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.npz: is not a readable \.npz archive"):
        read(path, "npz", labelled=False)
