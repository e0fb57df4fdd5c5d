"""The HTML page of a hyper-parameter search."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

from .._version import __version__
from ..system.files import write_text
from .figures import Chart, Line, line_chart
from .page import environment, metric_name


def write_study(
    path: Path, record: dict[str, Any], best: dict[str, Any], importances: dict[str, float], config: str, command: str
) -> None:
    """`record` is the result of `tools.tune.trials.tune`, `config` the best settings as YAML."""
    write_text(path, render_study(record, best, importances, config, command))


def render_study(
    record: dict[str, Any], best: dict[str, Any], importances: dict[str, float], config: str, command: str
) -> str:
    ended = [trial for trial in record["trials"] if trial["state"] != "running"]
    charts = (score_chart(ended, record["metric"]), curve_chart(ended, best, record["metric"]))
    return environment().get_template("study.html.j2").render(
        name=f"Search for {metric_name(record['metric'])}",
        metric=record["metric"],
        best=best,
        trials=sorted(ended, key=lambda trial: -trial.get("score", -1.0)),
        keys=list(record["space"]),
        space=record["space"],
        charts=[chart for chart in charts if chart],
        importances=dict(sorted(importances.items(), key=lambda item: -item[1])),
        config=config,
        command=command,
        version=__version__,
    )  # fmt: skip


def score_chart(trials: list[dict[str, Any]], metric: str) -> Chart | None:
    points = [(trial["number"] + 1.0, trial["score"]) for trial in trials if "score" in trial]
    highest = list(accumulate((score for _, score in points), max))
    so_far = [(number, score) for (number, _), score in zip(points, highest, strict=True)]
    lines = [Line("best so far", so_far, 0), Line("each trial", points, 1)]
    return line_chart(f"{metric_name(metric)} of the trials", lines, "trial", mark_highest=True)


def curve_chart(trials: list[dict[str, Any]], best: dict[str, Any], metric: str) -> Chart | None:
    """Scores by epoch of the best and up to four other trials, with the decoder that selects the checkpoint."""
    ranked = sorted((trial for trial in trials if "score" in trial), key=lambda trial: -trial["score"])
    shown = [best, *(trial for trial in ranked if trial is not best)][:5]
    lines = [
        Line(f"trial {trial['number'] + 1}", [(float(epoch), score) for epoch, score in trial["curve"]], series)
        for series, trial in enumerate(shown)
    ]
    caption = "The five best trials, scored during training with the decoder that selects the checkpoint."
    return line_chart(f"{metric_name(metric)} by epoch", lines, "epoch", caption)
