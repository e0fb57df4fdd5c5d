"""Bad input: one sentence that names the file, the place, the field, what was expected and what to do."""

import gzip
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orderfree.config import DataConfig
from orderfree.data.readers import read_examples
from orderfree.errors import DataError

GOOD = b'{"text": "a", "labels": ["x"]}\n'


def refusal(path, labelled=True, **options):
    with pytest.raises(DataError) as caught:
        list(read_examples(path, DataConfig(**options), labelled=labelled))
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(str(path))


BAD_TEXT = [
    # jsonl
    (
        "d.jsonl",
        GOOD * 1233 + b"{'text'}\n",
        r", line 1,234: is not JSON \(.*\); expected one JSON object on each line",
        {},
    ),
    ("d.jsonl", GOOD + b"1" * 5000, r", line 2: is not JSON", {}),
    ("d.jsonl", b"[" * 100_000, r", line 1: is not JSON", {}),
    ("d.json", b"[\n" + GOOD + b"5]", r", line 3: is not a JSON list of objects; expected \[", {}),
    ("d.json", b"[\n" + GOOD + b",[]]", r", line 3: is not a JSON list of objects", {}),
    ("d.json", b"[\n" + GOOD, r", line 3: the JSON list has no end; get a whole copy", {}),
    ("d.json", b"[\n" + GOOD + b"] 7", r", line 3: is not a JSON list of objects", {}),
    ("d.json", b'[\n{"text": "a", "labels": ["x"]},\n\n{"text": 1, "labels": []}]', r", line 4: .* is a number", {}),
    ("d.json", b'"a"', r", line 1: is a string, expected a JSON object", {}),
    ("d.jsonl", b'[{"text": "a"}]', r", line 1: is a list, expected a JSON object", {}),
    ("d.jsonl", b'\n"a"\n', r", line 2: is a string, expected a JSON object", {}),
    ("d.jsonl", b'{"txt": "a", "labels": []}', r", line 1: .*'text' is missing, expected a string; .*mean 'txt'", {}),
    ("d.jsonl", b'{"text": 5, "labels": []}', r", line 1: the field 'text' is a number, expected a string", {}),
    (
        "d.jsonl",
        b'{"text": "a", "lables": []}',
        r", line 1: .*'labels' is missing, expected a list of labels; .*mean",
        {},
    ),
    (
        "d.jsonl",
        b'{"text": "a", "labels": ["x"], "unknown": ["x"]}',
        r", line 1: .*'x' is both given and unknown; ",
        {},
    ),
    (
        "d.jsonl",
        b'{"text": "a", "labels": [], "unknown": "x"}',
        r", line 1: .*'unknown' is a string, expected a list",
        {},
    ),
    ("d.jsonl", b'{"text": "a", "labels": "x"}', r", line 1: .*'labels' is a string, expected a list of labels; ", {}),
    (
        "d.jsonl",
        b'{"text": "a", "labels": [3]}',
        r", line 1: .*'labels' holds a number \(3\), .*; quote each label",
        {},
    ),
    ("d.jsonl", b'{"text": "a", "labels": [true]}', r", line 1: .*holds true or false .*; quote each label", {}),
    ("d.jsonl", b'{"text": "a", "labels": [["x"]]}', r", line 1: .*holds a list .*expected a list of strings", {}),
    ("d.jsonl", b'{"text": "a", "labels": [], "id": [1]}', r", line 1: the id is \[1\], expected a string", {}),
    ("d.jsonl", b'{"text": "\\ud83d!", "labels": []}', r", line 1: the field 'text' holds half a character", {}),
    (
        "d.jsonl",
        GOOD + b'{"text": "caf\xe9", "labels": []}',
        r", line 2: is not UTF-8 text \(byte 0xe9 at byte 14 ",
        {},
    ),
    # labels, whatever the format
    ("d.jsonl", GOOD + b'{"text": "a", "labels": ["x", ""]}', r", line 2: the label '' is empty", {}),
    ("d.jsonl", b'{"text": "a", "labels": [" \\t"]}', r", line 1: the label .* is empty", {}),
    ("d.jsonl", b'{"text": "a", "labels": ["x\\ny"]}', r", line 1: the label 'x\\ny' holds a control character", {}),
    ("d.jsonl", b'{"text": "a", "labels": ["x\\u0000"]}', r", line 1: the label .* holds a control character", {}),
    ("d.csv", b'text,labels\na,x\na,"x,,y"\n', r", line 3: the label '' is empty", {}),
    ("d.ft", b"__label__ red\n", r", line 1: the label '' is empty", {}),
    ("d.ft", b"__label__x\x07 red\n", r", line 1: the label .* control character", {}),
    # tables
    ("d.csv", b"text,labels\na,x\n\nb\n", r", line 4: has 1 cells, expected 2 as in the header", {}),
    ("d.csv", b'text,labels\n"a\nb",x\nb,x,y\n', r", line 4: has 3 cells, expected 2", {}),
    ("d.csv", b'text,labels\na,x\n"a\nb"\nb,x\n', r", line 3: has 1 cells, expected 2", {}),
    ("d.csv", b'text,labels\na,x\n"b,x\nc,y\n', r", line 3: the row that begins here is not well formed", {}),
    ("d.csv", b"text,labels,text\na,x,b\n", r", line 1: the column 'text' occurs twice in the header", {}),
    ("d.csv", b"txt,labels\na,x\n", r", line 1: the column 'text' is missing, .*'txt', 'labels'; .*mean 'txt'", {}),
    ("d.tsv", b"text\tlable\tb\na\tx\ty\n", r", line 1: the column 'labels' is missing, expected a list of labels", {}),
    ("d.csv", b"text,x\na,1\nb,2\n", r", line 3: the column 'x' holds '2', expected 0 or 1", {"label_columns": ["x"]}),
    (
        "d.csv",
        b"text,x\na,maybe\n",
        r", line 2: the column 'x' holds 'maybe', expected 0 or 1",
        {"label_columns": ["*"]},
    ),
    (
        "d.csv",
        b"text,x\na,1\n",
        r", line 1: the column 'y' is missing, .*data\.label_columns",
        {"label_columns": ["y"]},
    ),
    # lines
    ("d.txt", b"x\ta\nx\n", r", line 2: has 1 columns, expected 2", {"format": "libmultilabel"}),
    ("d.txt", b"x\ta\ni\tx\ta\n", r", line 2: has 3 columns, expected 2", {"format": "libmultilabel"}),
    ("d.txt", b"i\tx\ta\tb\n", r", line 1: has 4 columns, expected 2 or 3", {"format": "libmultilabel"}),
    ("corpus", b"a\n", r": expected a file with 'text' in its name", {"format": "sgm"}),
    # libsvm
    ("d.svm", b"1 1:2\n5:1 7:2\n", r", line 2: begins with '5:1', expected labels such as 1,3; begin .* a blank", {}),
    ("d.svm", b"1 5\n", r", line 1: '5' is no feature, expected number:value", {}),
    ("d.svm", b"1 5:x\n", r", line 1: '5:x' is no feature", {}),
    ("d.svm", b"1 0:1\n", r", line 1: feature numbers must lie in 1 …", {}),
    ("d.svm", b"1 3000000000:1\n", r", line 1: feature numbers must lie in 1 …", {}),
    ("d.svm", b"1 7:1 5:1\n", r", line 1: feature 5 follows 7, expected rising numbers", {}),
    ("d.svm", b"1 7:1 7:1\n", r", line 1: feature 7 follows 7, expected rising numbers", {}),
    ("d.svm", b"1 7:nan\n", r", line 1: the features hold NaN or infinity", {}),
    ("d.svm", b"1 1:1\n1 7:1e300\n", r", line 2: the features hold NaN or infinity", {}),
    # nothing in it
    ("d.jsonl", b"", r": holds no examples", {}),
    ("d.jsonl", b"\n \n", r": holds no examples", {}),
    ("d.csv", b"", r": holds no examples", {}),
    ("d.csv", b"text,labels\n", r": holds no examples", {}),
    ("d.ft", b"", r": holds no examples", {}),
]


