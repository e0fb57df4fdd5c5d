"""The menu of the site, from the folders of docs/: a new page is in it without another edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

KINDS = {
    "Tutorial": "tutorial",
    "How to": "how_to",
    "Explanation": "explain",
    "Reference": "reference",
    "Results": "results",
}


def on_config(config: Any) -> Any:
    """Called by MkDocs. The first page of a menu entry is README.md where there is one; the others go by name."""
    docs = Path(config.docs_dir)
    menu: list[Any] = [{"Start": [page.name for page in _pages(docs)]}]
    for title, folder in KINDS.items():
        menu.append({title: [page.relative_to(docs).as_posix() for page in _pages(docs / folder)]})
    config.nav = menu
    return config


def _pages(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.md"), key=lambda page: (page.stem not in ("index", "README"), page.name))
