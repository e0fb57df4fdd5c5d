"""What the end-to-end tests share: tiny settings, how a command ended, and running one as a user does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warm_processes import start

PATIENCE = 400  # seconds, on a machine that has much else to do
TINY = [
    *("training.tensorboard=false", "training.epochs=2", "training.batch_size=32"),
    *("model.decoder_hidden=16", "model.label_embedding=8", "model.br_hidden=16"),
]
TINY_SPARSE = [*TINY, "model.encoder=sparse", "model.encoder_options.hidden=16"]


def sets(settings: list[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def environment() -> dict[str, str]:
    """One thread, and the commands of this environment first on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def worked(self) -> Ended:
        assert self.code == 0, self.err
        assert "Traceback" not in self.err
        return self

    def refused(self, *parts: object, code: int = 2) -> str:
        """The one sentence of a refusal, which holds all `parts`."""
        assert self.code == code, (self.code, self.err)
        assert "Traceback" not in self.err
        assert self.err.count("orderfree: ") == 1, self.err
        message = self.err[self.err.index("orderfree: ") :].strip()
        for part in parts:
            assert str(part) in message, (part, message)
        assert message.endswith((".", "?")), message
        return message

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Toy:
    """Files of the toy corpus: 200 examples to train on."""

    train: Path
    valid: Path
    test: Path
    new: Path

    def lines(self) -> list[str]:
        return self.train.read_text(encoding="utf-8").splitlines()


Cli = Callable[..., Ended]


def call_new_python(*arguments: object, **options: Any) -> Ended:
    """In a Python that has just been started: as a user does, and 20 times as slow as `call_process`."""
    command = [sys.executable, "-m", "orderfree", *map(str, arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, **options)
    return Ended(done.returncode, done.stdout, done.stderr)


def call_process(*arguments: object, program: str | None = None, prepare: Callable[[], None] | None = None) -> Ended:
    """In a process of its own; `program`: what it runs in place of the command line, `prepare`: what it calls first."""
    with tempfile.TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        process = start(arguments, environment(), out, err, program, prepare)
        process.join(PATIENCE)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"{arguments}: still running after {PATIENCE} seconds")
        return Ended(process.exitcode, *(path.read_text(encoding="utf-8") for path in (out, err)))


def files_below(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))
