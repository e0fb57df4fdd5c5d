"""The commit of the code that makes a result, by which a reader can run it again."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ..errors import OrderfreeError

PACKAGE = Path(__file__).parents[1]
TRIAL = "or run a trial with --allow-dirty, whose results are marked"


def code_commit(configs: Path, allow_dirty: bool = False, package: Path = PACKAGE) -> str:
    """The commit of the package and of the configs. Refuses uncommitted changes and code outside of git; with
    `allow_dirty` the commit then ends in `-dirty` or is empty."""
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:  # for example an installed copy
        if allow_dirty:
            return ""
        raise OrderfreeError(
            f"{package}: is not a git checkout, so that results could not name the commit that made them; "
            f"run `orderfree reproduce` from a clone of the project, {TRIAL}."
        )
    commit = (_git(package, "rev-parse", "HEAD") or "").strip()
    top = Path((_git(package, "rev-parse", "--show-toplevel") or "").strip())
    watched = [package, *([configs.resolve()] if configs.resolve().is_relative_to(top) else [])]
    names = [str(path) for path in watched]
    changed = _git(package, "status", "--porcelain", "--untracked-files=all", "--", *names) or ""
    if not changed:
        return commit
    if allow_dirty:
        return f"{commit}-dirty"
    first = changed.splitlines()[0][3:]
    raise OrderfreeError(
        f"{first}: has changes that are not committed, so that results could not name the code that made them; "
        f"commit them, {TRIAL}."
    )


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of git; None: git fails or is not installed."""
    command = ["git", "--no-optional-locks", *arguments]
    try:
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return answer.stdout if answer.returncode == 0 else None
