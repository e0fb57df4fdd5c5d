"""The code blocks of the README and of the pages under docs/, and what becomes of each.

A fence says its language. `bash` and `python` blocks are run, page by page and from top to bottom, unless the line
before the fence says why not:

    <!-- not run: takes two hours -->
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("bash", "python")
READ = ("json", "yaml")
SHOWN = ("csv", "text")
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>\S.*) -->")


@dataclass(frozen=True)
class Block:
    page: str  # path below the root
    line: int  # of the opening fence, counted from 1
    language: str
    text: str
    reason: str | None  # why it is not run

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    found, opened = [], None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = number
            continue
        before = NOT_RUN.fullmatch(lines[opened - 1]) if opened else None
        text = "\n".join(lines[opened + 1 : number])
        reason = before["reason"] if before else None
        found.append(Block(page_name(page), opened + 1, lines[opened].removeprefix("```"), text, reason))
        opened = None
    assert opened is None, f"{page_name(page)}: the code block of line {opened} has no end"
    return found


def command_lines(text: str) -> list[str]:
    """The commands of a block, those that go on behind a backslash in one piece."""
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
