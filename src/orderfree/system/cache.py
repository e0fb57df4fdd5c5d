"""The folder where the user's machine keeps what can be made again."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE, OFF = "ORDERFREE_CACHE", "off"


def cache_folder() -> Path | None:
    """`~/.cache/orderfree`, or the folder that ORDERFREE_CACHE names; None: it says `off`, or there is none to write
    to."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen == OFF:
        return None
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = Path(chosen) if chosen else home / "orderfree"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a read-only home, or none, is no reason to fail
        return None
    return folder if os.access(folder, os.W_OK) else None
