"""What the pages say of files, names and figures is true."""

from __future__ import annotations

import importlib.util
import json
import re
import statistics
from pathlib import Path

import pytest
from code_blocks import PAGES, ROOT, page_name

SOURCE = ROOT / "src" / "orderfree"
FILE = re.compile(r"`((?:src|tests|benchmarks|configs|results|docs|scripts)/[\w./+-]+\.(?:py|json|yaml|md|sh))`")
MODULE = re.compile(
    r"`((?:nn|decoding|objectives|metrics|data|training|serve|report|experiments|cli|testing)/[\w/]+\.py)`"
)
NAME = re.compile(r"\borderfree(?:\.[a-z]\w*)+(?:\.[A-Z]\w*)?")
IN_MODULE = re.compile(r"`([a-z_/]+\.py)`, `(\w+)(?:\.(\w+))?`")  # `objectives/ocd.py`, `OCD.step_losses`


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_files_that_are_named_are_there(page: Path) -> None:
    for path in FILE.findall(text(page)):
        assert (ROOT / path).is_file(), path
    for path in MODULE.findall(text(page)):
        assert (SOURCE / path).is_file(), path


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_python_names_are_there(page: Path) -> None:
    for name in NAME.findall(text(page)):
        found, *rest = __import__("orderfree"), *name.split(".")[1:]
        for part in rest:
            if not hasattr(found, part):
                assert importlib.util.find_spec(f"{found.__name__}.{part}") is not None, name
                importlib.import_module(f"{found.__name__}.{part}")
            found = getattr(found, part)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_names_said_to_be_in_a_module_are_in_it(page: Path) -> None:
    for path, name, attribute in IN_MODULE.findall(text(page)):
        module = importlib.import_module("orderfree." + path.removesuffix(".py").replace("/", "."))
        assert hasattr(module, name), f"{path}: {name}"
        assert not attribute or hasattr(getattr(module, name), attribute), f"{path}: {name}.{attribute}"


def test_figures_on_the_page_of_choices_are_those_of_the_result_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import choose_tables

    page = text(choose_tables.PAGE)
    assert page == choose_tables.filled(page), "run `python benchmarks/choose_tables.py`"


README = ROOT / "README.md"
README_ROWS = {  # the beginning of a row: the system in benchmarks/quality/results
    "orderfree `fast`": "fast",
    "orderfree `best`": "best",
    "linear SVM": "svm",
    "LibMultiLabel, one-vs-rest": "libmultilabel-1vsrest",
    "LibMultiLabel, thresholds per label": "libmultilabel-thresholding",
}
README_COLUMNS = [
    (corpus, metric) for corpus in ("reuters", "rcv1-subset") for metric in ("micro_f1", "macro_f1", "subset_accuracy")
]


def measured(system: str, corpus: str, metric: str) -> str:
    files = sorted((ROOT / "benchmarks" / "quality" / "results" / corpus / system).glob("seed*.json"))
    if not files:
        return "–"
    scores = [json.loads(text(path))["parts"]["test"]["scores"][metric] for path in files]
    return f"{statistics.mean(scores):.3f}".lstrip("0")


@pytest.mark.parametrize("name", README_ROWS)
def test_figures_in_the_readme_are_those_of_the_result_files(name: str) -> None:
    (row,) = [line for line in text(README).splitlines() if line.startswith(f"| {name}")]
    cells = [cell.strip() for cell in row.strip("|").split("|")][1:]
    assert cells == [measured(README_ROWS[name], *column) for column in README_COLUMNS]


def test_the_readme_is_short() -> None:
    assert len(text(README).splitlines()) <= 120
