"""`orderfree tune`: a search for the settings that are best on validation."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import OrderfreeError, nearest
from .common import AsJson, ConfigFile, Format, Preset, Settings, SkipBad, print_table, say, seconds

SHOWN = 10  # rows of the table


def tune(
    train_file: Annotated[Path, typer.Argument(metavar="TRAIN", help="Examples with labels.")],
    out: Annotated[Path, typer.Option("--out", help="Directory of the search and of the best model.")],
    valid: Annotated[
        Path | None, typer.Option("--valid", help="Validation file; by default a tenth of TRAIN is held out.")
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="Number of trials, including earlier ones.")] = 20,
    budget: Annotated[
        str | None, typer.Option("--budget", help="Time limit, e.g. 30m or 2h; the same command continues the search.")
    ] = None,
    optimize_for: Annotated[
        str, typer.Option("--optimize-for", help="Metric to optimise; each trial uses its best decoder for it.")
    ] = "micro_f1",
    space: Annotated[
        Path | None,
        typer.Option("--space", help="YAML: config keys with {low, high, log}, {low, high, step}, {choices}."),
    ] = None,
    config: ConfigFile = None,
    preset: Preset = None,
    settings: Settings = None,
    format: Format = None,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
) -> None:
    """Search for the best settings by training repeatedly. The same command continues an interrupted search."""
    from ..decisions.records import TUNED
    from ..tools.tune.trials import Plan
    from ..tools.tune.trials import tune as search
    from ..training.run import Interrupted

    if str(train_file) == "-":
        raise OrderfreeError("tune reads its file many times, so it cannot come from standard input; give a file.")
    if optimize_for not in TUNED:
        known = nearest(optimize_for, list(TUNED))
        raise OrderfreeError(f"--optimize-for {optimize_for!r}: expected one of {', '.join(TUNED)}.{known}")
    given = [*(settings or []), *([f"data.format={format}"] if format else []), *["data.skip_bad=true"] * skip_bad]
    plan = Plan(
        train_file, valid, out, trials, optimize_for, config, preset, tuple(given), space, seconds(budget, "--budget")
    )
    try:
        record = search(plan, say, progress=sys.stderr.isatty())
    except Interrupted:
        say("orderfree: stopped; run the same command again to continue.")
        raise typer.Exit(130) from None
    _tell(record, out, as_json)


def _tell(record: dict[str, Any], out: Path, as_json: bool) -> None:
    from ..report.study import write_study
    from ..tools.tune.study_file import BEST, best_trial, ended
    from ..tools.tune.trials import importances

    best = best_trial(record)
    if best is None:
        failed = [trial["problem"] for trial in ended(record)]
        why = (
            f"every trial failed; the last one with: {failed[-1]}"
            if failed
            else "no trial has finished; allow more time."
        )
        raise OrderfreeError(f"{out}: {why}")
    shares = importances(record)
    page = out / "report.html"
    write_study(
        page, record, best, shares, (out / BEST).read_text(encoding="utf-8"), shlex.join(["orderfree", *sys.argv[1:]])
    )
    if as_json:
        trials = [{key: value for key, value in trial.items() if key != "suggested"} for trial in record["trials"]]
        found = {"out": str(out), "metric": record["metric"], "best": best["number"], "score": best["score"]}
        print(json.dumps({**found, "values": best["values"], "importances": shares, "trials": trials}))
        return
    ranked = sorted((trial for trial in ended(record) if "score" in trial), key=lambda trial: -trial["score"])
    header = (
        "trial",
        record["metric"].replace("_", " "),
        "decoder",
        *(key.rpartition(".")[2] for key in best["values"]),
    )
    print_table(header, [_row(trial) for trial in ranked[:SHOWN]])
    print(f"{out} is the model of trial {best['number'] + 1}; its settings: {out / BEST}, the search: {page}")


def _row(trial: dict[str, Any]) -> tuple[str, ...]:
    number = f"{trial['number'] + 1}" + " (pruned)" * (trial["state"] == "pruned")
    return (number, f"{trial['score']:.4f}", trial["decoder"], *(f"{value}" for value in trial["values"].values()))


ALL = (tune,)
