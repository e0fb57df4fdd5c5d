"""Writes docs/reference/commands.md and docs/reference/config.md from the code: every command, every config key.

python scripts/reference_pages.py
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import typer
import yaml
from typer.models import ArgumentInfo, OptionInfo

from orderfree.cli.main import app
from orderfree.config import Config, Section
from orderfree.nn.encoders import encoders
from orderfree.objectives import objectives

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
COMMANDS = """\
# Every command

<!-- made by scripts/reference_pages.py; do not edit -->

`orderfree COMMAND --help` shows the same. An error is one sentence on standard error. The exit code is 0 where all went
well, 2 where the input, a key or an option is wrong, 1 where something else failed, 130 after Ctrl-C.
"""
CONFIG = """\
# Every config key

<!-- made by scripts/reference_pages.py; do not edit -->

A key goes into a YAML file (`--config my.yaml`) or behind `--set` (`--set training.epochs=5`). `orderfree config`
prints the same. The defaults hold where a config file is silent; `orderfree train` without one starts from the
preset `fast`, which sets some keys otherwise (`orderfree config --preset fast`; [presets](../how_to/presets.md)).
"""
BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
VALUES = {Path: "PATH", str: "TEXT", int: "NUMBER", float: "NUMBER"}
TYPES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false", "null": "null"}


def pages() -> dict[Path, str]:
    return {REFERENCE / "commands.md": commands_page(), REFERENCE / "config.md": config_page()}


def commands_page() -> str:
    lines = [COMMANDS]
    for name, command in _commands(app, "orderfree"):
        lines += _command(name, command)
    return "\n".join(lines).rstrip() + "\n"


def _commands(group: typer.Typer, name: str) -> Iterator[tuple[str, Callable[..., None]]]:
    for command in group.registered_commands:
        assert command.callback is not None
        yield f"{name} {command.name or command.callback.__name__.replace('_', '-')}", command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from _commands(inner.typer_instance, f"{name} {inner.name}")


def _command(name: str, command: Callable[..., None]) -> list[str]:
    function = inspect.unwrap(command, stop=lambda layer: hasattr(layer, "__signature__"))  # one that adds options
    hints = get_type_hints(function, include_extras=True)
    usage, rows = [name], []
    for parameter in inspect.signature(function).parameters.values():
        kind, info = get_args(hints[parameter.name])
        required = parameter.default is parameter.empty
        if isinstance(info, ArgumentInfo):
            shown = str(info.metavar or parameter.name.upper())
            usage.append(shown if required else f"[{shown}]")
            shown = f"`{shown}`"
        else:
            flags = [flag for flag in (info.default, *(info.param_decls or ())) if isinstance(flag, str)]
            shown = ", ".join(f"`{flag}`" for flag in flags) + _value(kind, info)
        rows.append((shown, "required" if required else _default(parameter.default), info.help))
    about = " ".join((function.__doc__ or "").split())
    return [f"## `{name}`", "", about, "", "```text", " ".join([*usage, "[OPTIONS]"]), "```", "",
            *_table(("", "default", "meaning"), rows), ""]  # fmt: skip


def _value(kind: Any, info: OptionInfo) -> str:
    """What is written behind an option: nothing for a switch."""
    inner = next((part for part in get_args(kind) if part is not NoneType), kind)  # the X of X | None and of list[X]
    if kind is bool:
        return ""
    several = get_origin(kind) is list or get_origin(inner) is list
    single = get_args(inner)[0] if get_origin(inner) is list else inner
    return f" `{info.metavar or VALUES[single]}`" + (", repeatable" if several else "")


def _default(value: Any) -> str:
    return "" if value in (None, False) else f"`{value}`"


def config_page() -> str:
    lines = [CONFIG]
    own = {name: info for name, info in Config.model_fields.items() if not _is_section(info.annotation)}
    lines += ["## The whole run", "", *_keys(Config, "", set(own)), ""]
    for name, info in Config.model_fields.items():
        if _is_section(info.annotation):
            lines += [f"## `{name}`", "", *_keys(info.annotation, f"{name}."), ""]
    for key, registry in (("model.encoder_options", encoders), ("objective.sequence_options", objectives)):
        chosen = {"model.encoder_options": "model.encoder", "objective.sequence_options": "objective.sequence"}[key]
        for name in registry:
            options = registry[name].Options
            about = " ".join((options.__doc__ or "").split())
            lines += [f"## `{key}`, where `{chosen}` is `{name}`", "", about, "", *_keys(options, ""), ""]
    lines.append(
        "`objective.second_options` are those of the objective that `objective.second` names. Decoders have no"
    )
    lines.append("options of their own: `decoding` is for all of them.")
    return "\n".join(lines) + "\n"


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _keys(section: Any, prefix: str, only: set[str] | None = None) -> list[str]:
    schema = section.model_json_schema()
    rows = []
    for name, info in section.model_fields.items():
        if only is not None and name not in only:
            continue
        default = info.get_default(call_default_factory=True)
        shown = "required" if info.is_required() else f"`{_yaml(default)}`"
        rows.append((f"`{prefix}{name}`", _kind(schema["properties"][name]), shown, info.description))
    return _table(("key", "value", "default", "meaning"), rows) if rows else ["It has no options."]


def _kind(schema: dict[str, Any]) -> str:
    """A JSON schema in words."""
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("type") == "object":
        return "mapping"
    bounds = [f"{sign} {schema[key]:,}" for key, sign in BOUNDS.items() if key in schema and abs(schema[key]) < 2**40]
    return " ".join([TYPES.get(schema.get("type", ""), "value"), ", ".join(bounds)]).strip()


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n").strip()


def _table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    if not rows:
        return []
    cells = [header, ("---",) * len(header), *rows]
    return ["| " + " | ".join(str(cell or "").replace("|", "\\|") for cell in row) + " |" for row in cells]


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(REFERENCE.parents[1]))
