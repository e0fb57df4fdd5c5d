"""The code blocks of README.md, CONTRIBUTING.md and the pages under docs/.

A fence says its language. `bash` and `python` blocks are run, page by page and from top to bottom, unless the line
before the fence says why not, or that it is a quotation:

    <!-- not run: takes two hours -->
    <!-- from: src/orderfree/objectives/ocd.py -->
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("bash", "python")
READ = ("json", "yaml")
SHOWN = ("csv", "text")
QUOTED = re.compile(r"<!-- from: (?P<path>\S+) -->")
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>\S.*) -->")


@dataclass(frozen=True)
class Block:
    page: str  # path below the root
    line: int  # of the opening fence, counted from 1
    language: str
    text: str
    reason: str | None  # why it is not run
    source: str | None  # the file it is quoted from

    @property
    def runs(self) -> bool:
        return self.language in RUN and self.reason is None and self.source is None

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
        before = lines[opened - 1] if opened else ""
        marked, quoted = NOT_RUN.fullmatch(before), QUOTED.fullmatch(before)
        found.append(
            Block(
                page=page_name(page),
                line=opened + 1,
                language=lines[opened].removeprefix("```"),
                text="\n".join(lines[opened + 1 : number]),
                reason=marked["reason"] if marked else None,
                source=quoted["path"] if quoted else None,
            )
        )
        opened = None
    assert opened is None, f"{page_name(page)}: the code block of line {opened} has no end"
    return found


def command_lines(text: str) -> list[str]:
    """The commands of a block, those that go on behind a backslash in one piece."""
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
