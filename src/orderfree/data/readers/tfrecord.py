"""AudioSet's released embeddings: TFRecord files of SequenceExamples, read without TensorFlow.

A file is a row of records, each   length (8 bytes) | CRC of it (4) | content (length) | CRC of it (4)
and a content is a protocol buffer, of which this much is read (numbers are field numbers):

    SequenceExample  1 context: Features          2 feature_lists: FeatureLists
    Features         1 map of name (1) and Feature (2)      FeatureLists  1 map of name (1) and FeatureList (2)
    FeatureList      1 Feature, one a frame       Feature   1 bytes   2 floats   3 integers (each: 1 value, repeated)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...config import DataConfig
from ...errors import MissingLibraryError
from ...types import Example
from .source import STDIN, Source, readers

TFRECORD_FILES = "*.tfrecord"
EMBEDDING, ID, LABELS = "audio_embedding", "video_id", "labels"
LONGEST = 1 << 26  # a damaged length must not ask for all memory


@readers.register("tfrecord")
def read_tfrecord(source: Source, options: DataConfig) -> Iterator[Example]:
    """One file, or all *.tfrecord files of a folder and the folders in it; labels are class indices."""
    for path in _files(source):
        source.file = str(path)
        for content in _records(source, options.skip_bad):
            if (example := source.unless_bad(options.skip_bad, _example, content, source)) is not None:
                yield example
    source.file = source.offset = None


def _files(source: Source) -> list[Path]:
    if source.path == STDIN:
        raise source.error("this format cannot be read from standard input; give a file or a folder of files.")
    if not Path(source.path).is_dir():
        return [Path(source.path)]
    files = sorted(Path(source.path).rglob(TFRECORD_FILES))
    if not files:
        raise source.error(f"holds no {TFRECORD_FILES}; name the folder they are in.")
    return files


def _records(source: Source, skip_bad: bool) -> Iterator[bytes]:
    """The contents of the records of one file, checked; `source.offset` is where the one that is out begins.

    A record with a damaged content can be passed over. Behind a damaged length nothing more is found: the rest of the
    file counts as one record."""
    crc = _crc32c()
    with source.open_file() as file:
        source.offset = 0
        while head := file.read(12):
            problem, beyond = "is cut off inside a record", True
            content = b""
            if len(head) == 12:
                length, check = struct.unpack("<QI", head)
                if check != crc(head[:8]) or length > LONGEST:
                    problem = "the length of the record is damaged (its checksum is wrong)"
                else:
                    content, tail = file.read(length), file.read(4)
                    if len(content) == length and len(tail) == 4:
                        beyond = False
                        problem = "" if struct.unpack("<I", tail)[0] == crc(content) else "the record is damaged"
            if not problem:
                yield content
            elif not skip_bad:
                raise source.error(f"{problem}; get a whole copy of the file, or leave such records out (--skip-bad).")
            else:
                source.skip()
            if beyond:
                return
            source.offset += 16 + length


def _crc32c() -> _Checksum:
    try:
        import google_crc32c
    except ImportError:
        raise MissingLibraryError("TFRecord files need the extra `audio`: pip install 'orderfree[audio]'.") from None
    return _Checksum(google_crc32c.value)


class _Checksum:
    """The masked CRC-32C of TFRecord: rotated right by 15 bits, plus a constant."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __call__(self, content: bytes) -> int:
        crc: int = self.value(content)  # type: ignore[operator]
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _example(content: bytes, source: Source) -> Example:
    try:
        context, lists = _sequence_example(content)
    except (ValueError, LookupError):
        raise source.error("is not a record of features (SequenceExample); check the file or its format.") from None
    frames = lists.get(EMBEDDING, [])
    given = context[ID][0] if context.get(ID) else None
    own_id = source.example_id(given.decode("utf-8", "replace") if isinstance(given, bytes) else given)
    if not frames:
        raise source.error(f"clip {own_id} has no frames in {EMBEDDING!r}; leave it out, or use --skip-bad.")
    if not all(isinstance(frame, bytes) for frame in frames):
        raise source.error(f"clip {own_id} has numbers in {EMBEDDING!r}, expected 8-bit features as bytes.")
    widths = {len(frame) for frame in frames}
    if len(widths) > 1:
        raise source.error(f"clip {own_id} has frames of {' and '.join(map(str, sorted(widths)[:5]))} features.")
    if widths == {0}:
        raise source.error(f"clip {own_id} has frames without features; leave it out, or use --skip-bad.")
    labels = None
    if source.labelled:
        if LABELS not in context:
            raise source.error(f"clip {own_id} has no {LABELS!r}; expected class indices.")
        if not all(isinstance(index, int) for index in context[LABELS]):
            raise source.error(f"clip {own_id} has text in {LABELS!r}, expected class indices.")
        labels = tuple(str(index) for index in context[LABELS])
    return Example(own_id, features=np.frombuffer(b"".join(frames), np.uint8).reshape(len(frames), -1), labels=labels)


def _sequence_example(content: bytes) -> tuple[dict[str, list], dict[str, list[bytes]]]:
    """Context features by name, and of each feature list the bytes of every frame."""
    context: dict[str, list] = {}
    lists: dict[str, list[bytes]] = {}
    for number, value in _fields(content):
        for _, entry in _fields(value):
            parts = dict(_fields(entry))
            name, own = parts[1].decode("utf-8"), parts.get(2, b"")
            if number == 1:
                context[name] = _feature(own)
            elif number == 2:
                lists[name] = [values[0] for _, frame in _fields(own) if (values := _feature(frame))]
    return context, lists


def _feature(content: bytes) -> list:
    """The values of a Feature; floats, which nothing here needs, are left out."""
    for kind, values in _fields(content):
        if kind == 1:
            return [value for _, value in _fields(values)]
        if kind == 3:
            return [number for _, packed in _fields(values) for number in _varints(packed)]
    return []


def _fields(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of every field of a message; a plain integer as the bytes it is written with."""
    place = 0
    while place < len(content):
        key, place = _varint(content, place)
        start = place
        match key & 7:
            case 0:
                _, place = _varint(content, place)
            case 1:
                place += 8
            case 2:
                size, start = _varint(content, place)
                place = start + size
            case 5:
                place += 4
            case other:
                raise ValueError(f"unknown wire type {other}")
        if place > len(content):
            raise ValueError("a field goes beyond the end")
        yield key >> 3, content[start:place]


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    value = 0
    for shift in range(0, 64 + 6, 7):  # 64 bits are at most 10 bytes
        byte = content[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
    raise ValueError("a number has more than 64 bits")


def _varints(content: bytes) -> Iterator[int]:
    place = 0
    while place < len(content):
        value, place = _varint(content, place)
        yield value
