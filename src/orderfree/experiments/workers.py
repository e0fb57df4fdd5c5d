"""Cells in parallel, each in its own process with one thread, and the progress of a queue.

A process runs the command that its result file records. Its output goes into a log file beside its run."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..system.files import explained
from ..training.listeners import read_history
from ..training.run import Interrupted
from .cells import Cell, Plan, config_file

PATIENCE = 0.5  # seconds between two checks of the processes
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1  # Linux, sys/prctl.h


@dataclass
class Worker:
    cell: Cell
    log: Path
    process: subprocess.Popen[bytes]


def run_queue(
    cells: Sequence[Cell],
    plan: Plan,
    say: Callable[[str], None],
    workers: int,
    budget_seconds: float | None = None,
    options: Sequence[str] = (),
) -> list[str]:
    """Runs the missing cells in order, in `workers` processes; returns the names of cells that failed.

    SIGINT and SIGTERM are passed on: every process saves its state and ends, and the same queue can be continued."""
    for cell in cells:
        config_file(plan, cell)  # an unknown row is an error before anything is trained
    began = time.monotonic()
    waiting = deque(cell for cell in cells if not plan.result_path(cell).exists())
    say(f"{len(cells) - len(waiting)} of {len(cells)} cells are done, {len(waiting)} wait for {workers} process(es)")
    running: list[Worker] = []
    failed: list[str] = []
    with _passing_on_signals(running) as stopped:
        while waiting or running:
            left = None if budget_seconds is None else budget_seconds - (time.monotonic() - began)
            if stopped or (left is not None and left <= 0):
                waiting.clear()
            while waiting and len(running) < workers:
                running.append(_start(waiting.popleft(), plan, left, options, say))
            time.sleep(PATIENCE)
            for worker in [worker for worker in running if worker.process.poll() is not None]:
                running.remove(worker)
                if not _said_how_it_ended(worker, plan, say):
                    failed.append(str(worker.cell))
    if stopped:
        raise Interrupted("stopped; the states of unfinished cells are saved")
    return failed


def _start(cell: Cell, plan: Plan, left: float | None, options: Sequence[str], say: Callable[[str], None]) -> Worker:
    log = plan.run(cell).with_suffix(".log")
    with explained(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        output = open(log, "ab")  # noqa: SIM115  closed below, after the process has inherited it
    folders = {"--configs": plan.configs, "--results": plan.results, "--work": plan.work, "--data": plan.data}
    words = [*plan.arguments(cell), *options]
    words += [word for name, path in folders.items() if path is not None for word in (name, str(path))]
    words += [] if left is None else ["--budget", f"{left:.0f}s"]
    with output:
        process = subprocess.Popen(
            [sys.executable, "-m", "orderfree", *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C reaches it once, from this process
            preexec_fn=_ending_with_this_process(),
        )
    say(f"{cell}: started as process {process.pid}, see {log}")
    return Worker(cell, log, process)


def _ending_with_this_process() -> Callable[[], Any] | None:
    """A function for new processes that makes them save and end if this process is killed. None: not on Linux."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    return None if prctl is None else lambda: prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def _said_how_it_ended(worker: Worker, plan: Plan, say: Callable[[str], None]) -> bool:
    """Reports how a process ended. False: it failed."""
    path = plan.result_path(worker.cell)
    if path.exists():
        say(f"{worker.cell}: written to {path}")
        return True
    lines = worker.log.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    if worker.process.returncode in (0, 130):
        say(f"{worker.cell}: saved; goes on next time")
        return True
    say(f"{worker.cell}: failed ({lines[-1]}; see {worker.log}); going on with the others")
    return False


@contextmanager
def _passing_on_signals(running: Sequence[Worker]) -> Iterator[list[int]]:
    """Yields the list of signals received."""
    received: list[int] = []

    def pass_on(number: int, frame: Any) -> None:
        received.append(number)
        for worker in running:
            worker.process.send_signal(signal.SIGINT)

    obeyed = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {number: signal.signal(number, pass_on) for number in obeyed}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def progress_of(cell: Cell, plan: Plan) -> dict[str, Any]:
    """The state of a cell: done, begun (with its last validation) or waiting."""
    identity: dict[str, Any] = {"corpus": cell.corpus, "variant": cell.variant, "row": cell.method, "seed": cell.seed}
    if plan.result_path(cell).exists():
        return {**identity, "state": "done", "result": str(plan.result_path(cell))}
    run = plan.run(cell)
    if not run.exists():
        return {**identity, "state": "waiting"}
    history = read_history(run / "history.jsonl")
    if not history:
        return {**identity, "state": "begun"}
    last = history[-1]
    scores = {decoder: round(scores["micro_f1"], 4) for decoder, scores in last["validation"].items()}
    return {**identity, "state": "begun", "update": last["update"], "of": last["total_updates"], "validation": scores}
