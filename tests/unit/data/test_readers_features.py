"""Features as people have them: NumPy, HDF5, Parquet, AudioSet's TFRecord files; and what can be wrong with them."""

import json
import struct
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from orderfree.config import DataConfig
from orderfree.data.readers import ReadCounts, detect_format, read_examples
from orderfree.errors import DataError

X = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
Y = np.array([[1, 0, 1], [0, 1, 0]], bool)


def read(path, labelled=True, counts=None, **options):
    return list(read_examples(path, DataConfig(**options), labelled=labelled, counts=counts))


def refusal(path, **options):
    with pytest.raises(DataError) as error:
        read(path, **options)
    return str(error.value).removeprefix(str(path))


@pytest.fixture
def classes(tmp_path):
    path = tmp_path / "classes.csv"
    path.write_text('index,mid,display_name\n0,/m/1,Speech\n1,/m/2,"Music, loud"\n2,/m/3,Dog\n')
    return str(path)


# --- arrays -----------------------------------------------------------------------------------------------------------


def test_kongs_packed_hdf5(tmp_path, classes):
    with h5py.File(tmp_path / "bal_train.h5", "w") as file:
        file.create_dataset("x", data=X)
        file.create_dataset("y", data=Y)
        file.create_dataset("video_id_list", data=np.array([b"--4gqARaEJE", b"--BfvyPmVMo"]))
    first, second = read(tmp_path / "bal_train.h5", classes=classes)
    assert (first.id, first.labels) == ("--4gqARaEJE", ("Speech", "Dog"))
    assert (second.id, second.labels) == ("--BfvyPmVMo", ("Music, loud",))
    assert first.features.dtype == np.uint8
    assert (second.features == X[1]).all()
    assert [e.labels for e in read(tmp_path / "bal_train.h5")] == [("0", "2"), ("1",)]


def test_hdf5_with_text_labels_and_frame_counts(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["X"], file["n_frames"] = X.astype(np.float64), np.array([1, 3])
        file.create_dataset("Y", data=["a|b", ""], dtype=h5py.string_dtype())
    first, second = read(tmp_path / "a.hdf5", label_separator="|")
    assert (first.labels, second.labels) == (("a", "b"), ())
    assert first.features.tolist() == X[0, :1].tolist()


def test_npy_with_labels_beside_it(tmp_path):
    np.save(tmp_path / "clips.npy", X.astype(np.float32))
    assert "clips.labels.npy: there is no such file" in refusal(tmp_path / "clips.npy")
    np.save(tmp_path / "clips.labels.npy", Y)
    assert [e.labels for e in read(tmp_path / "clips.npy")] == [("0", "2"), ("1",)]
    assert [e.labels for e in read(tmp_path / "clips.npy", labelled=False)] == [None, None]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_is_read_in_chunks(tmp_path, save, monkeypatch):
    """More rows than are read at once, with label indices as text."""
    monkeypatch.setattr("orderfree.data.readers.arrays.ROWS_AT_ONCE", 3)
    rows = np.arange(40.0).reshape(8, 5)
    save(tmp_path / "d.npz", X=rows, Y=np.array([f"{n % 2},{n % 3}" for n in range(8)]), ids=np.arange(8).astype(str))
    (tmp_path / "classes.txt").write_text("zero\none\ntwo\n")
    found = read(tmp_path / "d.npz", classes=str(tmp_path / "classes.txt"))
    assert (np.stack([e.features for e in found]) == rows).all()
    assert found[5].labels == ("one", "two")
    assert found[7].id == "7"


def test_parquet_of_features(tmp_path, classes):
    kind = pa.list_(pa.list_(pa.uint8()))
    table = pa.table({"id": ["a", "b"], "X": pa.array(X.tolist(), kind), "labels": [[0, 2], [1]]})
    pq.write_table(table, tmp_path / "d.parquet")
    first, second = read(tmp_path / "d.parquet", classes=classes)
    assert (first.id, first.labels, second.labels) == ("a", ("Speech", "Dog"), ("Music, loud",))
    assert first.features.dtype == np.uint8
    assert first.features.tolist() == X[0].tolist()
    flat = pa.table({"X": [[0.5, 1.5], [2.0]], "labels": [["a"], ["b"]]})
    pq.write_table(flat, tmp_path / "flat.parquet")
    assert read(tmp_path / "flat.parquet")[0].features.dtype == np.float32
    pq.write_table(pa.table({"X": [[[1.0], [1.0, 2.0]]], "labels": [["a"]]}), tmp_path / "odd.parquet")
    assert refusal(tmp_path / "odd.parquet").startswith(": row 1: the column 'X' holds no features")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("d.h5", b"nonsense", ": is not a readable HDF5 file"),
        ("d.npy", b"\x93NUMPY nonsense", ": is not a readable .npy file of plain numbers"),
    ],
)
def test_no_array(tmp_path, name, content, expected):
    (tmp_path / name).write_bytes(content)
    assert refusal(tmp_path / name).startswith(expected)


