"""One evaluation as one HTML file that needs nothing else: no network, no script but the one that sorts and searches
its tables, readable on a phone and on paper.

What is missing from the inputs is left out of the page."""

from __future__ import annotations

import math
from base64 import b64encode
from collections import defaultdict
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from ..metrics.at_k import PLACES, TITLES
from ..system.files import write_text
from .figures import Chart, Line, Point, line_chart, thinned
from .markdown import inline, to_html
from .sure import shown_answers, shown_calibrations
from .verdict import mistakes, verdict

MAIN_METRICS = ("average", "macro_f1", "micro_f1", "example_f1", "subset_accuracy", "hamming_accuracy")
SECTIONS = {  # below the first screen, folded
    "promises": "Promises",
    "labels": "Labels",
    "examples": "Examples",
    "confused_pairs": "Confused labels",
    "decoders": "Decoders",
    "at_k": "The first labels",
    "answered": "Answering only certain examples",
    "calibration": "Are the probabilities calibrated?",
    "thresholds": "Precision and recall by threshold",
    "together": "Labels that occur together",
    "sizes": "Number of labels",
    "combinations": "Label combinations",
    "positions": "Accuracy by position",
    "curves": "Learning curves",
    "card": "Model card",
    "making": "How it was made",
}
LABELS_SHOWN = 40  # in one table; of more, half in each of two
LABELS_FOLDED = 500  # the others of a long list, folded; what is left is counted
LONGEST_TEXT = 450
LARGEST_SIZE = 8
LOSS = "Training loss"


def write_report(path: Path, evaluation: dict[str, Any], history: list[dict[str, Any]], card: dict[str, Any]) -> None:
    """`evaluation` is what `evaluation.evaluate` returns; `card` says how the model was made, with the model card that
    stands in its directory under `text`."""
    write_text(path, render(evaluation, history, card))


def render(evaluation: dict[str, Any], history: list[dict[str, Any]], card: dict[str, Any]) -> str:
    decoders: dict[str, dict[str, float]] = evaluation.get("decoders") or {}
    default = evaluation.get("default_decoder")
    default = default if default in decoders else next(iter(decoders), "")
    per_label = evaluation.get("per_label") or []
    labels = occurring(per_label)
    examples = [shown_example(example) for example in evaluation.get("examples_shown") or []]
    precision_by_threshold = evaluation.get("precision_recall") or []
    sections = {
        "decoders": score_tables(decoders, evaluation.get("intervals") or {}),
        "at_k": at_k_rows(evaluation.get("at_k") or {}),
        "curves": learning_curves(history, list(decoders), _select_metric(card)),
        "labels": label_tables(labels),
        "confused_pairs": evaluation.get("confused_pairs") or [],
        "together": evaluation.get("co_occurrence") or [],
        "sizes": size_table(evaluation.get("set_sizes") or []),
        "combinations": evaluation.get("combinations") or {},
        "positions": position_chart(evaluation.get("position_accuracy") or {}, list(decoders)),
        "calibration": shown_calibrations(evaluation),
        "answered": shown_answers(evaluation.get("answered") or []),
        "promises": card.get("promises") or {},
        "thresholds": threshold_chart(precision_by_threshold),
        "examples": examples,
        "card": to_html(card.get("text") or ""),
        "making": card,
    }
    page = environment().get_template("page.html.j2")
    return page.render(
        **sections,
        titles={key: title for key, title in SECTIONS.items() if sections[key]},
        evaluation=evaluation,
        default=default,
        search=(evaluation.get("decisions") or {}).get(default, default),
        verdict=verdict(evaluation, default, card.get("training_counts") or {}),
        examples_chosen=how_examples_were_chosen(examples),
        threshold_rows=[row for row in precision_by_threshold if math.isclose(10 * row["threshold"] % 1, 0)],
        shift=evaluation.get("shift") or {},
        absent_labels=len(per_label) - len(labels),
        places=PLACES,
    )


