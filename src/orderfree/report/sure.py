"""What a report says of how sure a model is: what it reaches where it may leave examples to people, and whether the
probabilities of whole sets can be taken at their word."""

from __future__ import annotations

import math
from typing import Any

from ..metrics.selective import reached
from .figures import Line, line_chart, reliability_chart


def shown_answers(curve: list[dict[str, float]]) -> dict[str, Any]:
    """The curve of quality against the share answered, with the points where a wanted quality is reached."""
    # shown rounded down: rounded up, those that are exactly as sure would be withheld
    points = [{**row, "abstain_below": math.floor(1e5 * row["abstain_below"]) / 1e5} for row in reached(curve)]
    dots = [(row["share"], row["subset_accuracy"]) for row in points]
    lines = [
        Line("exactly right", [(row["share"], row["subset_accuracy"]) for row in reversed(curve)], 0, dots),
        Line("F1", [(row["share"], row["example_f1"]) for row in reversed(curve)], 1),
    ]
    chart = line_chart(
        "Quality of the examples answered",
        lines,
        "share of the examples that is answered",
        "From only the most certain examples (left) to all examples (right). The dots are the rows of the table.",
        upward=[0, 1],
        whole=False,
    )
    if chart is None or len(curve) < 2:
        return {}
    half = min(curve, key=lambda row: abs(row["share"] - 0.5))
    return {"chart": chart, "reached": points, "all": curve[0], "half": half}


def shown_calibrations(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Of labels, where the model gives them probabilities, and under `sets` of whole sets."""
    found = {**(evaluation.get("calibration") or {})}
    found["chart"] = reliability_chart(
        "Share of labels that were true",
        found.get("reliability") or [],
        "predicted probability",
        "Above the dashed line, labels are true more often than predicted; below it, less often. The bars count the "
        "probabilities, on a logarithmic scale: a point above a short bar rests on few.",
    )
    of_labels = evaluation.get("label_calibration") or {}
    found["groups"] = [
        {**row, "title": f"{10 ** (row['group'] - 1):,} to {10 ** row['group'] - 1:,}"}
        for row in of_labels.get("by_digits_of_frequency") or []
    ]
    found["repair"] = of_labels if of_labels.get("repair") not in (None, "none") else None
    sets = {**(evaluation.get("set_calibration") or {})}
    sets["chart"] = reliability_chart(
        "Share of predicted sets that were exactly right", sets.get("reliability") or [], "probability of the set"
    )
    sets["groups"] = [{**row, "title": row["group"]} for row in sets.get("by_size") or []]
    found["sets"] = sets if sets["chart"] else None
    return found if found["chart"] or found["sets"] else {}
