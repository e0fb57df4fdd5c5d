"""The HTML page of a comparison of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._version import __version__
from ..system.files import write_text
from .page import environment, judged_labels

LABELS_SHOWN = 40
CLEAR = 0.05  # p below which a difference is marked


def write_comparison(path: Path, comparison: dict[str, Any], command: str) -> None:
    """`comparison` is the result of `tools.compare.compare`, with the paths of runs and data."""
    write_text(path, render_comparison(comparison, command))


def render_comparison(comparison: dict[str, Any], command: str) -> str:
    examples = [
        {
            **example,
            "chips": {run: judged_labels(example["target"], labels) for run, labels in example["predicted"].items()},
        }
        for example in comparison["disagreements"]
    ]
    return environment().get_template("compare.html.j2").render(
        comparison=comparison,
        metrics={metric: _marked(by_run) for metric, by_run in comparison["metrics"].items()},
        labels=comparison["per_label"][:LABELS_SHOWN],
        more_labels=comparison["per_label"][LABELS_SHOWN:],
        examples=examples,
        clear=CLEAR,
        command=command,
        version=__version__,
    )  # fmt: skip


def _marked(by_run: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The scores of each run, with a verdict against the first run: better, worse, or empty if it may be chance."""
    best = max(scores["score"] for scores in by_run.values())
    return {
        run: {**scores, "best": scores["score"] == best, "verdict": _verdict(scores["against_first"])}
        for run, scores in by_run.items()
    }


def _verdict(against: dict[str, Any] | None) -> str:
    if against is None or against["p"] >= CLEAR:
        return ""
    return "better" if against["difference"] > 0 else "worse"
