"""What each format holds, read from small files whose content can be checked by eye."""

import gzip
import io
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orderfree.config import DataConfig
from orderfree.data.readers import ReadCounts, detect_format, read_examples, readers
from orderfree.errors import ConfigError, DataError
from orderfree.types import Example

TWO = [Example("a1", text="red fish", labels=("x", "y")), Example("a2", text="blue", labels=())]
TWO_BY_POSITION = [Example("0", text="red fish", labels=("x", "y")), Example("1", text="blue", labels=())]


def read(path, labelled=True, **options):
    return list(read_examples(path, DataConfig(**options), labelled=labelled))


def write(path, content):
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


TEXT_FORMATS = [
    (
        "d.jsonl",
        '{"id": "a1", "text": "red fish", "labels": ["x", "y"]}\n\n{"id":"a2","text":"blue","labels":[]}',
        TWO,
        {},
    ),
    ("d.csv", 'id,text,labels\na1,red fish,"x, y"\na2,blue,\n', TWO, {}),
    ("d.csv", "labels,extra,id,text\nx|y,0,a1,red fish\n  ,1,a2,blue\n", TWO, {"label_separator": "|"}),
    ("d.tsv", "id\ttext\tlabels\na1\tred fish\tx,y\na2\tblue\t\n", TWO, {}),
    ("d.csv", "id,x,text,z,y\na1,1,red fish,0,1\na2,0,blue,0, 0\n", TWO, {"label_columns": ["*"]}),
    ("d.csv", "id,x,text,z,y\na1,1,red fish,9,1\na2,0,blue,9,0\n", TWO, {"label_columns": ["x", "y"]}),
    ("d.ft", "__label__x __label__y red fish\nblue\n", TWO_BY_POSITION, {}),
    ("d.ft", " __label__x\t __label__y red fish\nblue\n", TWO_BY_POSITION, {}),
    ("d.txt", "a1\tx y\tred fish\na2\t\tblue\n", TWO, {"format": "libmultilabel"}),
    ("d.txt", "x  y\tred fish\n\tblue\n", TWO_BY_POSITION, {"format": "libmultilabel"}),
]


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize(("name", "content", "expected", "options"), TEXT_FORMATS)
def test_text_formats(tmp_path, name, content, expected, options, packed):
    assert read(write(tmp_path / (name + packed), content), **options) == expected


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize(("name", "content", "expected", "options"), TEXT_FORMATS)
def test_labels_are_ignored_where_they_are_not_wanted(tmp_path, name, content, expected, options, packed):
    unlabelled = [Example(example.id, text=example.text) for example in expected]
    assert read(write(tmp_path / (name + packed), content), labelled=False, **options) == unlabelled


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("d.jsonl", '{"text": "red"}\n{"text": "blue", "labels": 7}\n', {}),
        ("d.csv", "text\nred\nblue\n", {}),
        ("d.csv", "text\nred\nblue\n", {"label_columns": ["x"]}),
        ("d.txt", "red\nblue\n", {"format": "libmultilabel"}),
        ("text_d", "red\nblue\n", {}),
    ],
)
def test_a_file_without_labels_can_be_read_for_prediction(tmp_path, name, content, options):
    expected = [Example("0", text="red"), Example("1", text="blue")]
    assert read(write(tmp_path / name, content), labelled=False, **options) == expected


@pytest.mark.parametrize("suffix", ["", ".gz", ".txt", ".txt.gz"])
def test_sgm_takes_its_labels_from_the_file_beside_it(tmp_path, suffix):
    text = write(tmp_path / f"text_train{suffix}", "red fish\nblue\n")
    write(tmp_path / f"label_train{suffix}", "x y\n\n")
    assert read(text) == TWO_BY_POSITION


