"""Small files that stand for gigabytes: refused, or read in memory that stays bounded, within seconds."""

from __future__ import annotations

import multiprocessing
import resource
import struct
import time
import wave
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orderfree.config import DataConfig
from orderfree.data.readers import read_examples
from orderfree.errors import DataError

MEGABYTES, SECONDS = 700, 60  # of memory more than before, and of time on a busy machine


def _read(path: Path, options: dict[str, Any], answers: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told, rows = "", 0
    begin = time.monotonic()
    try:
        for _ in read_examples(path, DataConfig(**options), labelled=False):
            rows += 1
            if time.monotonic() - begin > SECONDS / 2:  # it streams: time is the file's, memory is not
                break
    except DataError as error:
        told = str(error)
    answers.put((told, rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10))


def bounded(path: Path, **options: Any) -> tuple[str, int]:
    """What reading the file says and how many rows it gives, in a process of its own that is measured."""
    assert path.stat().st_size < 4 << 20, "the file is small"
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    reader = context.Process(target=_read, args=(path, options, answers))
    reader.start()
    try:
        told, rows, megabytes = answers.get(timeout=2 * SECONDS)
    finally:
        reader.kill()
        reader.join()
    assert megabytes < MEGABYTES, (told, rows)
    return told, rows


def test_parquet_that_stores_one_text_and_repeats_it(tmp_path: Path) -> None:
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * 6_000_000]))
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet", compression="zstd")
    told, rows = bounded(tmp_path / "a.parquet")
    assert not told
    assert rows > 0


def test_parquet_with_a_row_of_gigabytes(tmp_path: Path) -> None:
    values = pa.chunked_array([pa.ListArray.from_arrays([0, 80_000_000], pa.array(np.zeros(80_000_000, np.float32)))])
    pq.write_table(pa.table({"X": values}), tmp_path / "a.parquet", compression="zstd")
    told, _ = bounded(tmp_path / "a.parquet")
    assert "would unpack" in told


def _hdf5(path: Path, **options: Any) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("X", dtype="f4", **options)
    return path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (1 << 20, 2048), "chunks": (1, 2048)}, "says it has shape"),
        ({"shape": (1, 1 << 31), "chunks": (1, 1024)}, "says it has shape"),
        ({"shape": (2, 400_000), "chunks": (1, 1)}, "rows of 400,000 chunks"),
        ({"shape": (0, 0)}, "none empty"),
    ],
)
def test_hdf5_that_says_it_is_large(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    told, _ = bounded(_hdf5(tmp_path / "a.h5", **options))
    assert message in told


def test_hdf5_with_one_long_text_among_many(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(_hdf5(tmp_path / "a.h5", data=np.zeros((1000, 1), np.float32)), "a") as file:
        file.create_dataset("ids", data=["x" * 2_000_000, *["y"] * 999], dtype=h5py.string_dtype())
    assert bounded(tmp_path / "a.h5") == ("", 1000)


def test_hdf5_whose_texts_are_one_and_the_same(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(_hdf5(tmp_path / "a.h5", data=np.zeros((1000, 1), np.float32)), "a") as file:
        ids = file.create_dataset("ids", data=["x" * 2_000_000, *["y"] * 999], dtype=h5py.string_dtype())
        start = ids.id.get_offset()
    content = bytearray((tmp_path / "a.h5").read_bytes())
    content[start : start + 16_000] = content[start : start + 16] * 1000  # each is a length and where the text lies
    (tmp_path / "a.h5").write_bytes(content)
    told, rows = bounded(tmp_path / "a.h5")
    assert "bytes of text in a few rows" in told
    assert rows == 0


def test_hdf5_takes_no_values_from_other_files(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    secret = tmp_path / "secret"
    secret.write_bytes(np.arange(8, dtype=np.float32).tobytes())
    _hdf5(tmp_path / "own.h5", data=np.zeros((2, 2), np.float32))
    _hdf5(tmp_path / "external.h5", shape=(2, 4), external=[(str(secret), 0, 32)])
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["X"] = h5py.ExternalLink(str(tmp_path / "own.h5"), "X")
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout(shape=(2, 2), dtype="f4")
        layout[:] = h5py.VirtualSource(str(tmp_path / "own.h5"), "X", shape=(2, 2))
        file.create_virtual_dataset("X", layout)
    for name, message in (("external", "other files"), ("link", "another file"), ("virtual", "other files")):
        with pytest.raises(DataError, match=message):
            list(read_examples(tmp_path / f"{name}.h5", DataConfig(), labelled=False))
    assert len(list(read_examples(tmp_path / "own.h5", DataConfig(), labelled=False))) == 2


def _npz(path: Path, shape: tuple[int, ...], **others: np.ndarray) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        with archive.open("X.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": shape})
            left = int(np.prod(shape)) * 4
            while left > 0:
                left -= member.write(bytes(min(left, 1 << 24)))
        for name, array in others.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array)
    return path


@pytest.mark.parametrize(
    ("shape", "message"), [((100, 1 << 22), ""), ((16, 1 << 25), "one row takes 134,217,728 bytes")]
)
def test_npz_of_zeros(tmp_path: Path, shape: tuple[int, ...], message: str) -> None:
    told, rows = bounded(_npz(tmp_path / "a.npz", shape))
    assert message in told
    assert rows == (0 if message else shape[0])


def _wav(path: Path, rate: int, samples: int) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(np.ones(samples, "<i2").tobytes())
    content = bytearray(path.read_bytes())
    content[24:28] = struct.pack("<I", rate)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(("rate", "samples"), [(1, 500_000), (2**31 - 1, 1000), (1000, 1_800_000 * 2 + 1)])
def test_sounds_that_say_odd_rates(tmp_path: Path, rate: int, samples: int) -> None:
    pytest.importorskip("soundfile")
    if rate == 1000:
        samples = 1_000_000  # 1,000 seconds: long, and read
    told, rows = bounded(_wav(tmp_path / "a.wav", rate, samples), format="sounds")
    assert (rows == 1 and not told) if rate == 1000 else "says that a second has" in told


@pytest.mark.parametrize("value", [3e38, -3e38, 1e16])
def test_huge_features_are_refused_or_skipped(tmp_path: Path, value: float) -> None:
    features = np.ones((3, 2), np.float32)
    features[1, 0] = value
    np.savez(tmp_path / "a.npz", X=features)
    with pytest.raises(DataError, match=r"row 2: the features hold .*, expected at most 1e\+15 in size; scale them"):
        list(read_examples(tmp_path / "a.npz", DataConfig(), labelled=False))
    kept = list(read_examples(tmp_path / "a.npz", DataConfig(skip_bad=True), labelled=False))
    assert [example.id for example in kept] == ["0", "2"]
