"""Rules of the house that no single module can keep alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orderfree.build import load_config

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "orderfree"
CONFIGS = sorted((SOURCE / "configs").rglob("*.yaml"))
FILES = sorted(SOURCE.rglob("*.py"))
HEAVY = ("torch", "sklearn", "pyarrow", "accelerate", "tokenizers", "fastapi", "uvicorn")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, timeout=120)


def test_import_layers() -> None:
    pytest.importorskip("importlinter")
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    done = run("-c", code)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import orderfree",
        "import orderfree.cli.main",
        "from orderfree.cli.main import app; app(['--help'], standalone_mode=False)",
        "from orderfree.cli.main import app; app(['train', '--help'], standalone_mode=False)",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code: str) -> None:
    done = run("-c", f"{code}\nimport sys\nprint('loaded:', [m for m in {HEAVY!r} if m in sys.modules])")
    assert done.returncode == 0, done.stderr
    assert "loaded: []" in done.stdout


def test_help_lists_the_commands() -> None:
    done = run("-m", "orderfree", "--help")
    assert done.returncode == 0, done.stderr
    for command in ("train", "predict", "evaluate"):
        assert command in done.stdout


def test_importing_the_package_prints_nothing() -> None:
    done = run("-W", "error", "-c", "import orderfree")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


UNSAFE = re.compile(r"\b(import pickle|from pickle|cPickle|torch\.load|torch\.save|joblib|dill|yaml\.load|eval\()")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_runs_code_it_reads(path: Path) -> None:
    text = re.sub(r"\.eval\(", "", path.read_text(encoding="utf-8"))  # Module.eval() is another matter
    assert not UNSAFE.search(text), f"{path.name}: {UNSAFE.search(text)}"
    assert "allow_pickle=True" not in text


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_asks_a_clock_that_can_go_back(path: Path) -> None:
    assert not re.search(r"\btime\.time\(|datetime\.(now|utcnow)\(", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_is_longer_than_a_person_reads(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_function_is_long_or_takes_many_parameters(path: Path) -> None:
    """The signature of a command lists its options, and does not count."""
    command = "cli" in path.parts
    for function in functions(path):
        first = function.body[0].lineno if command else function.lineno
        assert function.end_lineno is not None
        assert function.end_lineno - first < 50, function.name
        parameters = {argument.arg for argument in [*function.args.args, *function.args.kwonlyargs]}
        assert command or len(parameters - {"self", "cls"}) <= 8, function.name


def test_every_test_file_has_a_name_of_its_own() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: "/".join(path.parts[-2:]))
def test_every_config_of_the_project_is_valid(path: Path) -> None:
    load_config(path)


def named_in_the_tree() -> set[str]:
    """Paths in the file tree of CONTRIBUTING.md, relative to the root; a folder ends in `/`."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (tree,) = [
        block for block in re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if SOURCE.name in block
    ]
    paths, parents = set(), [""]
    for line in tree.splitlines():
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        paths.add(parents[depth] + name)
        parents[depth + 1 :] = [parents[depth] + name]
    return paths


def test_every_path_in_the_tree_of_contributing_exists() -> None:
    for path in named_in_the_tree():
        assert (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file(), path


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_is_in_the_tree_of_contributing_itself_or_by_its_folder(path: Path) -> None:
    folders = [f"{folder.relative_to(ROOT)}/" for folder in path.parents if SOURCE in folder.parents]
    assert named_in_the_tree() & {str(path.relative_to(ROOT)), *folders}
