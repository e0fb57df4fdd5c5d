"""The HTML page of a results folder: tables, figures, and the provenance of every number.

It renders the content of `experiments.overview`; missing content is left out of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from ..system.files import write_text
from .page import LABELS_SHOWN, environment, judged_labels, occurring

SECTIONS = {
    "scores": "Scores",
    "parts": "Parts of the test data",
    "seen": "Seen and unseen label sets",
    "combinations": "Label combinations",
    "positions": "Accuracy by position",
    "frequency": "Frequency of the label set",
    "ranks": "Average ranks",
    "curves": "Validation curves",
    "labels": "Labels",
    "confused_pairs": "Confused labels",
    "examples": "Examples",
    "runs": "How it was made",
}
EXAMPLES_SHOWN = 8  # the others are collapsed


def write_results_report(path: Path, overview: dict[str, Any], making: dict[str, Any]) -> None:
    """`making`: the folder of the results, the command that made the page, and the version."""
    write_text(path, render_results(overview, making))


def render_results(overview: dict[str, Any], making: dict[str, Any]) -> str:
    page = environment().get_template("results.html.j2")
    return page.render(
        corpora=[_shown(corpus) for corpus in overview["corpora"]],
        overall_ranks=[{**ranks, "drawing": Markup(ranks["drawing"])} for ranks in overview["overall_ranks"]],
        runs=overview["runs"],
        drawn=overview["drawn"],
        making=making,
        labels_shown=LABELS_SHOWN,
        examples_shown=EXAMPLES_SHOWN,
    )


def _shown(corpus: dict[str, Any]) -> dict[str, Any]:
    """A corpus with the titles of its sections, its labels that occur, and the judged labels of its examples."""
    # Only the drawings are not escaped: this package draws them, they are not read from a file.
    drawings = {name: Markup(svg) for name, svg in corpus["drawings"].items()}
    labels = corpus["labels"]
    by_method = [{**method, "rows": occurring(method["rows"])} for method in labels.get("by_method", [])]
    examples = [
        {
            **example,
            "predicted": [
                {**made, "chips": judged_labels(example["target"], made["labels"])} for made in example["predicted"]
            ],
        }
        for example in corpus["examples"]
    ]
    return {
        **corpus,
        "drawings": drawings,
        "labels": {**labels, "by_method": by_method} if labels else {},
        "examples": examples,
        "titles": {key: title for key, title in SECTIONS.items() if corpus.get(key) or key in drawings},
    }
