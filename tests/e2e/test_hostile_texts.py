"""Texts and labels that are programs: for a browser, for a spreadsheet. And texts in every script there is."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from e2e_support import TINY_SPARSE, Ended, call_process, sets

from orderfree.data.readers.checks import cell_labels

SCRIPT = "<script>document.title='owned'</script>"
IMAGE = "<img src=x onerror=\"document.title='owned'\">"
FORMULA = '=HYPERLINK("http://stranger","click")'
LABELS = [SCRIPT, IMAGE, FORMULA, "@SUM(1)", "+1", "-1", "😀", "עברית", "a,b"]
TEXTS = [f"{SCRIPT} red", f"{IMAGE} blue", f"{FORMULA} green", "nul \0 byte", "👩\u200d👧 family", "\u202eשלום"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "train.jsonl"
    rows = [
        {"id": f"={n}", "text": f"{text} {place}", "labels": [LABELS[place], LABELS[n % len(LABELS)]]}
        for n, text in enumerate(TEXTS * 5)
        for place in range(len(LABELS))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model") / "run"
    worked("train", data, "--valid", data, "--out", out, *sets([*TINY_SPARSE, "training.epochs=8"]))
    return out


def worked(*arguments: object) -> Ended:
    return call_process(*arguments).worked()


def test_no_cell_of_a_csv_file_is_a_formula(model: Path, data: Path, tmp_path: Path) -> None:
    worked("predict", model, data, "--out", tmp_path / "out.csv", "--set", "decoding.min_labels=1")
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    labels = {label for row in rows for label in cell_labels(row["labels"], ";")}
    assert any(found.startswith(("=", "@", "+", "-")) for found in labels), "a formula must have been predicted"
    cells = [value for row in rows for key, value in row.items() if key != "log_prob"]
    assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))] == []


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


def assert_harmless(page: str) -> None:
    parser = Elements()
    parser.feed(page)
    assert len(parser.found) > 100, "a page was made"
    tags = [tag for tag, _ in parser.found]
    assert set(tags) & {"img", "iframe", "object", "embed", "base"} == set()
    assert tags.count("script") == 1, "that of the tables"
    assert [name for _, attributes in parser.found for name in attributes if name.startswith("on")] == []


@pytest.fixture(scope="module")
def page(model: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "report.html"
    worked("evaluate", model, data, "--report", out)
    return out


def test_no_label_or_text_is_markup_of_a_report(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("&lt;script&gt;document.title=") > 5
    assert text.count("&lt;img src=x onerror=") > 5
    assert_harmless(text)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs a browser")
def test_nor_does_a_browser_run_it(page: Path, tmp_path: Path) -> None:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]

    def shown(file: Path) -> str:
        words = [*command, "--virtual-time-budget=2000", "--dump-dom", file.as_uri()]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout

    (tmp_path / "bad.html").write_text(f"<!doctype html><title>mine</title><p>{IMAGE}{SCRIPT}", encoding="utf-8")
    assert "<title>owned</title>" in shown(tmp_path / "bad.html"), "the attack works where nobody escapes it"
    seen = shown(page)
    assert "<title>owned</title>" not in seen
    assert_harmless(seen)
