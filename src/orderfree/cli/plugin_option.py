"""`--plugin MODULE` of every command that reads data or a model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

WITHOUT = {"explain_ocd", "toy", "demo", "table", "figures"}  # these read neither data of the user nor a model
Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="MODULE", help="Import this module, which registers its own parts; repeatable."),
]


def taking_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with that option; modules are imported before anything else happens."""
    if command.__name__ in WITHOUT:
        return command

    @functools.wraps(command)
    def wrapped(*arguments: Any, plugin: list[str] | None = None, **options: Any) -> None:
        from ..system.plugins import load_plugins

        load_plugins(plugin or ())
        command(*arguments, **options)

    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    changed = signature.replace(parameters=[*signature.parameters.values(), option])
    wrapped.__signature__ = changed  # type: ignore[attr-defined]
    wrapped.__annotations__ = {**command.__annotations__, "plugin": Plugins}
    return wrapped
