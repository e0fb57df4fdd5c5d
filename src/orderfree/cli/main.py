"""`orderfree`: reads arguments, calls one function, prints what it returns."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

# Idle OpenMP threads that spin at barriers slow a busy small machine down tenfold. Read when torch is first imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import typer

from .._version import __version__
from ..errors import OrderfreeError, out_of_memory
from ..system.files import refusal
from ..system.processor import keep_freed_memory
from . import audit, check, commands, compare, experiments, export, predict, report, serve, sign, thresholds, tune
from .common import ending_on_signals, open_closed_streams
from .data import data_app
from .groups import GroupedCommands
from .plugin_option import taking_plugins

app = typer.Typer(
    name="orderfree",
    cls=GroupedCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: drawing it would take half of its time
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"orderfree {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Predict sets of labels: train, evaluate and use a multi-label classifier.

    Start with `orderfree train FILE --out runs/NAME`; `orderfree COMMAND --help` explains a command.
    """


def ending_well(command: Callable[..., None]) -> Callable[..., None]:
    """What typer would end in silence: Ctrl-C is said, and a reader that has seen enough of our output is no error.
    Where torchrun would do everything several times over, that is said too."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        if "TORCHELASTIC_RUN_ID" in os.environ and command.__name__ != "train":
            raise OrderfreeError(
                f"`{command.__name__}` runs in one process; start it without torchrun or accelerate launch, "
                "which are for `orderfree train` only."
            )
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            print("orderfree: interrupted.", file=sys.stderr)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None

    return wrapped


for command in (
    *commands.ALL,
    *predict.ALL,
    *check.ALL,
    *thresholds.ALL,
    *audit.ALL,
    *tune.ALL,
    *experiments.ALL,
    *report.ALL,
    *compare.ALL,
    *serve.ALL,
    *export.ALL,
    *sign.ALL,
):
    app.command(name=command.__name__.replace("_", "-"))(ending_well(taking_plugins(command)))
for registered in data_app.registered_commands:
    assert registered.callback is not None
    registered.callback = ending_well(registered.callback)
app.add_typer(data_app, name="data")


def run(arguments: list[str] | None = None) -> Any:
    """Entry point of a process."""
    open_closed_streams()
    try:
        with ending_on_signals():
            _answer(arguments)
    except SystemExit as ended:
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_initialized():
            raise
        # Threads of gloo may still be letting go of tensors, and abort a process whose interpreter is being taken down
        # by then (two of twelve runs of a small FSDP model): nothing is left to do, so this one ends here and now.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code if isinstance(ended.code, int) else int(ended.code is not None))


def _answer(arguments: list[str] | None) -> None:
    """Every error a user can cause is one sentence on stderr and an exit code."""
    keep_freed_memory()
    try:
        app(arguments)
    except OrderfreeError as error:
        print(f"orderfree: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:  # what no reader or writer has explained already
        explained = refusal(error, error.filename or "a file")
        print(f"orderfree: {explained}", file=sys.stderr)
        sys.exit(explained.exit_code)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        print(
            "orderfree: not enough memory; lower the sizes under model, the batch sizes, decoding.beam_width or the "
            "highest feature number.",
            file=sys.stderr,
        )
        sys.exit(1)


if __name__ == "__main__":
    run()