def test_a_byte_order_mark_and_windows_line_ends_are_tolerated(tmp_path):
    assert read(write(tmp_path / "d.csv", b"\xef\xbb\xbfid,text,labels\r\na1,red fish,x\r\n")) == [
        Example("a1", text="red fish", labels=("x",))
    ]
    assert read(write(tmp_path / "d.ft", b"\xef\xbb\xbf__label__x red\r\n")) == [
        Example("0", text="red", labels=("x",))
    ]


def test_csv_cells_may_hold_line_breaks_and_more_than_the_csv_module_allows_by_default(tmp_path):
    text = 'a "quoted"\nline, ' + "w" * 200_000
    cell = text.replace('"', '""')
    [example] = read(write(tmp_path / "d.csv", f'text,labels\n"{cell}",x\n'))
    assert example.text == text


def test_json_ids_are_kept_as_strings_and_null_counts_as_none(tmp_path):
    lines = ['{"id": 17, "text": "a"}', '{"id": null, "text": "b"}', '{"text": "c"}', '{"id": "007", "text": "d"}']
    examples = read(write(tmp_path / "d.jsonl", "\n".join(lines)), labelled=False)
    assert [example.id for example in examples] == ["17", "1", "2", "007"]


def test_fields_can_be_named(tmp_path):
    path = write(tmp_path / "d.jsonl", '{"key": "k", "body": "red", "topics": ["x"]}')
    assert read(path, id_field="key", text_field="body", labels_field="topics") == [
        Example("k", text="red", labels=("x",))
    ]


def test_counts_of_what_is_no_error(tmp_path):
    lines = [
        '{"text": "a", "labels": ["y", "x", "y"]}',
        '{"text": " \\t", "labels": ["y", "y", "y"]}',
        '{"text": "", "labels": []}',
        '{"text": "b", "labels": ["y"]}',
    ]
    counts = ReadCounts()
    path = write(tmp_path / "d.jsonl", "\n".join(lines))
    examples = list(read_examples(path, DataConfig(), labelled=True, counts=counts))
    assert [example.labels for example in examples] == [("y", "x"), ("y",), (), ("y",)]
    assert counts == ReadCounts(examples=4, repeated_labels=2, empty_texts=2, unlabelled=1)


def test_standard_input_is_jsonl_unless_told(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "red", "labels": ["x"]}\n')))
    assert read("-") == [Example("0", text="red", labels=("x",))]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"__label__x red\n")))
    assert read("-", format="fasttext") == [Example("0", text="red", labels=("x",))]


def test_the_first_example_is_out_before_the_second_line_is_asked_for(monkeypatch):
    asked = []

    def readline(_limit):
        asked.append(["red", "blue"][len(asked)])
        return f'{{"text": "{asked[-1]}"}}\n'.encode()

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=SimpleNamespace(readline=readline)))
    examples = read_examples("-", DataConfig(), labelled=False)
    assert next(examples).text == "red"
    assert asked == ["red"]


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        ({"labels": pa.array([["x", "y"], []])}, {}),
        ({"labels": pa.array([["x", "y"], []], pa.large_list(pa.large_string()))}, {}),
        ({"labels": pa.array(["x; y", ""])}, {"label_separator": ";"}),
        ({"x": [True, False], "y": [1, 0]}, {"label_columns": ["*"]}),
        ({"x": [1.0, 0.0], "y": ["1", "0"], "n": [5, 6]}, {"label_columns": ["x", "y"]}),
    ],
)
def test_parquet(tmp_path, labels, options):
    table = pa.table({"id": ["a1", "a2"], "text": ["red fish", "blue"], **labels})
    pq.write_table(table, tmp_path / "d.parquet")
    assert read(tmp_path / "d.parquet", **options) == TWO
    assert read(tmp_path / "d.parquet", labelled=False) == [Example(e.id, text=e.text) for e in TWO]


