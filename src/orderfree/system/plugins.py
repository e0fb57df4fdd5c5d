"""Plugins: modules that register readers, encoders, decoders, objectives or searches when imported.

A package declares such a module as an entry point of the group `orderfree.plugins`. It is imported only when a name is
requested that is not registered, so that the start of orderfree does not become slower. A module without a package is
named by `--plugin MODULE` or `plugins=[…]`. A model directory cannot cause an import.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import OrderfreeError

GROUP = "orderfree.plugins"


@dataclass
class PluginState:
    """The plugins that this process has imported."""

    loading: str | None = None  # the module that is being imported: it registers the parts that are added now
    searched: bool = False  # whether the entry points of installed packages have been imported
    failed: dict[str, str] = field(default_factory=dict)  # entry point -> why it could not be imported


STATE = PluginState()


def load_plugins(modules: Iterable[str]) -> None:
    """Imports these modules, also from the current folder; a module that cannot be imported is an error."""
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
        except Exception as error:  # foreign code can raise anything
            raise OrderfreeError(f"the plugin {module!r} cannot be imported ({_told(error)}).") from error


def load_installed() -> None:
    """Imports the plugins of all installed packages, once, and keeps the reasons of failed imports."""
    if STATE.searched:
        return
    STATE.searched = True
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        try:
            _import(entry.module)
        except Exception as error:  # a broken package must not affect users who do not need it
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
