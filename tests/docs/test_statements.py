"""What the pages say of files, names and figures is true."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from code_blocks import PAGES, ROOT, page_name

from orderfree.system.plugins import GROUP

SOURCE = ROOT / "src" / "orderfree"
FILE = re.compile(r"`((?:src|tests|benchmarks|configs|results|docs|scripts)/[\w./+-]+\.(?:py|json|yaml|md|sh))`")
MODULE = re.compile(
    r"`((?:nn|decoding|decisions|objectives|metrics|scoring|promises|system|tools|data|training|serve|report|experiments|cli|testing)/[\w/]+\.py)`"
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
    for name in set(NAME.findall(text(page))) - {GROUP}:
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


def readme_table(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import readme_table

    return readme_table


def test_figures_in_the_readme_are_those_of_the_result_files(monkeypatch: pytest.MonkeyPatch) -> None:
    page = text(README)
    assert page == readme_table(monkeypatch).filled(page), "run `python benchmarks/readme_table.py`"


def test_a_corpus_has_a_column_as_soon_as_a_system_is_measured_on_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for corpus, system, seed, score in (("reuters", "svm", 1, 0.5), ("aapd", "fast", 1, 0.6), ("aapd", "fast", 2, 0.7)):
        path = tmp_path / corpus / system / f"seed{seed}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        scores = {"micro_f1": score, "macro_f1": 0.25, "subset_accuracy": 1.0}
        path.write_text(json.dumps({"parts": {"test": {"scores": scores}}}), encoding="utf-8")
    header, _, ours, svm = readme_table(monkeypatch).table(tmp_path)
    assert header == "| system | Reuters | AAPD |"
    assert ours == "| orderfree `fast` (default) | – | .650 · .250 · 1.000 |"
    assert svm == "| linear SVM on tf-idf | .500 · .250 · 1.000 | – |"


def test_the_readme_is_short() -> None:
    assert len(text(README).splitlines()) <= 120