def run_charts(evaluation: dict[str, Any], history: list[dict[str, Any]], card: dict[str, Any]) -> dict[str, Chart]:
    """The charts of the page by name, those there is data for."""
    decoders = list(evaluation.get("decoders") or {})
    curves = {
        "training-loss" if chart.title == LOSS else "validation": chart
        for chart in learning_curves(history, decoders, _select_metric(card))
    }
    others = {
        "positions": position_chart(evaluation.get("position_accuracy") or {}, decoders).get("chart"),
        "reliability": shown_calibrations(evaluation).get("chart"),
        "answered": shown_answers(evaluation.get("answered") or []).get("chart"),
        "thresholds": threshold_chart(evaluation.get("precision_recall") or []),
    }
    return {**curves, **{name: chart for name, chart in others.items() if chart}}


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("orderfree", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = resources.files(__package__).joinpath("tables.js").read_text(encoding="utf-8")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    # the page's policy lets this very script run, and none that came with a label or a text
    made.globals |= {"script": Markup(script), "script_hash": f"sha256-{digest}"}
    made.filters |= {"score": score, "points": points, "metric": metric_name, "yaml": as_yaml, "inline": inline}
    return made


def score(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.3f}"


def points(share: float) -> str:
    """In percentage points, as a sentence says it."""
    return "less than 0.1" if share < 0.0005 else f"{100 * share:.1f}"


def metric_name(name: str) -> str:
    words = name.replace("_", " ").replace("f1", "F1")
    return words[0].upper() + words[1:]


def as_yaml(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100).rstrip()


def score_tables(
    decoders: dict[str, dict[str, float]], intervals: dict[str, dict[str, list[float]]]
) -> list[dict[str, Any]]:
    """The main metrics, and apart from them all others: side by side they would not fit any screen."""
    names = list(dict.fromkeys(name for row in decoders.values() for name in row))
    main = [name for name in MAIN_METRICS if name in names]
    others = [name for name in names if name not in MAIN_METRICS]
    return [
        {
            "metrics": metrics,
            "rows": decoders,
            "best": {name: best_of_column(decoders, name) for name in metrics},
            "intervals": intervals if metrics is main else {},
        }
        for metrics in (main, others)
        if metrics
    ]


def best_of_column(decoders: dict[str, dict[str, float]], metric: str) -> set[str]:
    """Decoders with the best value as it is printed: what looks equal is marked equally. None if all are equal."""
    if metric == "true_labels_per_example":
        return set()
    values = {name: row[metric] for name, row in decoders.items() if score(row.get(metric)) != "–"}
    if metric == "predicted_labels_per_example":  # neither more nor fewer is better: nearness to the truth is
        values = {
            name: -abs(value - decoders[name].get("true_labels_per_example", 0)) for name, value in values.items()
        }
    if len({score(value) for value in values.values()}) < 2:
        return set()
    best = score(max(values.values()))
    return {name for name, value in values.items() if score(value) == best}


def _select_metric(card: dict[str, Any]) -> str:
    training = (card.get("config") or {}).get("training") or {}
    return training.get("select_metric") or "micro_f1"


def learning_curves(history: list[dict[str, Any]], decoders: list[str], metric: str) -> list[Chart]:
    """Training loss with its terms, and the metric that picked the checkpoint, by decoder."""
    losses: dict[str, list[Point]] = defaultdict(list)
    validations: dict[str, list[Point]] = defaultdict(list)
    for row in history:
        for name, value in row.items():
            if name.startswith("loss") and value is not None:
                losses[name.removeprefix("loss").removeprefix("_") or "total"].append((row["update"], value))
        for decoder, scores in row.get("validation", {}).items():
            if scores.get(metric) is not None and not math.isnan(scores[metric]):
                validations[decoder].append((row["update"], scores[metric]))
    thin = {name: thinned(points) for name, points in losses.items()}
    grouped = max((size for _, size in thin.values()), default=1)
    charts = [
        line_chart(
            LOSS,
            [Line(name, points, number) for number, (name, (points, _)) in enumerate(thin.items())],
            "updates",
            f"Each point is the mean of {grouped} records." if grouped > 1 else "",
            upward=[0],
            across=[0],
        ),
        line_chart(
            f"Validation: {metric_name(metric)}",
            _decoder_lines(validations, decoders),
            "updates",
            "The dot marks the highest point of each line.",
            across=[0],
            mark_highest=True,
        ),
    ]
    return [chart for chart in charts if chart]


def _decoder_lines(points: dict[str, list[Point]], decoders: list[str]) -> list[Line]:
    order = list(dict.fromkeys([*decoders, *points]))
    return [Line(name, points[name], order.index(name)) for name in order if name in points]


def position_chart(accuracies: dict[str, list[float]], decoders: list[str]) -> dict[str, Any]:
    points = {name: [(float(place), value) for place, value in enumerate(row, 1)] for name, row in accuracies.items()}
    chart = line_chart("Share of right labels", _decoder_lines(points, decoders), "position", upward=[0, 1])
    longest = max((len(row) for row in accuracies.values()), default=0)
    return {"chart": chart, "rows": accuracies, "longest": longest} if chart else {}


def threshold_chart(rows: list[dict[str, float]]) -> Chart | None:
    lines = [
        Line(name, [(row["threshold"], row[name]) for row in rows], number)
        for number, name in enumerate(("precision", "recall"))
    ]
    return line_chart("Precision and recall of all labels together", lines, "threshold", upward=[0, 1], whole=False)


def size_table(counts: list[dict[str, int]]) -> dict[str, Any]:
    """Rows by the true number of labels, columns by the predicted one; numbers from `LARGEST_SIZE` on share a place."""
    found: dict[tuple[int, int], int] = defaultdict(int)
    for row in counts:
        found[min(row["true"], LARGEST_SIZE), min(row["predicted"], LARGEST_SIZE)] += row["count"]
    if not found:
        return {}
    largest = max(max(pair) for pair in found)
    sizes = range(min(min(pair) for pair in found), largest + 1)
    rows = {true: [found[true, predicted] for predicted in sizes] for true in sizes}
    right = sum(number for (true, predicted), number in found.items() if true == predicted)
    return {
        "sizes": sizes,
        "open": largest == LARGEST_SIZE,
        "rows": rows,
        "right": right / sum(found.values()),
        "shares": {true: [number / max(sum(row), 1) for number in row] for true, row in rows.items()},
    }


def occurring(per_label: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Labels that are true or predicted at least once, most frequent first."""
    rows = [row for row in per_label if row["support"] or row["predicted"]]
    return sorted(rows, key=lambda row: (-row["support"], row["label"]))


def label_tables(labels: list[dict[str, Any]]) -> dict[str, Any]:
    """A short list as it is. Of a long one those with most mistakes and the most frequent, and the next ones folded."""
    if len(labels) <= LABELS_SHOWN:
        return {"shown": {"Most frequent first": labels}, "others": [], "left_out": 0} if labels else {}
    half = LABELS_SHOWN // 2
    worst = sorted(labels, key=lambda row: (-mistakes(row), row["label"]))[:half]
    return {
        "shown": {
            f"The {half} labels with the most mistakes": worst,
            f"The {half} most frequent labels": labels[:half],
        },
        "others": labels[half : half + LABELS_FOLDED],
        "left_out": max(len(labels) - half - LABELS_FOLDED, 0),
    }


def how_examples_were_chosen(examples: list[dict[str, Any]]) -> str:
    right = sum(all(kind == "right" for kind, _ in example["chips"]) for example in examples)
    wrong = len(examples) - right
    mistaken = "wrong prediction" if wrong == 1 else f"{wrong} wrong predictions"
    parts = [f"the {mistaken} with the highest probability"] if wrong else []
    parts += ["the first right prediction" if right == 1 else f"the first {right} right predictions"] if right else []
    return f"Shown are {' and, below them, '.join(parts)}. They are not a representative sample."


def at_k_rows(found: dict[str, dict[str, float]]) -> list[tuple[str, str, list[float]]]:
    """By whose probabilities, which score, and its values at 1, 3, 5 and 10 labels."""
    names = {"br": "Binary relevance", "sequence": "Label decoder"}
    return [
        (names[by], title, [scores[f"{name}@{k}"] for k in PLACES])
        for by, scores in found.items()
        for name, title in TITLES.items()
    ]


def judged_labels(target: list[str], predicted: list[str]) -> list[tuple[str, str]]:
    """Predicted labels in the order they were generated, then what is missing."""
    chips = [("right" if label in target else "wrong", label) for label in predicted]
    return chips + [("missed", label) for label in target if label not in predicted]


def shown_example(example: dict[str, Any]) -> dict[str, Any]:
    chips = judged_labels(example.get("target") or [], example.get("predicted") or [])
    text = example.get("text") or ""
    log_prob = example.get("log_prob")
    return {
        "id": example.get("id", ""),
        "text": text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT].rsplit(maxsplit=1)[0] + " …",
        "chips": chips,
        "probability": None if log_prob is None else math.exp(min(log_prob, 0.0)),
        "generation": example.get("generation") or {},
        "possible": example.get("possible"),
    }