def test_arrays_that_are_cut_off_or_lie_the_other_way(tmp_path):
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "a.labels.npy", Y)
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-5])
    assert "it is cut off: 5 bytes are missing" in refusal(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.asfortranarray(X))
    assert "column by column" in refusal(tmp_path / "a.npy")


# --- the class list ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("3", "label index 3 is outside the class list .* which has 0 … 2"),
        ("Cat", "label 'Cat' is not in the class list"),
    ],
)
def test_labels_outside_the_class_list(tmp_path, classes, label, expected):
    np.savez(tmp_path / "d.npz", X=X, Y=np.array(["Dog", label]))
    with pytest.raises(DataError, match=f"d.npz: row 2: the {expected}"):
        read(tmp_path / "d.npz", classes=classes)
    counts = ReadCounts()
    assert len(read(tmp_path / "d.npz", classes=classes, skip_bad=True, counts=counts)) == 1
    assert counts.skipped == 1


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("c.txt", "", ": holds no class"),
        ("c.txt", "a\nb\na\n", ": names the class 'a' twice"),
        ("c.csv", "number,word\n0,a\n", ": has no column display_name or name or label"),
        ("c.csv", "index,name\n0,a\n2,b\n", ", line 3: has the index 2, expected 1"),
        ("c.csv", "index,name\n0,a,b\n", ", line 2: has 3 cells, expected 2"),
    ],
)
def test_no_class_list(tmp_path, name, content, expected):
    np.savez(tmp_path / "d.npz", X=X, Y=np.array(["0", "1"]))
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as error:
        read(tmp_path / "d.npz", classes=str(tmp_path / name))
    assert str(error.value).startswith(f"{tmp_path / name}{expected}")


# --- TFRecord ---------------------------------------------------------------------------------------------------------


def message(*fields: tuple[int, bytes]) -> bytes:
    return b"".join(varint(number << 3 | 2) + varint(len(content)) + content for number, content in fields)


def varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7) if value > 0x7F else bytes([value])


def entry(name: str, content: bytes) -> tuple[int, bytes]:
    return 1, message((1, name.encode()), (2, content))


def sequence_example(name: str, labels: list[int], frames: np.ndarray) -> bytes:
    """As the released files have it: id, times and labels in the context, one bytes feature a frame."""
    packed = message((1, b"".join(map(varint, labels))))
    context = message(
        entry("video_id", message((1, message((1, name.encode()))))),
        entry("start_time_seconds", message((2, message((1, struct.pack("<f", 30.0)))))),
        entry("labels", message((3, packed))),
    )
    rows = message(*((1, message((1, message((1, frame.tobytes()))))) for frame in frames))
    return message((1, context), (2, message(entry("audio_embedding", rows))))


def write_records(path: Path, contents: list[bytes]) -> list[int]:
    """Written by TensorBoard's own writer; where each record begins."""
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        for content in contents:
            writer.write(content)
    return np.cumsum([0, *(16 + len(content) for content in contents)]).tolist()


