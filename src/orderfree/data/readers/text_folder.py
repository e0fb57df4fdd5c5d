"""A folder of text files (.txt). Labels stand in a table `tags.csv` in it (columns `file` and `labels`), or the name of
the subfolder a text lies in is its label."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...config import DataConfig
from ...errors import DataError
from ...types import Example
from .encodings import recognised_encoding
from .sounds import TAGS, tagged_files
from .source import STDIN, Source, readers

SUFFIX = ".txt"
LARGEST_TEXT = 1 << 25  # bytes


@readers.register("texts")
def read_texts(source: Source, options: DataConfig) -> Iterator[Example]:
    """With labels those the table names, or all in subfolders; without labels all text files, by name."""
    if source.path == STDIN or not Path(source.path).is_dir():
        raise source.error(f"is no folder; expected one with {SUFFIX} files.")
    for file, own_id, labels in _listed(Path(source.path), source, options):
        text = source.unless_bad(options.skip_bad, _text, file, options.encoding)
        if text is not None:
            yield Example(own_id, text=text, labels=labels)


def _listed(folder: Path, source: Source, options: DataConfig) -> Iterator[tuple[Path, str, tuple[str, ...] | None]]:
    """Path, id and labels of every text."""
    if source.labelled and (folder / TAGS).exists():
        yield from tagged_files(folder, source, options)
        return
    for file in sorted(folder.rglob(f"*{SUFFIX}")):
        if not file.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"leads outside {folder}; move the file there.", file)
        inside = file.relative_to(folder)
        if source.labelled and len(inside.parts) < 2:
            raise DataError(
                f"has no label; expected it in a subfolder whose name is the label, or a table {TAGS} in {folder} with "
                "the columns file and labels.",
                file,
            )
        yield file, inside.as_posix(), (inside.parts[0],) if source.labelled else None


def _text(file: Path, encoding: str | None) -> str:
    try:
        if (size := file.stat().st_size) > LARGEST_TEXT:
            raise DataError(f"holds {size:,} bytes, expected at most {LARGEST_TEXT:,}; cut it into pieces.", file)
        raw = file.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}); check the path and its permissions.", file) from None
    encoding = encoding or recognised_encoding(raw, maybe_western=True)
    try:
        return raw.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except (UnicodeDecodeError, LookupError):
        raise DataError(
            f"is not {encoding} text; convert it to UTF-8, or name its encoding with --set data.encoding=….", file
        ) from None
