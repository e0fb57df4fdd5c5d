"""One toy corpus and one small model for all end-to-end tests, and two ways to run a command: in this process (fast,
for the many bad inputs) and in a process of its own (as a user does)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_support import TINY_SPARSE, Cli, Ended, Toy, call_process, sets

from orderfree.cli.main import run
from orderfree.config import DataConfig
from orderfree.data.writers import write_examples
from orderfree.testing.toy import toy_corpus, toy_texts


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process."""

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def process() -> Cli:
    """Runs a command in a process of its own."""
    return call_process


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    directory = tmp_path_factory.mktemp("toy")
    corpus = toy_corpus(seed=1, train=200, valid=40, test=60)
    files = Toy(*(directory / f"{part}.jsonl" for part in ("train", "valid", "test", "new")))
    parts = (corpus.train, corpus.valid, corpus.test, toy_texts())
    for path, examples in zip((files.train, files.valid, files.test, files.new), parts, strict=True):
        write_examples(examples, path, "jsonl", DataConfig())
    return files


@pytest.fixture(scope="session")
def trained(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The training of the shared model; its directory is `out` of the JSON it prints."""
    out = tmp_path_factory.mktemp("shared") / "run"
    return call_process("train", toy.train, "--valid", toy.valid, "--out", out, "--json", *sets(TINY_SPARSE)).worked()


@pytest.fixture(scope="session")
def model(trained: Ended) -> Path:
    """The shared model; tests that change it take `own_model`."""
    return Path(json.loads(trained.out)["out"])


@pytest.fixture
def own_model(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """For root no file is unreadable and no directory read-only: be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
