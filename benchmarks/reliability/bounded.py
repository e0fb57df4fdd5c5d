"""Cases in child processes that may take so much memory and so much time, and reach no network."""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from orderfree.checkpoint import versions
from orderfree.experiments.origin import code_commit

Case = TypeVar("Case")
WRONG = "WRONG"  # what every outcome that must not be begins with


@dataclass(frozen=True)
class Bounds:
    """For one case."""

    megabytes: int = 1024  # of resident memory, more than before it
    processor_seconds: float = 20.0
    seconds: int = 300  # on a busy machine; who waits for a pipe takes no processor time


def outcomes(cases: Sequence[Case], attempt: Callable[[Case], str], bounds: Bounds) -> list[str]:
    """What `attempt` says of every case. Where one kills its process, that is noted and the next process goes on."""
    found: list[str] = []
    while len(found) < len(cases):
        told, code = _in_child(cases[len(found) :], attempt, bounds)
        found += told
        if code != 0:
            late = code in (-signal.SIGALRM, -signal.SIGPROF)
            found.append(f"{WRONG}: takes too long" if late else f"{WRONG}: crash ({code})")
    return found


def _in_child(cases: Sequence[Case], attempt: Callable[[Case], str], bounds: Bounds) -> tuple[list[str], int]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            for case in cases:
                os.write(writer, (json.dumps(_bounded(case, attempt, bounds)) + "\n").encode())
            os._exit(0)
        finally:  # whatever happens, the child does not go on as if it were its parent
            os._exit(70)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as told:
        found = [json.loads(line) for line in told]
    return found, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _bounded(case: Case, attempt: Callable[[Case], str], bounds: Bounds) -> str:
    asked: list[str] = []

    def refuse(*address: Any, **options: Any) -> Any:
        asked.append(str(address)[:100])
        raise OSError("there is no network here")

    socket.getaddrinfo = socket.create_connection = refuse
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the highest resident memory is that of now again
    before, allowed = _kilobytes("VmHWM"), bounds.megabytes << 10
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, ((_kilobytes("VmData") + 4 * allowed) << 10, hard))  # it must not swap
    signal.alarm(bounds.seconds)
    signal.setitimer(signal.ITIMER_PROF, bounds.processor_seconds)
    told = attempt(case)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.alarm(0)
    taken = (_kilobytes("VmHWM") - before) >> 10
    if asked:
        return f"{WRONG}: asked the network for {asked[0]}"
    return f"{WRONG}: took {taken:,} MB ({told})" if taken > bounds.megabytes else told


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def run_fuzzer(description: str, out: Path, cases: int, fuzz: Callable[[int, int], dict[str, Any]]) -> None:
    """The command line of a fuzzer: writes what `fuzz(cases, seed)` returns, and ends with 1 if a case was wrong."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=out)
    arguments = parser.parse_args()
    commit = code_commit(Path(__file__), allow_dirty=True)
    report = fuzz(arguments.cases, arguments.seed)
    report |= {"seed": arguments.seed, "commit": commit, "versions": versions()}
    arguments.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=2))
    sys.exit(1 if report["wrong"] else 0)
