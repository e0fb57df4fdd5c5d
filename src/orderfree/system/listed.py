"""The files of a model directory from an untrusted source. Before a file is opened, it must be a regular file inside
the directory, of bounded size and listed in the manifest."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..errors import ModelDirectoryError
from .files import fingerprint

MANIFEST = "manifest.json"
AGAIN = "copy or train the model again."
# Largest size of a file in bytes, by suffix. A graph without external data cannot be larger than this.
LARGEST = {".json": 1 << 28, ".jsonl": 1 << 26, ".onnx": 1 << 31, ".safetensors": 1 << 36}
LARGEST_OTHER = 1 << 24
LARGEST_NUMBER = 1e15  # of a score, a loss or a count


class Folder(Protocol):
    """A directory, or the listed files of one."""

    def __truediv__(self, name: str, /) -> Path: ...


@dataclass(frozen=True)
class ListedFiles:
    """The files of a directory that its manifest lists and whose checksums match; no other file can be opened through
    it."""

    directory: Path
    names: frozenset[str]

    def __truediv__(self, name: str, /) -> Path:
        if name not in self.names:
            raise ModelDirectoryError(f"{self.directory / MANIFEST}: does not list {name}; {AGAIN}")
        return self.directory / name

    def __contains__(self, name: str) -> bool:
        return name in self.names


def holds(folder: Folder, name: str) -> bool:
    """Whether a directory has this file; with listed files, whether it is one of them."""
    return name in folder if isinstance(folder, ListedFiles) else (folder / name).exists()


def check_files(directory: Path, files: dict[str, Any]) -> ListedFiles:
    """Compares sizes and checksums with `files`, the entries of the manifest, without parsing any file."""
    for name, expected in files.items():
        _check_file(directory, name, expected)
    return ListedFiles(directory, frozenset(files))


def _check_file(directory: Path, name: str, expected: Any) -> None:
    path = directory / name
    if Path(name).name != name or "\0" in name or path.resolve().parent != directory.resolve():
        raise ModelDirectoryError(f"{directory / MANIFEST}: names a file outside the directory ({name!r}).")
    size = plain_size(path)
    promised = expected.get("bytes") if isinstance(expected, dict) else None
    if not isinstance(promised, int):
        raise ModelDirectoryError(f"{directory / MANIFEST}: is damaged; {AGAIN}")
    if size != promised:
        raise ModelDirectoryError(
            f"{path}: has {size:,} bytes, expected {promised:,}; it is truncated or was changed, {AGAIN}"
        )
    try:
        checksum = fingerprint(path)
    except OSError as error:
        raise ModelDirectoryError(f"{path}: cannot be read ({error.strerror}); check its permissions.") from None
    if checksum != expected.get("sha256"):
        raise ModelDirectoryError(f"{path}: does not match its checksum; {AGAIN}")


def plain_size(path: Path) -> int:
    """The size of a file; refuses, without opening it, one that is not regular or larger than any model needs."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise ModelDirectoryError(f"{path.parent}: {path.name} is missing; {AGAIN}") from None
    except OSError as error:
        raise ModelDirectoryError(f"{path}: cannot be read ({error.strerror}); check the path.") from None
    if not stat.S_ISREG(status.st_mode):
        raise ModelDirectoryError(f"{path}: is not a regular file, expected one; {AGAIN}")
    if status.st_size > (largest := LARGEST.get(path.suffix, LARGEST_OTHER)):
        raise ModelDirectoryError(f"{path}: is larger than {largest:,} bytes, more than any model needs.")
    return status.st_size


def read_plain(path: Path) -> bytes:
    """The bytes of a file that is not in a manifest. A link to another directory is refused."""
    if path.resolve().parent != path.parent.resolve():
        raise ModelDirectoryError(f"{path}: is a link that leads outside the directory; {AGAIN}")
    plain_size(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            return file.read(LARGEST.get(path.suffix, LARGEST_OTHER))
    except OSError as error:
        raise ModelDirectoryError(f"{path}: cannot be read ({error.strerror}); check its permissions.") from None


def is_number(value: Any) -> bool:
    """Whether a value of a JSON file is a number that can be printed and drawn."""
    return isinstance(value, int | float) and -LARGEST_NUMBER <= value <= LARGEST_NUMBER


def is_score(value: Any) -> bool:
    """As `is_number`, or NaN: there was nothing to score."""
    return is_number(value) or value != value


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file."""
    try:
        content = json.loads(read_plain(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelDirectoryError(f"{path}: cannot be read ({error}); {AGAIN}") from None
    if not isinstance(content, dict):
        raise ModelDirectoryError(f"{path}: expected a JSON object; {AGAIN}")
    return content
