"""The paper's corpora, as far as they are available, and a corpus with thousands of labels.

They are not part of the library: each is read from a data folder."""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import DataError
from . import aapd, arxiv_msc, audioset, rcv1, reuters  # noqa: F401  importing them registers their corpora
from .catalogue import CorpusEntry, CorpusInfo, Part, Parts, corpora

__all__ = ["CorpusEntry", "CorpusInfo", "Part", "Parts", "corpora", "data_root", "load_parts"]

VARIABLE = "ORDERFREE_DATA"
DEFAULT = Path("..") / "shared" / "data"
WANTED = "a folder with subfolders such as reuters21578 and aapd; `orderfree data list` says what goes into each"


def data_root(option: Path | None) -> Path:
    """The folder of all corpora: the option, else ORDERFREE_DATA, else ../shared/data if it exists."""
    named = str(option) if option is not None else os.environ.get(VARIABLE)
    if named:
        root = Path(named)
        if not root.is_dir():
            origin = "--data" if option is not None else VARIABLE
            raise DataError(f"there is no such folder, but {origin} names it; expected {WANTED}.", root)
        return root
    if DEFAULT.is_dir():
        return DEFAULT
    raise DataError(f"no corpora are found; name their folder with --data or the variable {VARIABLE}: {WANTED}.")


def load_parts(name: str, root: Path, seed: int) -> Parts:
    """The parts of a corpus, by name; each part is a function that reads it from the beginning."""
    return corpora[name].load(root, seed)
