"""Sounds: one file, or a folder of them with a table of tags. Features are those of `data/logmel` or `data/vggish`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...config import DataConfig
from ...errors import DataError, MissingLibraryError
from ...types import Example
from ..audio.logmel import FrontEnd
from .checks import cell_labels
from .source import STDIN, Source, readers

if TYPE_CHECKING:
    from ..audio.vggish import VGGish

SUFFIXES = (".wav", ".flac", ".ogg", ".aiff", ".aif")
TAGS = "tags.csv"  # file,labels
RATES = range(1000, 768_001)  # samples a second; a file that says 1 would be stretched ten thousand times
LONGEST_SECONDS = 3600
MOST_SAMPLES = 1 << 28  # of all channels


@readers.register("sounds")
def read_sounds(source: Source, options: DataConfig) -> Iterator[Example]:
    """A sound, or a folder: with labels those its tags.csv names, without all sounds in it, by name."""
    front_end = _front_end(options)
    for path, own_id, labels in _listed(source, options):
        if (sound := source.unless_bad(options.skip_bad, read_sound, path)) is not None:
            yield Example(own_id, features=front_end.features(*sound), labels=labels)


def _front_end(options: DataConfig) -> FrontEnd | VGGish:
    if options.vggish is None:
        return FrontEnd(options.sample_rate, options.mel_bands, options.sound_window)
    from ..audio.vggish import VGGish  # only here: it imports torch

    return VGGish(Path(options.vggish), None if options.vggish_pca is None else Path(options.vggish_pca))


def read_sound(path: Path) -> tuple[np.ndarray, int]:
    """The mean of all channels (n,), and how many samples are a second."""
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: it is there, but not the library it stands on
        raise MissingLibraryError("sounds need the extra `audio`: pip install 'orderfree[audio]'.") from None
    if not path.is_file():
        raise DataError("there is no such file; check the path, or the table that names it.", path)
    try:
        _check_size(soundfile.info(path), path)
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError) as error:
        reason = str(error).rpartition(": ")[2].rstrip(".")
        raise DataError(f"is not a sound that can be read ({reason}); give WAV, FLAC or Ogg.", path) from None
    mono = samples.mean(axis=1)  # (n,)
    if not len(mono):
        raise DataError("holds no samples; leave it out.", path)
    if not np.isfinite(mono).all():
        raise DataError("holds samples that are NaN or infinite; record or convert it anew.", path)
    if not mono.any():
        raise DataError("is silent, all samples are 0; leave it out.", path)
    return mono, int(rate)


def _check_size(info: Any, path: Path) -> None:
    """Known from the file's head, before memory is taken for it."""
    if info.samplerate not in RATES:
        raise DataError(
            f"says that a second has {info.samplerate:,} samples, expected {RATES.start:,} … {RATES.stop - 1:,}; "
            "convert it anew.",
            path,
        )
    if info.frames > LONGEST_SECONDS * info.samplerate or info.frames * info.channels > MOST_SAMPLES:
        raise DataError(
            f"is {info.frames / info.samplerate:,.0f} seconds of {info.channels} channels, expected at most "
            f"{LONGEST_SECONDS:,} seconds and {MOST_SAMPLES:,} samples; cut it into pieces.",
            path,
        )


def _listed(source: Source, options: DataConfig) -> Iterator[tuple[Path, str, tuple[str, ...] | None]]:
    """Path, id and labels of every sound."""
    if source.path == STDIN:
        raise source.error("sounds cannot be read from standard input; give a file or a folder of files.")
    path = Path(source.path)
    if source.labelled:
        if not path.is_dir():
            raise source.error(f"is one sound and has no labels; give a folder of sounds with a table {TAGS}.")
        yield from tagged_files(path, source, options)
    elif path.is_dir():
        for file in sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES):
            yield file, file.relative_to(path).as_posix(), None
    else:
        yield path, path.name, None


def tagged_files(folder: Path, source: Source, options: DataConfig) -> Iterator[tuple[Path, str, tuple[str, ...]]]:
    """Path, id and labels of every file that the table of tags names."""
    table = Source(str(folder / TAGS), labelled=True)
    source.labels_path = table.path
    rows = csv.reader(table.lines(keep_ends=True))
    header = next(rows, [])
    if "file" not in header or options.labels_field not in header:
        raise table.error(f"has the columns {', '.join(header) or 'none'}, expected file and {options.labels_field}.")
    for row in rows:
        source.line = table.line  # for what is wrong with its labels
        if not row:
            continue
        if len(row) != len(header):
            raise table.error(f"has {len(row)} cells, expected {len(header)}; quote cells that hold a comma.")
        cells = dict(zip(header, row, strict=True))
        file = folder / cells["file"]
        if not file.resolve().is_relative_to(folder.resolve()):
            raise table.error(f"names {cells['file']!r}, which is not inside {folder}; move it there.")
        yield file, cells["file"], cell_labels(cells[options.labels_field], options.label_separator, source.counts)
    source.line = None