@pytest.mark.parametrize(("name", "content", "expected", "options"), BAD_TEXT)
@pytest.mark.parametrize("packed", [False, True])
def test_text_formats(tmp_path, name, content, expected, options, packed):
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(content) if packed else content)
    assert re.match(expected, refusal(path, **options))


def test_no_file(tmp_path):
    assert refusal(tmp_path / "d.jsonl").startswith(": there is no such file")
    assert refusal(tmp_path / "d.npz").startswith(": there is no such file")


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv.gz", "d.parquet", "d.npz"])
def test_a_directory(tmp_path, name):
    (tmp_path / name).mkdir()
    assert refusal(tmp_path / name).startswith(": is a directory, expected a file")


def test_a_path_that_cannot_be_opened(tmp_path):
    (tmp_path / "file").write_bytes(GOOD)
    assert refusal(tmp_path / "file" / "d.jsonl").startswith(": cannot be read (Not a directory)")


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        gzip.compress(GOOD * 5000)[:-9],
        gzip.compress(GOOD)[:-8] + b"\0" * 8,
        gzip.compress(GOOD)[:10] + b"\xff" * 20,
    ],
    ids=["not gzip", "cut off", "wrong checksum", "damaged"],
)
def test_damaged_gzip(tmp_path, content):
    (tmp_path / "d.jsonl.gz").write_bytes(content)
    assert "the gzip file is damaged or cut off" in refusal(tmp_path / "d.jsonl.gz")


