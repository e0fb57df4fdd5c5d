"""Every code block of the README and of docs/ is run, read, or says why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from code_blocks import NOT_RUN, PAGES, READ, ROOT, RUN, SHOWN, Block, blocks_of, page_name

from orderfree.build import complete_config
from orderfree.config import Config

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
README = ROOT / "README.md"  # its commands are run in a clean environment, by test_readme.py
WITH_CODE = [page for page in PAGES if page != README and any(block.runs for block in blocks_of(page))]


@pytest.mark.parametrize("page", WITH_CODE, ids=page_name)
def test_the_code_of_a_page_runs(page: Path, page_runner: Callable[[list[Block]], None]) -> None:
    page_runner([block for block in blocks_of(page) if block.runs])


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.source is not None], ids=lambda block: block.place)
def test_a_quotation_stands_in_the_source(block: Block) -> None:
    assert block.source is not None
    source = [line.strip() for line in (ROOT / block.source).read_text(encoding="utf-8").splitlines()]
    quoted = [line.strip() for line in block.text.splitlines()]
    assert any(source[at : at + len(quoted)] == quoted for at in range(len(source))), block.place


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language in READ], ids=lambda block: block.place)
def test_data_on_a_page_can_be_read(block: Block) -> None:
    if block.language == "json":
        for line in block.text.splitlines():
            json.loads(line)
        return
    content = yaml.safe_load(block.text)
    if set(content) <= set(Config.model_fields):
        complete_config(content, block.place)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_every_block_says_what_it_is(block: Block) -> None:
    assert block.language in (*RUN, *READ, *SHOWN), f"{block.place}: say ```bash, ```python, … or ```text"


def test_what_is_not_run_is_run_nowhere_and_says_why() -> None:
    """The list of blocks that are not run, for `pytest -s`; markers that mark nothing are mistakes."""
    skipped = [block for block in BLOCKS if block.reason is not None]
    for block in skipped:
        print(f"{block.place}: {block.reason}")
        assert block.language in RUN, f"{block.place}: only what could be run needs a reason"
    markers = sum(bool(NOT_RUN.search(line)) for page in PAGES for line in page.read_text("utf-8").splitlines())
    assert markers == len(skipped)
    assert len(skipped) < len([block for block in BLOCKS if block.language in RUN]) / 3
