"""The commit of a result is there and clean, or the run is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orderfree.errors import OrderfreeError
from orderfree.experiments.origin import code_commit


def git(folder: Path, *arguments: str) -> str:
    names = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    package = tmp_path / "src"
    (tmp_path / "configs").mkdir()
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "configs" / "ocd.yaml").write_text("seed: 1\n", encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def test_a_clean_checkout_names_its_commit(checkout: Path) -> None:
    (checkout / "results").mkdir()
    (checkout / "results" / "new.json").write_text("{}", encoding="utf-8")  # what runs write does not matter
    commit = code_commit(checkout / "configs", package=checkout / "src")
    assert commit == git(checkout, "rev-parse", "HEAD").strip()


@pytest.mark.parametrize("name", ["src/__init__.py", "src/new.py", "configs/ocd.yaml"])
def test_changes_that_are_not_committed_are_refused_or_marked(checkout: Path, name: str) -> None:
    (checkout / name).write_text("changed: 1\n", encoding="utf-8")
    with pytest.raises(OrderfreeError, match=rf"{name}: has changes that are not committed.*--allow-dirty"):
        code_commit(checkout / "configs", package=checkout / "src")
    commit = code_commit(checkout / "configs", allow_dirty=True, package=checkout / "src")
    assert commit == git(checkout, "rev-parse", "HEAD").strip() + "-dirty"


def test_code_outside_of_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OrderfreeError, match="is not a git checkout"):
        code_commit(tmp_path, package=tmp_path)
    assert code_commit(tmp_path, allow_dirty=True, package=tmp_path) == ""


def test_an_environment_inside_another_checkout_is_not_that_checkout(checkout: Path) -> None:
    installed = checkout / ".venv" / "orderfree"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("", encoding="utf-8")
    with pytest.raises(OrderfreeError, match="is not a git checkout"):
        code_commit(checkout / "configs", package=installed)