def test_sgm_files_of_unequal_length(tmp_path):
    (tmp_path / "text_a").write_text("a\nb\nc\n")
    (tmp_path / "label_a").write_text("x\n")
    assert refusal(tmp_path / "text_a") == (
        f": holds 3 lines but {tmp_path / 'label_a'} holds 1; expected one label line a text."
    )
    (tmp_path / "label_a").write_text("x\ny\nx\n\n")
    assert f": holds 3 lines but {tmp_path / 'label_a'} holds 4" in refusal(tmp_path / "text_a")


def test_sgm_errors_name_the_label_file(tmp_path):
    (tmp_path / "text_a").write_text("a\nb\n")
    assert refusal(tmp_path / "text_a").startswith(f"{tmp_path / 'label_a'}: there is no such file")
    (tmp_path / "label_a").write_bytes(b"x\ny\x01\n")
    assert refusal(tmp_path / "text_a").startswith(f"{tmp_path / 'label_a'}, line 2: the label 'y\\x01'")


PLAIN = {"X": np.zeros((2, 3, 4)), "Y": np.array([[1, 0], [0, 1]])}
BAD_NPZ = [
    ({"Z": PLAIN["X"]}, r": the array 'X' is missing, the file holds Z; .*data\.features_field"),
    ({"X": PLAIN["X"]}, r": the array 'Y' is missing, the file holds X; .*data\.targets_field"),
    (PLAIN | {"X": np.zeros((3, 4))}, r": the array 'Y' has shape \(2, 2\), expected \(3, labels\)"),
    (PLAIN | {"X": np.zeros(2)}, r": the array 'X' has shape \(2,\), expected 2 or 3 axes"),
    (PLAIN | {"X": np.array([["a"], ["b"]])}, r": the array 'X' is of type <U1, expected real numbers"),
    (PLAIN | {"X": np.array([[1], [None]])}, r": is not a readable \.npz archive of plain arrays"),
    (PLAIN | {"X": np.array([[1.0], [np.nan]])}, r": row 2: the features hold NaN or infinity"),
    (PLAIN | {"X": np.array([[1.0], [1e300]])}, r": row 2: the features hold NaN or infinity"),
    (PLAIN | {"Y": np.array([[1, 0], [2, 1]])}, r": row 2: the array 'Y' holds something other than 0 and 1"),
    (PLAIN | {"Y": np.array([1, 0])}, r": the array 'Y' has shape \(2,\), expected \(2, labels\)"),
    (PLAIN | {"label_names": np.array(["x"])}, r": the array 'label_names' has shape \(1,\), expected \(2,\)"),
    (PLAIN | {"label_names": np.array(["x", "x"])}, r": the array 'label_names' names a label twice"),
    (PLAIN | {"label_names": np.array(["x", " "])}, r": row 2: the label '' is empty"),
    (PLAIN | {"ids": np.array(["a"])}, r": the array 'ids' has shape \(1,\), expected \(2,\)"),
    (PLAIN | {"n_frames": np.array([3, 4])}, r": row 2: 'n_frames' is 4, expected 1 … 3"),
    (PLAIN | {"n_frames": np.array([0, 3])}, r": row 1: 'n_frames' is 0, expected 1 … 3"),
    (PLAIN | {"n_frames": np.array(["2", "3"])}, r": the array 'n_frames' is of type <U1, expected whole numbers"),
    ({"X": np.zeros((0, 4)), "Y": np.zeros((0, 2))}, r": holds no examples"),
]


