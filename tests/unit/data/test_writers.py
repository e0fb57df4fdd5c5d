import csv
import gzip
import io
import json
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from orderfree.config import DataConfig
from orderfree.data.readers import read_examples
from orderfree.data.readers.checks import cell_labels
from orderfree.data.writers import BATCH_ROWS, open_prediction_writer, write_examples
from orderfree.errors import ConfigError, DataError
from orderfree.types import Example, SparseVector

TEXTS = [
    Example("0", text="red fish", labels=("x", "y")),
    Example("1", text="", labels=()),
    Example("2", text=" ü", labels=("y",)),
]
NAMES = {"jsonl": "d.jsonl", "csv": "d.csv", "tsv": "d.tsv", "parquet": "d.parquet", "fasttext": "d.ft"}
NAMES |= {"libmultilabel": "d.txt", "sgm": "text_d", "libsvm": "d.svm", "npz": "d.npz"}
TEXT_FORMATS = ["jsonl", "csv", "tsv", "parquet", "fasttext", "libmultilabel", "sgm"]


def round_trip(examples, path, format, labelled=True, **options):
    write_examples(examples, path, format, DataConfig(**options))
    return list(read_examples(path, DataConfig(format=format, **options), labelled=labelled))


def same(one, other):
    def plain(example):
        value = example.features
        if isinstance(value, SparseVector):
            value = (value.indices.tolist(), value.values.tolist())
        return example.id, example.labels, value if isinstance(value, tuple) else value.tolist()

    return [plain(e) for e in one] == [plain(e) for e in other]


@pytest.mark.parametrize("format", TEXT_FORMATS)
@pytest.mark.parametrize("labelled", [True, False])
def test_texts_come_back(tmp_path, format, labelled):
    examples = TEXTS if labelled else [Example(e.id, text=e.text) for e in TEXTS]
    assert round_trip(examples, tmp_path / NAMES[format], format, labelled) == examples


@pytest.mark.parametrize("format", [name for name in TEXT_FORMATS if name != "parquet"])
def test_compressed_texts_come_back_and_have_the_same_bytes_every_time(tmp_path, format):
    path = tmp_path / (NAMES[format] + ".gz")
    assert round_trip(TEXTS, path, format) == TEXTS
    before = path.read_bytes()
    write_examples(TEXTS, path, format, DataConfig())
    assert path.read_bytes() == before


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_a_text_that_begins_with_a_byte_order_mark_keeps_it(tmp_path, format):
    examples = [Example("0", text="\ufeffred", labels=())] * 2
    read = round_trip(examples, tmp_path / NAMES[format], format)
    assert [example.text for example in read] == ["\ufeffred"] * 2


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_fields_and_separator_are_the_configured_ones(tmp_path, format):
    examples = [Example("k", text="a", labels=("x, y", "z"))]
    options = {"id_field": "key", "text_field": "body", "labels_field": "topics", "label_separator": "|"}
    assert round_trip(examples, tmp_path / NAMES[format], format, **options) == examples


def test_sparse_features_come_back(tmp_path):
    def vector(indices, values):
        return SparseVector(np.array(indices, np.int32), np.array(values, np.float32))

    examples = [
        Example("0", features=vector([0, 7], [0.1, -3e-20]), labels=("3", "1")),
        Example("1", features=vector([], []), labels=("2",)),
        Example("2", features=vector([5], [1]), labels=()),
        Example("3", features=vector([], []), labels=()),
    ]
    assert same(round_trip(examples, tmp_path / "d.svm", "libsvm"), examples)
    unlabelled = [Example(e.id, features=e.features) for e in examples]
    assert same(round_trip(unlabelled, tmp_path / "d.svm", "libsvm", labelled=False), unlabelled)


@pytest.mark.parametrize("shapes", [[(3,), (3,)], [(2, 3), (4, 3)]])
def test_dense_features_come_back(tmp_path, shapes):
    rng = np.random.default_rng(0)
    labels = [("x", "y"), ()]
    dense = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    examples = [Example(f"a{i}", features=dense[i], labels=labels[i]) for i in range(2)]
    assert same(round_trip(examples, tmp_path / "d.npz", "npz"), examples)
    quantised = [Example(e.id, features=e.features.astype(np.uint8), labels=e.labels) for e in examples]
    assert same(round_trip(quantised, tmp_path / "d.npz", "npz"), quantised)
    unlabelled = [Example(e.id, features=e.features) for e in examples]
    assert same(round_trip(unlabelled, tmp_path / "d.npz", "npz", labelled=False), unlabelled)


