"""Runs the blocks of a page as a reader would type them, fast: commands in this process, trainings of one epoch, a
service on a port of its own."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from code_blocks import ROOT, Block, command_lines
from sklearn.preprocessing import MultiLabelBinarizer

import orderfree
from orderfree import read_examples
from orderfree.cli.main import run as orderfree_command
from orderfree.config import DataConfig

SERVED = "http://127.0.0.1:8000"  # the address pages use; tests have one of their own

QUICK = ("--set", "training.epochs=1", "--set", "training.tensorboard=false")  # the last word on a training
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
MADE = re.compile(r'(?:train [^\n]*--out |save\(")runs/([\w-]+)(?![^\n]*--resume)')


class PageRunner:
    """Runs the blocks of one page in its directory, one after another."""

    def __init__(self, directory: Path, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.directory = directory
        self.names: dict[str, Any] = _python_names(directory)
        self.service: subprocess.Popen[str] | None = None
        self.address = SERVED
        for run in MADE.findall("\n".join(block.text for block in blocks)):  # what the page makes is not there before
            shutil.rmtree(directory / "runs" / run, ignore_errors=True)

    def run_all(self) -> None:
        for block in self.blocks:
            self.run(block)

    def run(self, block: Block) -> None:
        if block.language == "python":
            text = block.text.replace(SERVED, self.address)
            exec(compile(text, block.place, "exec", dont_inherit=True), self.names)
            return
        for line in command_lines(block.text):
            self._command(line.replace(SERVED, self.address), block.place)

    def _command(self, line: str, place: str) -> None:
        words = shlex.split(line, comments=True)
        while re.match(r"[A-Z_]+=", words[0]):  # variables of the environment; tests have their own
            words.pop(0)
        if words[:2] == ["pip", "install"]:
            _can_be_installed(words[2])
            return
        if Path(words[0]).name != "orderfree" or "|" in words:
            done = subprocess.run(["bash", "-c", line], env=_environment(), capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, f"{place}: {line}\n{done.stderr}"
            return
        target = os.devnull
        if words[-2] == ">":
            words, target = words[:-2], words[-1]
        if words[1] == "serve":
            self._serve(words[1:])
            return
        ending = pytest.raises(SystemExit)
        with open(target, "w", encoding="utf-8") as out, contextlib.redirect_stdout(out), ending as ended:
            orderfree_command([*words[1:], *(QUICK if words[1] == "train" else ())])
        assert not ended.value.code, f"{place}: {line}"

    def _serve(self, words: list[str]) -> None:
        self.stop()
        command = [sys.executable, "-m", "orderfree", *words, "--port", "0"]
        self.service = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=_environment()
        )
        assert self.service.stdout is not None
        address = re.search(r"http://\S+", self.service.stdout.readline())
        assert address is not None
        self.address = address[0]

    def stop(self) -> None:
        if self.service is not None:
            self.service.terminate()
            self.service.wait(timeout=60)
            self.service = None


def _can_be_installed(package: str) -> None:
    """Nothing is fetched; a page must name extras that exist, and the wheel of this version."""
    name = re.fullmatch(r"(?:dist/)?orderfree(?P<wheel>-\S+\.whl)?\[(?P<extras>[a-z,]+)\]", package)
    assert name is not None, package
    assert set(name["extras"].split(",")) <= set(EXTRAS)
    assert name["wheel"] in (None, f"-{orderfree.__version__}-py3-none-any.whl")


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path}


def _python_names(directory: Path) -> dict[str, Any]:
    """The names Python blocks take for granted."""
    examples = list(read_examples(directory / "train.jsonl", DataConfig(), labelled=True))[:60]
    labels = [list(example.labels or ()) for example in examples]
    return {
        "__name__": "page",
        "examples": examples,
        "texts": [example.text for example in examples],
        "labels": labels,
        "sets": labels,
        "matrix": MultiLabelBinarizer().fit_transform(labels),
    }