@pytest.mark.parametrize(("arrays", "expected"), BAD_NPZ)
def test_npz(tmp_path, arrays, expected):
    np.savez(tmp_path / "d.npz", **arrays)
    assert re.match(expected, refusal(tmp_path / "d.npz"))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 nonsense"])
def test_no_npz(tmp_path, content):
    (tmp_path / "d.npz").write_bytes(content)
    assert refusal(tmp_path / "d.npz").startswith(": is not a readable .npz archive of plain arrays")


def test_a_single_array_is_no_npz(tmp_path):
    with open(tmp_path / "d.npz", "wb") as file:
        np.save(file, PLAIN["X"])
    assert refusal(tmp_path / "d.npz").startswith(": holds a single array, expected an .npz archive")


BAD_PARQUET = [
    ({"text": ["a", None], "labels": [["x"], ["x"]]}, r": row 2: the field 'text' is missing, expected a string", {}),
    ({"text": [1, 2], "labels": [["x"], ["x"]]}, r": row 1: the field 'text' is a number, expected a string", {}),
    ({"text": ["a", "b"], "labels": [[1], [2]]}, r": row 1: the field 'labels' holds a number \(1\)", {}),
    ({"text": ["a", "b"], "labels": [["x"], [" "]]}, r": row 2: the label '' is empty", {}),
    ({"text": ["a", "b"]}, r": the column 'labels' is missing, expected a list of labels", {}),
    ({"text": ["a"], "x": [2]}, r": row 1: the column 'x' holds 2, expected 0 or 1", {"label_columns": ["x"]}),
    ({"text": ["a"], "x": [[1]]}, r": row 1: the column 'x' holds \[1\], expected 0 or 1", {"label_columns": ["x"]}),
    ({"text": pa.array([], pa.string()), "labels": pa.array([], pa.string())}, r": holds no examples", {}),
]


@pytest.mark.parametrize(("columns", "expected", "options"), BAD_PARQUET)
def test_parquet(tmp_path, columns, expected, options):
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    assert re.match(expected, refusal(tmp_path / "d.parquet", **options))


def test_no_parquet(tmp_path):
    (tmp_path / "d.parquet").write_bytes(b"nonsense")
    assert refusal(tmp_path / "d.parquet").startswith(": is not a readable Parquet file")


def test_binary_formats_need_a_plain_file(tmp_path):
    assert "cannot be read from standard input" in refusal("-", format="parquet")
    assert refusal("-", format="npz").startswith("standard input: this format cannot be read")
    (tmp_path / "d.parquet.gz").write_bytes(gzip.compress(b""))
    assert "unpack the file first" in refusal(tmp_path / "d.parquet.gz")


def test_without_labels_wanted_the_text_is_still_checked(tmp_path):
    (tmp_path / "d.jsonl").write_bytes(b'{"labels": ["x"]}')
    assert re.match(r", line 1: the field 'text' is missing", refusal(tmp_path / "d.jsonl", labelled=False))
