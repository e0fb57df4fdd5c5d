"""`orderfree`: reads arguments, calls one function, prints what it returns."""

from __future__ import annotations

import os
import sys
from typing import Any

# Idle OpenMP threads that spin at barriers slow a busy small machine down tenfold. Read when torch is first imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import typer

from ..errors import OrderfreeError
from . import commands

app = typer.Typer(
    name="orderfree",
    help="Predict sets of labels: train, evaluate and use an order-free multi-label classifier.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in commands.ALL:
    app.command(name=command.__name__.replace("_", "-"))(command)


def run(arguments: list[str] | None = None) -> Any:
    """Entry point: every error a user can cause is one sentence on stderr and an exit code."""
    try:
        app(arguments)
    except OrderfreeError as error:
        print(f"orderfree: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        print("orderfree: interrupted.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    run()
