"""Every command of the README, in the order they stand, from the built wheel in a new virtual environment.

The libraries that the wheel needs are those already installed: nothing is fetched. One process of the clean environment
imports the package and forks for every command, because importing torch ten times takes longer than the commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from code_blocks import ROOT, Block, blocks_of, command_lines
from page_files import write_news
from page_runner import QUICK

SOURCES = ("src", "pyproject.toml", "README.md", "LICENSE")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


@dataclass
class Shell:
    """Types the commands of a page; a training has one epoch and few examples, a service a free port."""

    directory: Path
    environment: dict[str, str]
    python: subprocess.Popen[str]
    services: list[subprocess.Popen[str]] = field(default_factory=list)
    address: str = ""

    def run(self, line: str) -> str:
        line = ADDRESS.sub(self.address, line) if self.address else line
        words = shlex.split(line, comments=True)
        if words[:2] == ["orderfree", "serve"]:
            return self._serve(words)
        if words[0] == "orderfree":
            said = self.in_python([*words[1:], *(QUICK if words[1] == "train" else ())])
        else:
            command = ["bash", "-c", line]
            done = subprocess.run(
                command, cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=300
            )
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            said = done.stdout
        if words[:2] == ["orderfree", "toy"]:
            for path in self.directory.rglob("*.jsonl"):
                _shorten(path)
        return said

    def in_python(self, words: list[str]) -> str:
        """What `orderfree` with these arguments prints, or Python with `-c` and a program."""
        assert self.python.stdin is not None
        assert self.python.stdout is not None
        print(json.dumps(words), file=self.python.stdin, flush=True)
        code, said, errors = json.loads(self.python.stdout.readline())
        assert code == 0, f"{shlex.join(words)}\n{errors}"
        return str(said)

    def _serve(self, words: list[str]) -> str:
        command = [*words, "--port", "0"]
        service = subprocess.Popen(
            command,
            executable=shutil.which(words[0], path=self.environment["PATH"]),
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.services.append(service)
        assert service.stdout is not None
        said = service.stdout.readline()
        found = ADDRESS.search(said)
        assert found is not None, said
        self.address = found[0]
        return said


def _shorten(path: Path, most: int = 200) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:most]), encoding="utf-8")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("readme")
    environment = _clean_environment(directory)
    work = directory / "work"
    work.mkdir()
    write_news(work)
    python = subprocess.Popen(
        [str(directory / "clean" / "bin" / "python"), str(Path(__file__).with_name("forking_python.py"))],
        cwd=work,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    made = Shell(work, environment, python)
    yield made
    for service in (python, *made.services):
        service.terminate()
        service.wait(timeout=60)


def _clean_environment(directory: Path) -> dict[str, str]:
    """A virtual environment with the wheel of a copy of the sources; other packages are found where they are."""
    copy = directory / "sources"
    for name in SOURCES:
        path = ROOT / name
        shutil.copytree(path, copy / name) if path.is_dir() else shutil.copy(path, copy / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index"]
    wheels = directory / "dist"
    built = [*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", str(wheels), str(copy)]
    subprocess.run(built, check=True, capture_output=True)
    (wheel,) = wheels.iterdir()
    assert wheel.name in (ROOT / "README.md").read_text(encoding="utf-8")
    clean = directory / "clean"
    venv.create(clean)
    subprocess.run([*pip, "--python", str(clean / "bin" / "python"), "install", *offline, str(wheel)], check=True)
    (packages,) = clean.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "PATH": f"{clean / 'bin'}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}


def test_the_package_is_the_one_of_the_wheel(shell: Shell) -> None:
    where = shell.in_python(["-c", "import orderfree; print(orderfree.__file__)"])
    assert "clean" in Path(where.strip()).parts
    assert shell.run("command -v orderfree").strip() == str(shell.directory.parent / "clean" / "bin" / "orderfree")
    assert shell.run("command orderfree --version").startswith("orderfree ")


def test_every_command_of_the_readme_works_in_order(shell: Shell) -> None:
    blocks = [block for block in blocks_of(ROOT / "README.md") if block.runs]
    assert [block.language for block in blocks] == ["bash", "bash", "python"]
    for block in blocks:
        _run(shell, block)
    assert (shell.directory / "report.html").is_file()
    tagged = (shell.directory / "tagged.csv").read_text(encoding="utf-8").splitlines()
    assert len(tagged) == 41


def _run(shell: Shell, block: Block) -> None:
    if block.language == "python":
        assert shell.in_python(["-c", block.text]).strip()
        return
    for line in command_lines(block.text):
        if not line.startswith("pip install"):  # done, offline
            shell.run(line)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_two_commands_of_a_clone_are_targets() -> None:
    block = next(block for block in blocks_of(ROOT / "README.md") if block.text.startswith("make "))
    for line in command_lines(block.text):
        words = shlex.split(line, comments=True)
        steps = subprocess.run(
            [words[0], "-n", *words[1:]], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
        assert {"demo": "orderfree demo", "test": "pytest"}[words[1]] in steps
