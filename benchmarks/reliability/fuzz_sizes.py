"""Small files of made-up sizes that stand for gigabytes, read as every format that can say so.

    python benchmarks/reliability/fuzz_sizes.py [--cases 200] [--seed 1] [--out FILE]

Every case is a function of its number: a format, numbers of rows and values between 1 and 2^36, and a way to write them
into few bytes (repeated dictionary entries, runs of zeros, chunks never written, headers that say what is not there).
Reading must end in examples or one clear sentence, within a gigabyte and half a minute of processor time; a file whose
rows are small is read row by row, and left after `ENOUGH` of them. Ends with 1 if anything else happened.
"""

from __future__ import annotations

import gzip
import random
import struct
import tempfile
import time
import wave
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bounded import WRONG, Bounds, outcomes, run_fuzzer

from orderfree.config import DataConfig
from orderfree.data.readers import read_examples
from orderfree.errors import DataError

ROOT = Path(__file__).resolve().parents[2]
BOUNDS = Bounds(megabytes=1024, processor_seconds=30, seconds=600)
ENOUGH, ENOUGH_SECONDS = 10_000, 3.0  # examples, and processor time, after which a file that is read row by row is left
WRITTEN = 1 << 28  # most bytes of zeros that a case packs: packing takes time, too


def some_size(choice: random.Random, largest: float = 36.0) -> int:
    return int(2 ** choice.uniform(0, largest))


def parquet_text(choice: random.Random, path: Path) -> None:
    rows, characters = some_size(choice, 14), some_size(choice, 24)
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * characters]))
    pq.write_table(pa.table({"text": texts}), path, compression="zstd")


def parquet_features(choice: random.Random, path: Path) -> None:
    values = min(some_size(choice, 26), WRITTEN // 4)
    rows = choice.choice((1, 1, 16))
    offsets = [values * row // rows for row in range(rows + 1)]
    lists = pa.ListArray.from_arrays(offsets, pa.array(np.zeros(values, np.float32)))
    pq.write_table(pa.table({"X": lists}), path, compression="zstd")


def hdf5(choice: random.Random, path: Path) -> None:
    import h5py

    shape = (some_size(choice), some_size(choice, 20))
    chunks = tuple(min(size, choice.choice((1, 64, 1024))) for size in shape)
    with h5py.File(path, "w") as file:
        file.create_dataset("X", shape=shape, chunks=chunks, dtype=choice.choice(("f4", "u1", "f8")))


def npz(choice: random.Random, path: Path) -> None:
    shape, zeros = (some_size(choice, 24), some_size(choice, 24)), choice.choice((64, WRITTEN))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("X.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for _ in range(0, min(zeros, 4 * shape[0] * shape[1]), 1 << 20):
            member.write(bytes(1 << 20))


def npy(choice: random.Random, path: Path) -> None:
    with open(path, "wb") as file:
        shape = (some_size(choice), some_size(choice))
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        if choice.random() < 0.5:
            file.truncate(some_size(choice, 34))  # a hole


def sounds(choice: random.Random, path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(choice.choice((1, 2, 255)))
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(np.ones(255 * choice.choice((10, 4000)), "<i2").tobytes())
    content = bytearray(path.read_bytes())
    content[24:28] = struct.pack("<I", some_size(choice, 32))  # the rate
    if choice.random() < 0.5:
        content[40:44] = struct.pack("<I", some_size(choice, 32))  # the size of what follows
    path.write_bytes(content)


def jsonl_gz(choice: random.Random, path: Path) -> None:
    unit = choice.choice((b"[", b"x", b'{"text": "x"}\n', b'{"text": "', b"\n", b"9"))
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"text": "' if unit == b"x" else b"")
        for _ in range(1 + min(some_size(choice, 28), WRITTEN) // (len(unit) << 16)):
            file.write(unit * (1 << 16))


def tfrecord(choice: random.Random, path: Path) -> None:
    path.write_bytes(struct.pack("<QI", some_size(choice, 62), 0) + b"\x80" * some_size(choice, 21))


KINDS: dict[str, tuple[str, str, Callable[[random.Random, Path], None]]] = {
    "text in Parquet": ("parquet", "a.parquet", parquet_text),
    "features in Parquet": ("parquet", "a.parquet", parquet_features),
    "hdf5": ("hdf5", "a.h5", hdf5),
    "npz": ("npz", "a.npz", npz),
    "npy": ("npy", "a.npy", npy),
    "sounds": ("sounds", "a.wav", sounds),
    "jsonl.gz": ("jsonl", "a.jsonl.gz", jsonl_gz),
    "json.gz": ("json", "a.json.gz", jsonl_gz),
    "tfrecord": ("tfrecord", "a.tfrecord", tfrecord),
}


def written(case: int, seed: int, folder: Path) -> tuple[str, Path]:
    """Writes the file of a case; its kind, and where it is."""
    choice = random.Random(f"{seed} {case}")
    kind = sorted(KINDS)[case % len(KINDS)]
    _, name, write = KINDS[kind]
    path = folder / f"{case}-{name}"
    write(choice, path)
    return kind, path


def tried(kind: str, path: Path) -> str:
    examples, begun = 0, time.process_time()
    try:
        for _ in read_examples(path, DataConfig(format=KINDS[kind][0]), labelled=False):
            examples += 1
            if examples >= ENOUGH or time.process_time() - begun > ENOUGH_SECONDS:
                return "is read row by row"
    except DataError as error:
        return "refused" if str(path) in str(error) else f"{WRONG}: does not name the file: {error}"
    except BaseException as error:
        return f"{WRONG}: {type(error).__name__}: {str(error)[:200]}"
    return "read"


def fuzz(cases: int, seed: int) -> dict[str, Any]:
    by_kind: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    wrong = {}
    for case in range(cases):
        with tempfile.TemporaryDirectory() as folder:
            kind, path = written(case, seed, Path(folder))
            (told,) = outcomes([path], lambda path, kind=kind: tried(kind, path), BOUNDS)  # type: ignore[misc]
        if told.startswith(WRONG):
            wrong[case] = f"{kind}: {told}"
        else:
            by_kind[kind][told] += 1
    return {"cases": cases, "outcomes": {kind: dict(counts) for kind, counts in by_kind.items()}, "wrong": wrong}


if __name__ == "__main__":
    run_fuzzer(__doc__.splitlines()[0], ROOT / "benchmarks" / "results" / "fuzz_sizes.json", 200, fuzz)