@pytest.fixture
def shard(tmp_path):
    clips = [np.random.default_rng(n).integers(0, 256, (10 - n, 128), dtype=np.uint8) for n in range(3)]
    contents = [sequence_example(f"clip{n}", [n, 300], clip) for n, clip in enumerate(clips)]
    path = tmp_path / "shards" / "00.tfrecord"
    path.parent.mkdir()
    return path, write_records(path, contents), clips


def test_a_shard(shard):
    path, _, clips = shard
    found = read(path)
    assert [(e.id, e.labels) for e in found] == [(f"clip{n}", (str(n), "300")) for n in range(3)]
    assert all((e.features == clip).all() for e, clip in zip(found, clips, strict=True))
    assert [e.labels for e in read(path, labelled=False)] == [None] * 3


def test_a_folder_of_shards(shard):
    path, _, clips = shard
    write_records(path.with_name("01.tfrecord"), [sequence_example("last", [1], clips[0])])
    assert detect_format(str(path.parent)) == "tfrecord"
    assert [e.id for e in read(path.parent)] == ["clip0", "clip1", "clip2", "last"]


def test_a_damaged_record_names_file_and_byte_or_is_skipped(shard):
    path, starts, _ = shard
    content = bytearray(path.read_bytes())
    content[starts[1] + 100] ^= 1
    path.write_bytes(content)
    assert refusal(path.parent) == (
        f"/00.tfrecord: byte {starts[1]:,}: the record is damaged; get a whole copy of the file, or leave such records "
        "out (--skip-bad)."
    )
    counts = ReadCounts()
    assert [e.id for e in read(path, skip_bad=True, counts=counts)] == ["clip0", "clip2"]
    assert (counts.examples, counts.skipped) == (2, 1)


def test_behind_a_damaged_length_the_next_file_goes_on(shard):
    path, starts, clips = shard
    write_records(path.with_name("01.tfrecord"), [sequence_example("last", [1], clips[0])])
    content = bytearray(path.read_bytes())
    content[starts[1]] ^= 1
    path.write_bytes(content)
    assert f"00.tfrecord: byte {starts[1]:,}: the length of the record is damaged" in refusal(path.parent)
    counts = ReadCounts()
    assert [e.id for e in read(path.parent, skip_bad=True, counts=counts)] == ["clip0", "last"]
    assert counts.skipped == 1


@pytest.mark.parametrize("cut", [1, 3, 200])
def test_a_file_that_is_cut_off(shard, cut):
    path, starts, _ = shard
    path.write_bytes(path.read_bytes()[:-cut])
    assert refusal(path).startswith(f": byte {starts[2]:,}: is cut off inside a record")
    assert len(read(path, skip_bad=True)) == 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x0f nonsense", "is not a record of features"),
        (message((1, message((1, message((2, b"a value without a name")))))), "is not a record of features"),
        (message((1, message(entry("labels", message((3, message((1, b"\x80" * 1_000_000)))))))), "is not a record"),
        (sequence_example("x", [1], np.zeros((0, 4), np.uint8)), "clip x has no frames in 'audio_embedding'"),
        (message((1, message(entry("video_id", message((1, message((1, b"y")))))))), "clip y has no frames"),
    ],
)
def test_records_that_are_whole_but_no_clips(tmp_path, content, expected):
    write_records(tmp_path / "a.tfrecord", [content])
    assert refusal(tmp_path / "a.tfrecord").startswith(f": byte 0: {expected}")


def test_a_clip_without_labels_is_refused_where_they_are_needed(tmp_path):
    frames = message((1, message((1, message((1, b"abcd"))))))
    write_records(tmp_path / "a.tfrecord", [message((2, message(entry("audio_embedding", frames))))])
    assert "clip 0 has no 'labels'" in refusal(tmp_path / "a.tfrecord")
    (example,) = read(tmp_path / "a.tfrecord", labelled=False)
    assert example.features.tolist() == [list(b"abcd")]
    assert json.dumps(example.id) == '"0"'