ONE = np.ones(2, np.float32)
SPARSE = SparseVector(np.array([0], np.int32), np.array([1], np.float32))


@pytest.mark.parametrize(
    ("format", "example", "expected"),
    [
        ("fasttext", Example("a", text="two\nlines", labels=()), r"cannot hold '\\n' in a text"),
        ("sgm", Example("a", text="two\rlines", labels=()), r"cannot hold '\\r' in a text"),
        ("libmultilabel", Example("a", text="a\tb", labels=()), r"cannot hold '\\t' in a text"),
        ("libmultilabel", Example("a\tb", text="a", labels=()), r"cannot hold '\\t' in a text or id"),
        ("fasttext", Example("a", text=" __label__x", labels=("y",)), "begins with '__label__'"),
        ("fasttext", Example("a", text="a", labels=("x y",)), r"labels \['x y'\] would not be told apart"),
        ("sgm", Example("a", text="a", labels=("x y",)), "would not be told apart"),
        ("libmultilabel", Example("a", text="a", labels=("x y",)), "would not be told apart"),
        ("csv", Example("a", text="a", labels=("x,y",)), "would not be told apart when joined by ','"),
        ("tsv", Example("a", text="a", labels=(" x",)), "would be read as 'x'"),
        ("tsv", Example("a", text="a", labels=("x,y",)), "would not be told apart"),
        ("csv", Example("", text="a", labels=()), "id is empty"),
        ("jsonl", Example("a", text="a", labels=("x", "x")), "repeat one"),
        ("jsonl", Example("a", text="a", labels=("x\n",)), "control character"),
        ("jsonl", Example("a", text="a", labels=("x",), unknown=("y", "x")), "repeat one"),
        ("libmultilabel", Example("a", text="a", labels=("\uf900",)), "'\uf900' would be read as '\u8c48'"),
        ("jsonl", Example("a", text="a", labels=("x",), unknown=("e\u0301",)), "would be read as '\xe9'"),
        ("npz", Example("a", features=ONE, labels=(), unknown=(" x",)), "' x' would be read as 'x'"),
        ("parquet", Example("a", text="a", labels=(" ",)), "is empty"),
        ("jsonl", Example("a", features=SPARSE, labels=()), "jsonl files hold text"),
        ("libsvm", Example("a", features=ONE, labels=()), "libsvm files hold sparse features"),
        ("npz", Example("a", text="a", labels=()), "npz files hold dense features"),
        ("npz", Example("a", features=ONE * np.inf, labels=()), "NaN or infinity"),
        ("npz", Example("a", features=np.zeros((0, 2), np.float32), labels=()), "hold no number"),
        ("libsvm", Example("a", features=SPARSE, labels=("x y",)), "cannot hold blanks"),
        ("libsvm", Example("a", features=SPARSE, labels=("x:y",)), "cannot hold blanks, ':'"),
        ("libsvm", Example("a", features=SPARSE, labels=("x,y",)), "would not be told apart"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_and_nothing_is_written(tmp_path, format, example, expected):
    with pytest.raises(DataError, match=expected):
        write_examples([example], tmp_path / NAMES[format], format, DataConfig())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet", "fasttext"])
def test_half_characters_are_refused(tmp_path, format):
    with pytest.raises(DataError, match=r"half a character \(\\ud83d\)"):
        write_examples([Example("a", text="\ud83d", labels=())], tmp_path / NAMES[format], format, DataConfig())
    assert list(tmp_path.iterdir()) == []


def test_other_refusals(tmp_path):
    mixed = [Example("a", text="a", labels=()), Example("b", text="b")]
    with pytest.raises(DataError, match="'b' cannot be written: some examples have labels and some do not"):
        write_examples(mixed, tmp_path / "d.jsonl", "jsonl", DataConfig())
    uneven = [Example("a", features=ONE, labels=()), Example("b", features=np.ones(3, np.float32), labels=())]
    with pytest.raises(DataError, match=r"'b' cannot be written: its features have shape \(3,\), the first \(2,\)"):
        write_examples(uneven, tmp_path / "d.npz", "npz", DataConfig())
    with pytest.raises(DataError, match="must hold 'text'"):
        write_examples(TEXTS, tmp_path / "corpus", "sgm", DataConfig())
    with pytest.raises(ConfigError, match="cannot write the format 'xml'; known: csv, "):
        write_examples(TEXTS, tmp_path / "d", "xml", DataConfig())
    with pytest.raises(ConfigError, match="three different names"):
        write_examples(TEXTS, tmp_path / "d", "jsonl", DataConfig(id_field="text"))
    with pytest.raises(ConfigError, match="label_columns is for reading"):
        write_examples(TEXTS, tmp_path / "d", "csv", DataConfig(label_columns=["x"]))
    assert list(tmp_path.iterdir()) == []


def record(number=0, labels=("x",), **more):
    return {"id": f"a{number}", "labels": list(labels), "decoder": "joint", "log_prob": -0.5, "probs": None} | more


RECORDS = [
    record(0, ("ü", "y"), probs={"ü": 0.75, "y": 0.5}, alternatives=[{"labels": ["y"], "log_prob": -2.0}]),
    record(1, ()),
]


def predictions(path, format, records):
    with open_prediction_writer(str(path), format) as writer:
        for each in records:
            writer.write(each)
    return path


@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz"])
def test_predictions_as_jsonl(tmp_path, name):
    data = predictions(tmp_path / name, "jsonl", RECORDS).read_bytes()
    lines = (gzip.decompress(data) if name.endswith(".gz") else data).decode().splitlines()
    assert [json.loads(line) for line in lines] == RECORDS
    assert "ü" in lines[0]


def csv_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_predictions_as_csv(tmp_path):
    assert csv_rows(predictions(tmp_path / "p.csv", "csv", RECORDS)) == [
        ["id", "labels", "decoder", "log_prob", "probs"],
        ["a0", "ü,y", "joint", "-0.5", '{"ü": 0.75, "y": 0.5}'],
        ["a1", "", "joint", "-0.5", ""],
    ]


@pytest.mark.parametrize(
    ("labels", "cell"),
    [
        (["a, b", "c"], '["a, b", "c"]'),
        (["[a]"], "[a]"),
        (['["a"]'], '["[\\"a\\"]"]'),
        (["=1+1", "b"], '["=1+1", "b"]'),
        (["b", "=1+1"], "b,=1+1"),
        (["-b"], '["-b"]'),
        (["@b"], '["@b"]'),
        (["+b"], '["+b"]'),
        (["a,"], '["a,"]'),
    ],
)
def test_csv_label_cells(tmp_path, labels, cell):
    _, [_, found, *_] = csv_rows(predictions(tmp_path / "p.csv", "csv", [record(labels=labels)]))
    assert found == cell
    assert cell_labels(found, ",") == tuple(labels), "the readers read it back"


@pytest.mark.parametrize("own_id", ["=cmd()", "+1", "-1", "@x", "\tx", "\rx"])
def test_csv_ids_cannot_be_formulas(tmp_path, own_id):
    _, [found, *_] = csv_rows(predictions(tmp_path / "p.csv", "csv", [record() | {"id": own_id}]))
    assert found == "'" + own_id


def test_predictions_as_parquet(tmp_path):
    count = 2 * BATCH_ROWS + 1
    records = RECORDS + [record(i) for i in range(2, count)]
    table = pq.ParquetFile(predictions(tmp_path / "p.parquet", "parquet", records))
    types = {field.name: str(field.type) for field in table.schema_arrow}
    assert list(types) == ["id", "labels", "decoder", "log_prob", "probs"]
    assert types["log_prob"] == "double"
    assert types["probs"].startswith("map<string, double")
    assert table.metadata.num_row_groups == 3
    rows = table.read().to_pylist()
    assert rows[0] == {
        "id": "a0", "labels": ["ü", "y"], "decoder": "joint", "log_prob": -0.5, "probs": [("ü", 0.75), ("y", 0.5)]
    }  # fmt: skip
    assert rows[1]["probs"] is None
    assert [row["id"] for row in rows] == [f"a{i}" for i in range(count)]


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_predictions_cut_short_leave_what_was_there(tmp_path, format):
    path = tmp_path / "p"
    path.write_text("before")

    def interrupted():
        yield record()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predictions(path, format, interrupted())
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_predictions_to_standard_output(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    predictions("-", "jsonl", RECORDS)
    assert [json.loads(line) for line in out.getvalue().splitlines()] == RECORDS
    with pytest.raises(DataError, match="Parquet cannot be written to standard output"):
        predictions("-", "parquet", RECORDS)
    with pytest.raises(ConfigError, match="cannot write predictions as 'xml'; known: csv, jsonl, parquet"):
        predictions("-", "xml", RECORDS)
