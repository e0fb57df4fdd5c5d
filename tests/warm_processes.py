"""Processes that have imported everything before they start.

A command of `orderfree` takes two seconds to import PyTorch and more. Each process here is forked from one that has
done so already, and is a process like any other from there on: with its own memory, descriptors and environment, to
kill and to wait for. How an interpreter starts is not tested by it; tests of that start one of their own.
"""

from __future__ import annotations

import functools
import io
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest import mock

IMPORTED = ["orderfree.cli.main", "orderfree.training.run", "orderfree.report.examples", "orderfree.serve.app"]


@functools.cache
def _context() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with mock.patch.dict(os.environ, {"OMP_NUM_THREADS": "1"}):  # it is read when PyTorch is imported
        forkserver.ensure_running()
    return context


def start(
    words: Sequence[object],
    environment: dict[str, str],
    out: str | Path = os.devnull,
    err: str | Path = os.devnull,
    program: str | None = None,
    prepare: Callable[[], None] | None = None,
) -> ForkServerProcess:
    """Runs `orderfree WORDS`, or the program with these words in `sys.argv`; `prepare` is called first."""
    arguments = (list(map(str, words)), environment, os.getcwd(), str(out), str(err), program, prepare)
    process = _context().Process(target=_run, args=arguments)
    process.start()
    return process


def _run(
    words: list[str],
    environment: dict[str, str],
    directory: str,
    out: str,
    err: str,
    program: str | None,
    prepare: Callable[[], None] | None,
) -> None:
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate((os.devnull, out, err)):
        opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _written(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _written(2)  # type: ignore[misc]
    sys.argv = ["orderfree", *words]
    if prepare is not None:
        prepare()
    if program is not None:
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
        return
    from orderfree.cli.main import run

    run(words)


def _written(number: int) -> io.TextIOWrapper:
    opened = os.fdopen(number, "w", encoding="utf-8", closefd=False)
    opened.reconfigure(line_buffering=number == 2)
    return opened
