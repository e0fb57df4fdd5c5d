"""The site is built without a warning, holds every page, and asks nobody on the network for anything."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from code_blocks import ROOT

import orderfree

mkdocs_build = pytest.importorskip("mkdocs.commands.build")
mkdocs_config = pytest.importorskip("mkdocs.config")

LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=[\"']?(?P<address>(?:https?:)?//[^\"' >]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    config = mkdocs_config.load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(directory))
    mkdocs_build.build(config)  # strict: ends with an error where a link leads nowhere
    return directory


def test_every_page_is_in_the_site_and_its_menu(site: Path) -> None:
    menu = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix().replace("README", "index")
        assert (site / place).is_file()
        assert f'href="{place}"' in menu


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not LOADED.findall(page.read_text(encoding="utf-8")), page
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", styles)


def test_the_api_reference_is_made_from_docstrings(site: Path) -> None:
    page = (site / "reference" / "api.html").read_text(encoding="utf-8")
    for name in (
        "inference.Predictor.load",
        "estimator.OrderFreeClassifier.fit",
        "training.run.train",
        "errors.DataError",
    ):
        assert f'id="orderfree.{name}"' in page, name
    headings = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    for name in set(orderfree.__all__) - {"__version__", "Config", "OrderfreeError"}:
        assert f"heading: orderfree.{name}," in headings, name
    assert "Trains a model on files, or on examples" in page


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium; `make browser` installs Debian's")
def test_search_works_from_disk(site: Path, tmp_path: Path) -> None:
    options = "--headless --no-sandbox --disable-gpu --disable-background-networking --virtual-time-budget=20000"
    address = f"{(site / 'index.html').as_uri()}?q=calibration"
    command = [str(CHROMIUM), *options.split(), f"--user-data-dir={tmp_path}", "--dump-dom", address]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r"md-search-result__meta\">(\d+) matching document", page)
    assert found is not None
    assert "reference/metrics.html" in page.split("md-search-result__list")[1]
