"""Everyday commands around data and a trained model: thresholds for a purpose, other formats."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..errors import OrderfreeError
from .common import (
    AsJson,
    Format,
    RunDirectory,
    Settings,
    data_config,
    open_run,
    print_table,
    reading,
    say,
    warn_of_own_examples,
)


def thresholds(
    run: RunDirectory,
    data_file: Annotated[Path, typer.Argument(metavar="DATA", help="Labelled examples the model was not trained on.")],
    goals: Annotated[
        list[str] | None,
        typer.Option("--for", help="micro_f1, macro_f1 or precision=P; repeat it. By default the first two."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name to store under; by default what --for says.")] = None,
    decode: Annotated[str, typer.Option("--decode", help="br, marginal or linear: a decoder with thresholds.")] = "br",
    settings: Settings = None,
    format: Format = None,
    as_json: AsJson = False,
) -> None:
    """Find thresholds on labelled data and store them in the model, for `predict --thresholds NAME`."""
    from ..checkpoint import store_thresholds
    from ..decisions import SHOWN
    from ..evaluation import thresholds_for

    goals = goals or ["micro_f1", "macro_f1"]
    if name is not None and len(goals) > 1:
        raise OrderfreeError("--name can name one set only; give one --for with it.")
    predictor, data = open_run(run, settings, format)
    examples = list(reading(data_file, data, labelled=True, noun="texts to choose by", predictor=predictor))
    found = {name or goal: thresholds_for(predictor, examples, goal, decode) for goal in goals}
    store_thresholds(run, found)
    warn_of_own_examples(run, predictor, data_file)
    if as_json:
        print(json.dumps({own: asdict(stored) for own, stored in found.items()}, ensure_ascii=False))
        return
    rows = []
    for own, stored in found.items():
        shown = "one a label" if isinstance(stored.threshold, list) else f"{stored.threshold:.4f}"
        rows.append((own, shown, *(f"{stored.scores[key]:.4f}" for key in SHOWN)))
    print_table(("name", "threshold", *(key.replace("_", " ") for key in SHOWN)), rows)
    print(f"Stored in {run}; use one with `orderfree predict {run} … --thresholds NAME`")


def convert(
    input_file: Annotated[str, typer.Argument(metavar="INPUT", help="Examples in any format; - is standard input.")],
    output_file: Annotated[str, typer.Argument(metavar="OUTPUT", help="File to write; - is standard output.")],
    format: Format = None,
    out_format: Annotated[str | None, typer.Option("--out-format", help="By default the name of OUTPUT tells.")] = None,
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="INPUT has no labels, or they are to go.")] = False,
    settings: Settings = None,
) -> None:
    """Write a file of examples in another format: text to text, features to features."""
    from .convert import convert_examples

    data = data_config(settings, format)
    examples = reading(input_file, data, labelled=not unlabelled, noun="examples")
    say(f"{convert_examples(examples, output_file, out_format, data):,} examples written to {output_file}")


ALL = (thresholds, convert)
