"""The pages of results are what the code makes of the result files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from code_blocks import ROOT

pytest.importorskip("matplotlib")


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import results_pages

    return results_pages


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}


def test_pages_in_docs_are_those_of_the_result_files(pages, tmp_path: Path) -> None:
    from orderfree.experiments.result_files import load_results

    if (pages.PAGES / "data.md").exists():
        (tmp_path / "data.md").touch()
    pages.write_pages(load_results(ROOT / "results"), tmp_path)
    for name, text in texts(tmp_path).items():
        if name != "data.md":
            assert text == (pages.PAGES / name).read_text(encoding="utf-8"), f"{name}: run `make results`"


def git(*arguments: str) -> str | None:
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return answer.stdout if answer.returncode == 0 else None


def test_every_result_names_a_commit_that_is_there_or_says_why_not() -> None:
    from orderfree.experiments.result_files import load_results

    if (git("rev-parse", "--is-shallow-repository") or "true").strip() == "true":
        pytest.skip("the whole history is needed")
    known = set((git("rev-list", "--all") or "").split())
    for result in load_results(ROOT / "results"):
        assert result.commit in known if result.commit else result.commit_note, result.identity


def test_the_same_files_make_the_same_pages(pages, make_result, tmp_path: Path) -> None:
    results = [make_result("ocd", variant="paper"), make_result("seq2seq", variant="paper", value=0.4)]
    for name in ("one", "other"):
        pages.write_pages(results, tmp_path / name)
    assert texts(tmp_path / "one") == texts(tmp_path / "other")


def test_without_any_result_the_pages_say_so(pages, tmp_path: Path) -> None:
    pages.write_pages([], tmp_path)
    made = texts(tmp_path)
    assert "`aapd` is not run yet at the paper's size." in made["aapd.md"]
    assert "**cannot be told** (reuters: not run yet; aapd: not run yet)" in made["README.md"]


def test_a_row_at_the_papers_size_replaces_its_smaller_one(pages, make_result, tmp_path: Path) -> None:
    results = [
        make_result("ocd", variant="paper", ended_by="patience", precision="bfloat16", value=0.123),
        make_result("ocd", value=0.456),
        make_result("seq2seq", value=0.789),
    ]
    pages.write_pages(results, tmp_path)
    page = texts(tmp_path)["reuters.md"]
    assert "0.123" in page
    assert "0.456" not in page
    assert "0.789" in page
    assert "| OCD | 1 | flattened | bfloat16 |" in page


def test_both_definitions_of_the_search_stand_side_by_side(pages, make_result, tmp_path: Path) -> None:
    other = {"beam": {"micro_f1": 0.654}}
    pages.write_pages([make_result("ocd", variant="paper", value=0.321, renormalised=other)], tmp_path)
    page = texts(tmp_path)["reuters.md"]
    assert "| miF1 | miF1 renorm. |" in page
    assert "| 0.321 | 0.654 |" in page
