"""Errors a user can cause. Each is one sentence: what is wrong, where, what was expected, what to do."""

from __future__ import annotations

import difflib
from pathlib import Path


class OrderfreeError(Exception):
    """Base of all errors shown to the user without a traceback. `exit_code` is what the command line ends with."""

    exit_code = 2


class DataError(OrderfreeError):
    """Something in an input file: names the file and, where there is one, the line (counted from 1)."""

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None) -> None:
        place = "" if path is None else f"{path}: " if line is None else f"{path}, line {line:,}: "
        super().__init__(place + message)


class ConfigError(OrderfreeError):
    """One or more problems of a config, all of them in one message."""


class MissingLibraryError(OrderfreeError):
    """An extra that was not installed."""


class ModelDirectoryError(OrderfreeError):
    """A model or run directory that is missing, damaged, unfinished or made for something else."""


class TrainingError(OrderfreeError):
    """Training cannot go on (non-finite loss, disk full); the last good state is kept."""

    exit_code = 1


def out_of_memory(error: BaseException) -> bool:
    """Whether this is what Python, torch on a CPU or torch on a GPU raise when there is no memory left."""
    told = str(error)
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("allocate memory" in told or "out of memory" in told)
    )


def nearest(name: str, known: list[str]) -> str:
    """' Did you mean …?' or nothing."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""
