"""Parts of other packages: modules that register readers, encoders, decoders, objectives or searches when imported.

A package names such a module under the entry points `orderfree.plugins`. It is imported when a name is asked for that
nothing else has registered, so that starting orderfree costs nothing. A module that is no package is named by
`--plugin MODULE` or `plugins=[…]`. Nothing in a model directory makes a module be imported.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from .errors import OrderfreeError

GROUP = "orderfree.plugins"


@dataclass
class PluginState:
    """What this process has imported."""

    loading: str | None = None  # the module whose import is under way: parts that are registered now are its own
    searched: bool = False  # whether the entry points of installed packages have been imported
    failed: dict[str, str] = field(default_factory=dict)  # entry point -> why it could not be imported


STATE = PluginState()


def load_plugins(modules: Iterable[str]) -> None:
    """Imports these modules, from the current folder as well; one that cannot be imported is refused."""
    for module in modules:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        try:
            _import(module)
        except OrderfreeError:
            raise
        except ModuleNotFoundError as error:
            if error.name != module.partition(".")[0] and error.name != module:
                raise OrderfreeError(f"the plugin {module!r} needs {error.name!r}, which is not installed.") from None
            raise OrderfreeError(
                f"there is no module {module!r} to take as a plugin; install its package, or start from the folder "
                "that holds it."
            ) from None
        except Exception as error:  # code of others can go wrong in any way
            raise OrderfreeError(f"the plugin {module!r} cannot be imported ({_told(error)}).") from error


def load_installed() -> None:
    """Imports the plugins of all installed packages, once; of those that cannot be imported the reason is kept."""
    if STATE.searched:
        return
    STATE.searched = True
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        try:
            _import(entry.module)
        except Exception as error:  # a broken package must not stop those who do not use it
            STATE.failed[entry.name] = _told(error)


def failures() -> str:
    """One sentence for each installed plugin that could not be imported, or nothing."""
    return "".join(f" The plugin {name!r} cannot be imported ({why})." for name, why in STATE.failed.items())


def _import(module: str) -> None:
    outer, STATE.loading = STATE.loading, module
    try:
        importlib.import_module(module)
    finally:
        STATE.loading = outer


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
