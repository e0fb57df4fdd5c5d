"""Several runs side by side as one HTML file of the same kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._version import __version__
from ..system.files import write_text
from .page import environment, judged_labels

LABELS_SHOWN = 40
CLEAR = 0.05  # p below which a difference is marked


def write_comparison(path: Path, found: dict[str, Any], command: str) -> None:
    """`found` is what `comparison.compare` returns, with the paths and the data it was made of."""
    write_text(path, render_comparison(found, command))


def render_comparison(found: dict[str, Any], command: str) -> str:
    examples = [
        {**example, "chips": {run: judged_labels(example["target"], own) for run, own in example["predicted"].items()}}
        for example in found["disagreements"]
    ]
    return environment().get_template("compare.html.j2").render(
        found=found,
        metrics={metric: _marked(by_run) for metric, by_run in found["metrics"].items()},
        labels=found["per_label"][:LABELS_SHOWN],
        more_labels=found["per_label"][LABELS_SHOWN:],
        examples=examples,
        clear=CLEAR,
        command=command,
        version=__version__,
    )  # fmt: skip


def _marked(by_run: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each with a verdict against the first: better, worse, or empty where it may be chance."""
    best = max(own["score"] for own in by_run.values())
    return {
        run: {**own, "best": own["score"] == best, "verdict": _verdict(own["against_first"])}
        for run, own in by_run.items()
    }


def _verdict(against: dict[str, Any] | None) -> str:
    if against is None or against["p"] >= CLEAR:
        return ""
    return "better" if against["difference"] > 0 else "worse"
