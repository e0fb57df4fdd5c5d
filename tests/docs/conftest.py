"""Where the code blocks of a page are run: a directory with the files pages speak of, and small presets."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from code_blocks import Block
from page_files import make_files, small_presets
from page_runner import PageRunner

import orderfree.build
import orderfree.cli.demo
from orderfree.data.readers import readers
from orderfree.decoding.search import searches
from orderfree.nn.encoders import encoders
from orderfree.objectives import objectives
from orderfree.testing.toy import toy_corpus


@pytest.fixture(scope="session")
def presets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_presets(orderfree.build.PRESETS, tmp_path_factory.mktemp("presets") / "small")


@pytest.fixture
def _small(presets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands as on the pages, but with small networks and a small toy corpus."""
    monkeypatch.setattr(orderfree.build, "PRESETS", presets)
    monkeypatch.setattr(orderfree.cli.demo, "toy_corpus", functools.partial(toy_corpus, train=100, valid=20, test=20))
    for registry in (encoders, objectives, readers, searches):  # what a page registers is gone afterwards
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))  # type: ignore[attr-defined]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def page_files(presets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orderfree.build, "PRESETS", presets)
        make_files(directory)
    return directory


@pytest.fixture
def page_runner(
    page_files: Path, tmp_path: Path, _small: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[list[Block]], None]]:
    """Runs blocks in a directory of their own."""
    directory = tmp_path / "page"
    shutil.copytree(page_files, directory)
    monkeypatch.chdir(directory)
    runners = []

    def run(blocks: list[Block]) -> None:
        runners.append(PageRunner(directory, blocks))
        runners[-1].run_all()

    yield run
    for runner in runners:
        runner.stop()
