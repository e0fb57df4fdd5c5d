"""Run by the Python of the clean environment: imports the package once, then runs each command in a fork of its own.

Reads one JSON list of arguments on each line; answers with the exit code, what was printed, and the errors."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback

import orderfree.inference
import orderfree.training.run  # noqa: F401  what takes seconds to import
from orderfree.cli.main import run


def ended(words: list[str]) -> int:
    """In the fork: `-c` and a program, or the arguments of `orderfree`."""
    try:
        if words[0] == "-c":
            exec(compile(words[1], "<page>", "exec"), {"__name__": "__main__"})
        else:
            run(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


for line in sys.stdin:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        if not (child := os.fork()):
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            code = ended(json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        print(json.dumps([code, out.read(), err.read()]), flush=True)
