"""`orderfree export`: a trained model in another form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import OrderfreeError
from .common import AsJson, RunDirectory, say


def export(
    run: RunDirectory,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Directory to write; it must not exist.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="As ONNX graphs, run by ONNX Runtime.")] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="8-bit weights: smaller files, slightly different probabilities.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a trained model as ONNX graphs, in a directory that predict, evaluate and Predictor read like any other."""
    from ..checkpoint import load_model
    from ..tools.export import export_onnx

    if not onnx:
        raise OrderfreeError("choose a format; --onnx is the only one.")
    trained = load_model(run)
    card = (run / "README.md").read_text(encoding="utf-8")
    names = export_onnx(
        trained, out, f"{card}\nExported as ONNX graphs{', weights in 8 bits' if int8 else ''}.\n", int8
    )
    sizes = {name: (out / name).stat().st_size for name in names}
    if int8 and trained.decisions.promises:
        say("promises do not hold with weights in 8 bits and are left out; `orderfree thresholds` makes them again")
    if as_json:
        print(json.dumps({"out": str(out), "int8": int8, "bytes": sizes}))
        return
    print(f"{out}: " + ", ".join(f"{name} ({size / 2**20:.1f} MiB)" for name, size in sizes.items()))


ALL = (export,)
