"""What stands in the generated pages is what the code says; what other pages say of the code is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from orderfree.config import Config, Section
from orderfree.nn.encoders import encoders
from orderfree.objectives import objectives
from reference_pages import pages

PAGES = pages()
OPTIONS = {f"{name}": registry[name].Options for registry in (encoders, objectives) for name in registry}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_committed_page_is_what_the_code_says(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path], "run `python scripts/reference_pages.py`"


@pytest.mark.parametrize("section", [Config, *OPTIONS.values()], ids=lambda section: section.__name__)
def test_every_key_says_what_it_means(section: type[Section]) -> None:
    for name, info in section.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            test_every_key_says_what_it_means(inner)
        else:
            assert info.description, name
