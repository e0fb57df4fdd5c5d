"""`orderfree --help`: commands in groups, each with a whole sentence."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

# heading -> commands, in the order of a user's day; a command that stands nowhere is listed under the first
GROUPS = {
    "Use": [
        "check",
        "train",
        "evaluate",
        "predict",
        "report",
        "serve",
        "inspect",
        "split",
        "convert",
        "export",
        "demo",
        "toy",
    ],
    "Improve": ["config", "thresholds", "tune", "audit", "compare"],
    "Research": ["data", "reproduce", "table", "figures", "explain-ocd"],
}


class GroupedCommands(TyperGroup):
    """Plain text: drawing panels would take half of the time of `--help`. Typer brings click's classes along in some
    versions and imports them in others: therefore no types."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        grouped = {name for names in GROUPS.values() for name in names}
        first, *_ = GROUPS
        width = max(map(len, commands))  # one column for all groups
        for heading, names in GROUPS.items():
            others = [name for name in commands if name not in grouped] if heading == first else []
            rows = [(name, commands[name]) for name in (*names, *others) if name in commands]
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), _sentence(command)) for name, command in rows])


def _sentence(command: Any) -> str:
    """The first paragraph of a command's help."""
    text = (command.help or "") if command is not None else ""
    return " ".join(text.partition("\n\n")[0].split())
