"""Everyday commands around data and a trained model: thresholds for a purpose, other formats."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import OrderfreeError
from .closing import warn_of_unseen_labels
from .common import (
    AsJson,
    Format,
    RunDirectory,
    Settings,
    data_config,
    open_run,
    print_table,
    reading,
    refuse_own_input,
    say,
    warn_of_own_examples,
)

if TYPE_CHECKING:
    from ..config import DataConfig
    from ..decisions.records import NamedThresholds
    from ..inference import Predictor
    from ..promises.promise import Promise
    from ..promises.shift import Reference
    from ..types import Example


def thresholds(
    run: RunDirectory,
    data_file: Annotated[Path, typer.Argument(metavar="DATA", help="Labelled examples the model was not trained on.")],
    goals: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            help="micro_f1, macro_f1, or a promise: recall=0.9, precision=0.95 or candidates=0.9; repeat it. "
            "By default the first two.",
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="Confidence of a promise, e.g. 0.95. By default recall and candidates hold on average."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name to store the thresholds under; by default the value of --for.")
    ] = None,
    decode: Annotated[str, typer.Option("--decode", help="br, marginal or linear: a decoder with thresholds.")] = "br",
    settings: Settings = None,
    format: Format = None,
    as_json: AsJson = False,
) -> None:
    """Find thresholds on labelled data, or promise recall, precision or lists of sets, and store them in the model."""
    from ..checkpoint import store_thresholds
    from ..decisions.records import NamedThresholds
    from ..promises.promise import CANDIDATES, Promise

    goals = goals or ["micro_f1", "macro_f1"]
    if name is not None and (len(goals) > 1 or goals[0].startswith(CANDIDATES)):
        raise OrderfreeError(
            "--name applies to one set of thresholds; give exactly one --for: recall, precision or a metric."
        )
    predictor, data = open_run(run, settings, format)
    found, examples = _found(run, predictor, data_file, data, goals, confidence, decode)
    named = {name or goal: made for goal, made in found.items() if isinstance(made, NamedThresholds)}
    candidates = {f"{made.level:g}": made for made in found.values() if isinstance(made, Promise)}
    references = _references(predictor, examples, named) if candidates or any(t.promise for t in named.values()) else {}
    store_thresholds(run, named, candidates, references)
    if as_json:
        print(json.dumps({name or goal: _as_json(made) for goal, made in found.items()}, ensure_ascii=False))
        return
    _print_thresholds(run, named)
    for promise in (*(made.promise for made in named.values()), *candidates.values()):
        if promise is not None:
            print(f"Promise: {promise.sentence}")
    for level in candidates:
        print(f"Stored in {run}; use it with `orderfree predict {run} … --candidates {level}`")


def _found(
    run: Path,
    predictor: Predictor,
    data_file: Path,
    data: DataConfig,
    goals: list[str],
    confidence: float | None,
    decode: str,
) -> tuple[dict[str, NamedThresholds | Promise], list[Example]]:
    """Thresholds or the promise for each goal, the latter with the fingerprint of the file; and its examples."""
    from ..evaluation import thresholds_for
    from ..promises.promise import CANDIDATES, parse_goal

    promises = {goal: parse_goal(goal) for goal in goals}
    asked = any(wanted is not None for wanted in promises.values())
    if confidence is not None and not asked:
        raise OrderfreeError("--confidence applies to a promise; add --for recall=0.9 or --for precision=0.95.")
    print_of_file = predictor.trained.refuse_to_promise_on(data_file) if asked else None
    examples = list(reading(data_file, data, labelled=True, noun="texts to choose by", predictor=predictor))
    found: dict[str, NamedThresholds | Promise] = {}
    for goal, wanted in promises.items():
        if wanted is None:
            found[goal] = thresholds_for(predictor, examples, goal, decode)
            continue
        promise = replace(predictor.promise(examples, goal, confidence, decode), data=print_of_file or None)
        named = predictor.trained.decisions.named
        found[goal] = promise if wanted[0] == CANDIDATES else replace(named[goal], promise=promise)
    warn_of_own_examples(run, predictor, data_file)
    own = set(predictor.labels.names)
    warn_of_unseen_labels(sorted({name for one in examples for name in one.labels or ()} - own), own)
    return found, examples


def _references(
    predictor: Predictor, examples: list[Example], named: dict[str, NamedThresholds]
) -> dict[str, Reference]:
    """How calibration examples look to the model's own decoder and at the thresholds of their promises."""
    from ..decisions.records import NAMED
    from ..evaluation.watching import references_of

    decisions = predictor.trained.decisions
    predictor.trained.decisions = replace(decisions, named={**decisions.named, **named})  # by the names they are given
    return references_of(predictor, examples, [NAMED + name for name, made in named.items() if made.promise])


def _as_json(made: NamedThresholds | Promise) -> dict[str, Any]:
    promise: Promise | None = getattr(made, "promise", made)  # type: ignore[arg-type]
    return asdict(made) | ({} if promise is None else {"sentence": promise.sentence})


def _print_thresholds(run: Path, named: dict[str, NamedThresholds]) -> None:
    from ..decisions.goals import SHOWN

    if not named:
        return
    rows = []
    for name, stored in named.items():
        shown = "one a label" if isinstance(stored.threshold, list) else f"{stored.threshold:.4f}"
        rows.append((name, shown, *(f"{stored.scores[key]:.4f}" for key in SHOWN)))
    print_table(("name", "threshold", *(key.replace("_", " ") for key in SHOWN)), rows)
    print(f"Stored in {run}; use one with `orderfree predict {run} … --thresholds NAME`")


def convert(
    input_file: Annotated[str, typer.Argument(metavar="INPUT", help="Examples in any format; - is standard input.")],
    output_file: Annotated[str, typer.Argument(metavar="OUTPUT", help="File to write; - is standard output.")],
    format: Format = None,
    out_format: Annotated[
        str | None, typer.Option("--out-format", help="By default told from the name of OUTPUT.")
    ] = None,
    unlabelled: Annotated[
        bool, typer.Option("--unlabelled", help="INPUT has no labels, or they are to be dropped.")
    ] = False,
    settings: Settings = None,
) -> None:
    """Write a file of examples in another format: text to text, features to features."""
    from .convert import convert_examples

    data = data_config(settings, format)
    refuse_own_input(output_file, input_file, data)
    examples = reading(input_file, data, labelled=not unlabelled, noun="examples")
    say(f"{convert_examples(examples, output_file, out_format, data):,} examples written to {output_file}")


ALL = (thresholds, convert)
