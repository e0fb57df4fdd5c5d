"""`orderfree compare`: several runs on the same data."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import OrderfreeError
from .closing import warn_of_unseen_labels
from .common import (
    AsJson,
    Decode,
    Format,
    Settings,
    model_files,
    open_run,
    print_table,
    reading,
    refuse_own_input,
    say,
    whole_numbers,
)

if TYPE_CHECKING:
    from ..inference import Predictor


Runs = Annotated[list[Path], typer.Argument(metavar="RUN RUN…", help="Model directories; the first is the baseline.")]
Seeds = Annotated[
    str | None, typer.Option("--seeds", help="Train each run again with these seeds, e.g. 1,2,3, and compare means.")
]
Train = Annotated[
    list[Path] | None,
    typer.Option("--train", help="With --seeds: the training file, once for all runs or once per run."),
]
Valid = Annotated[Path | None, typer.Option("--valid", help="With --seeds: the validation file, if any.")]


def compare(
    runs: Runs,
    data: Annotated[Path, typer.Option("--data", help="Labelled examples that none of the runs was trained on.")],
    out: Annotated[Path | None, typer.Option("--out", help="Also write a self-contained HTML page here.")] = None,
    seeds: Seeds = None,
    train: Train = None,
    valid: Valid = None,
    decode: Decode = None,
    settings: Settings = None,
    format: Format = None,
    as_json: AsJson = False,
) -> None:
    """Put runs side by side on the same data, with paired tests against the first."""
    from ..tools.compare import compare as compare_runs

    if len(runs) < 2:
        raise OrderfreeError("a comparison needs at least two runs.")
    numbers = _checked_seeds(seeds, train, valid, len(runs))
    opened = {}
    for path, name in zip(runs, _names(runs), strict=True):
        opened[name], data_config = open_run(path, settings, format)
        refuse_own_input(out, data, data_config, valid, *(train or []), *model_files(path, opened[name]))
    examples = list(reading(data, data_config, labelled=True, noun="texts to compare on"))
    retrained = None if numbers is None else _retrained(opened, numbers, train or [], valid)
    judged = compare_runs(opened, examples, decode, retrained)
    found = {"data": str(data), "paths": [str(run) for run in runs], "seeds": numbers, **judged}
    warn_of_unseen_labels(found["unseen_labels"], {name for one in opened.values() for name in one.labels.names})
    if out is not None:
        from ..report.comparison_page import write_comparison

        again = ["--seeds", seeds, *(word for file in train or [] for word in ("--train", file))] if seeds else []
        again += ["--valid", valid] if valid else []
        words = ["orderfree", "compare", *runs, "--data", data, *again]
        words += [*(["--decode", decode] if decode else []), "--out", out]
        write_comparison(out, found, shlex.join(map(str, words)))
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
        return
    _print_comparison(found)
    if out is not None:
        print(f"Page written to {out}")


def _print_comparison(found: dict[str, Any]) -> None:
    print(f"{found['examples']:,} examples, {found['labels']:,} labels; decoded with {_decoders(found['decoders'])}")
    header = ("metric", *found["runs"])
    print_table(
        header, [(metric, *(_cell(own) for own in by_run.values())) for metric, by_run in found["metrics"].items()]
    )
    print("In brackets: the difference from the first run, and the probability of such a difference by chance (p).")
    right = found["right"]
    alone = ", ".join(f"only by {name} {number:,}" for name, number in right["alone"].items())
    of = "" if found["seeds"] is None else " (the runs as they are given)"
    print(
        f"Examples with exactly the right labels{of}: by all runs {right['all']:,}, by none {right['none']:,}, {alone}."
    )
    print(found["p_covers"])


ALL = (compare,)


def _names(runs: list[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart."""
    parts = [run.resolve().parts for run in runs]
    if len(set(parts)) < len(parts):
        raise OrderfreeError("the same run is named twice; name each once.")
    length = next(n for n in range(1, max(map(len, parts)) + 1) if len({own[-n:] for own in parts}) == len(parts))
    return ["/".join(own[-length:]) for own in parts]


def _checked_seeds(seeds: str | None, train: list[Path] | None, valid: Path | None, runs: int) -> list[int] | None:
    if seeds is None:
        if train or valid:
            raise OrderfreeError("--train and --valid say what to train again on; give --seeds as well.")
        return None
    numbers = whole_numbers(seeds)
    if len(set(numbers)) < 2:
        raise OrderfreeError(f"--seeds {seeds!r}: expected at least two different ones, for example 1,2,3.")
    if len(train or []) not in (1, runs):
        raise OrderfreeError(f"--seeds trains again: give --train FILE once for all runs, or {runs} times in order.")
    return numbers


def _retrained(
    opened: dict[str, Predictor], seeds: list[int], train: list[Path], valid: Path | None
) -> dict[str, list[Predictor]]:
    from ..tools.compare import retrain

    files = train if len(train) == len(opened) else train * len(opened)
    models = {}
    for (name, predictor), file in zip(opened.items(), files, strict=True):
        if not predictor.trained.learned_from(file):
            say(f"warning: {name} was not trained on {file} as it is now")
        config = predictor.trained.config
        config = config.model_copy(update={"data": config.data.model_copy(update={"format": "auto"})})
        models[name] = retrain(config, seeds, file, valid, lambda line, name=name: say(f"{name}: {line}"))  # type: ignore[misc]
    return models


def _decoders(by_run: dict[str, str]) -> str:
    if len(used := set(by_run.values())) == 1:
        return used.pop()
    return ", ".join(f"{decoder} ({name})" for name, decoder in by_run.items())


def _cell(own: dict[str, Any]) -> str:
    against = own["against_first"]
    score = f"{own['score']:.4f}" + (f" ± {own['deviation']:.4f}" if "deviation" in own else "")
    if against is None:
        return score
    return f"{score} ({against['difference']:+.4f}, p {against['p']:.3f})"
