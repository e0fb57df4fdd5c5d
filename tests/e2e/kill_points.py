"""Kills a training at every single moment at which it changes the disk, resumes it, and compares.

    python kill_points.py TRAIN DIRECTORY STRIDE SETTING...

A process that has everything imported forks one child per training, so that hundreds of runs take seconds each. The
moments are the calls that sync, move or remove a file. Prints one JSON object: how many moments there were, how many
were tried, and what went wrong at which.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from orderfree.cli.main import run

MOMENTS = ("fsync", "rename", "replace", "unlink", "rmdir")
NOT_FINISHED = {"no unfinished run to resume"}


def watched(kill_at: int | None, count_file: Path | None) -> None:
    """From now on, the `kill_at`-th change of the disk is not made: the process is gone."""
    seen = 0

    def wrap(name: str) -> None:
        original = getattr(os, name)

        def counted(*arguments: object, **options: object) -> object:
            nonlocal seen
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if count_file is not None:
                count_file.write_text(str(seen), encoding="utf-8")
            return original(*arguments, **options)

        setattr(os, name, counted)

    for name in MOMENTS:
        wrap(name)


def train(arguments: list[str], log: Path, kill_at: int | None = None, count_file: Path | None = None) -> int:
    """The exit code of a training in a child; minus the signal where it was killed."""
    child = os.fork()
    if child == 0:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        watched(kill_at, count_file)
        try:
            run(["train", *arguments])
        except SystemExit as ended:
            os._exit(int(ended.code or 0))
        finally:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def files(out: Path) -> dict[str, bytes | list[dict[str, object]]]:
    """What must be the same: every byte, except for the seconds in the history."""
    found: dict[str, bytes | list[dict[str, object]]] = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if name == "history.jsonl":
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            found[name] = [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
        else:
            found[name] = path.read_bytes() if path.is_file() else b""
    return found


def problem_at(moment: int, base: list[str], place: Path, expected: dict[str, object]) -> str | None:
    out, log = place / f"at-{moment}", place / f"at-{moment}.log"
    arguments = [*base, "--out", str(out)]
    if train(arguments, log, kill_at=moment) != -signal.SIGKILL:
        return "was not killed: " + log.read_text(encoding="utf-8")[-500:]
    code = train([*arguments, "--resume"], log)
    said = log.read_text(encoding="utf-8")
    if code == 2 and any(reason in said for reason in NOT_FINISHED):  # killed before there was anything to go on with
        code = train(arguments, log)
    elif code == 2 and "this run is finished" in said:  # killed while it tidied up
        code = 0
    if code != 0:
        return f"exit code {code}: " + log.read_text(encoding="utf-8")[-500:]
    found = files(out)
    differing = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    shutil.rmtree(out)
    return f"differs in {', '.join(differing)}" if differing else None


def main() -> None:
    data, directory, stride, *settings = sys.argv[1:]
    place = Path(directory)
    base = [data, *settings]
    with suppress(SystemExit), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        run(["train", *base, "--out", str(place / "first")])  # so that everything is imported before the first fork
    count_file = place / "count"
    code = train([*base, "--out", str(place / "straight")], place / "straight.log", count_file=count_file)
    assert code == 0, (place / "straight.log").read_text(encoding="utf-8")
    expected = dict(files(place / "straight"))
    total = int(count_file.read_text(encoding="utf-8"))
    tried = range(1, total + 1, int(stride))
    problems = {moment: problem_at(moment, base, place, expected) for moment in tried}
    found = {moment: problem for moment, problem in problems.items() if problem}
    print(json.dumps({"moments": total, "tried": len(tried), "problems": found}))


if __name__ == "__main__":
    main()
