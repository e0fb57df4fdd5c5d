"""The site is built without a warning, holds every page, and asks nobody on the network for anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from code_blocks import ROOT

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