def test_parquet_label_columns_may_have_dots_and_batches_do_not_show(tmp_path):
    count = 2500
    table = pa.table({"text": [f"t{i}" for i in range(count)], "cs.AI": [i % 2 for i in range(count)]})
    pq.write_table(table, tmp_path / "d.parquet", row_group_size=700)
    examples = read(tmp_path / "d.parquet", label_columns=["cs.AI"])
    assert examples == [Example(str(i), text=f"t{i}", labels=("cs.AI",) if i % 2 else ()) for i in range(count)]


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_libsvm(tmp_path, packed):
    content = "# made by hand\n1,3 5:0.2 7:1.0 # note\n 2:-1e1\n10\n\n \n"
    examples = read(write(tmp_path / f"d.svm{packed}", content))
    assert [(e.id, e.labels) for e in examples] == [("0", ("1", "3")), ("1", ()), ("2", ("10",)), ("3", ())]
    assert [e.features.indices.tolist() for e in examples] == [[4, 6], [1], [], []]
    assert examples[0].features.values.tolist() == np.array([0.2, 1.0], np.float32).tolist()
    assert examples[0].features.indices.dtype == np.int32
    assert examples[0].features.values.dtype == np.float32


def test_libsvm_without_labels(tmp_path):
    examples = read(write(tmp_path / "d.libsvm", "5:0.2 7:1\n1,2 3:4\n 1:1\n"), labelled=False)
    assert [e.features.indices.tolist() for e in examples] == [[4, 6], [2], [0]]
    assert [e.labels for e in examples] == [None, None, None]


def test_npz_of_frames(tmp_path):
    features = np.arange(12, dtype=np.uint8).reshape(2, 3, 2)
    np.savez(
        tmp_path / "d.npz",
        X=features,
        Y=np.array([[1, 0, 1], [0, 0, 0]], np.uint8),
        label_names=np.array(["x", "z", "y"]),
        n_frames=np.array([2, 3], np.uint8),
        ids=np.array(["a1", "a2"]),
    )
    first, second = read(tmp_path / "d.npz")
    assert (first.id, first.labels, second.id, second.labels) == ("a1", ("x", "y"), "a2", ())
    assert first.features.dtype == np.uint8  # quantised features stay bytes
    assert first.features.tolist() == [[0, 1], [2, 3]]
    assert second.features.tolist() == features[1].tolist()


def test_npz_of_vectors_under_other_names_and_without_options(tmp_path):
    np.savez(tmp_path / "d.npz", F=np.array([[0.5, 1], [2, 3]]), T=np.array([[False, True], [True, True]]))
    first, second = read(tmp_path / "d.npz", features_field="F", targets_field="T")
    assert (first.id, first.labels, second.labels) == ("0", ("1",), ("0", "1"))
    assert first.features.tolist() == [0.5, 1]
    assert [e.labels for e in read(tmp_path / "d.npz", labelled=False, features_field="F")] == [None, None]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.jsonl", "jsonl"),
        ("a.b.ndjson.gz", "jsonl"),
        ("a.JSON", "json"),
        ("a.xlsx", "xlsx"),
        ("a.csv.gz", "csv"),
        ("a.tsv", "tsv"),
        ("a.parquet", "parquet"),
        ("a.ft.gz", "fasttext"),
        ("dir.csv/text_train", "sgm"),
        ("text_val.txt.gz", "sgm"),
        ("text_val.csv", "csv"),
        ("a.svm", "libsvm"),
        ("a.npz", "npz"),
        ("-", "jsonl"),
    ],
)
def test_format_by_name(name, expected):
    assert detect_format(name) == expected


def test_an_unknown_name_asks_for_the_format():
    with pytest.raises(
        DataError,
        match=r"notes\.txt: .*--format csv for a table, .* csv, fasttext, hdf5, json, jsonl, .*, tsv, xlsx\.$",
    ):
        detect_format("notes.txt")


def test_an_unknown_format_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match=r"unknown format 'jsnol'.*Did you mean 'jsonl'"):
        read(write(tmp_path / "d.txt", "x"), format="jsnol")


def test_every_format_of_the_configuration_is_registered():
    documented = DataConfig.model_fields["format"].description.split(";")[0]
    assert set(documented.split(", ")) <= set(readers.names())
