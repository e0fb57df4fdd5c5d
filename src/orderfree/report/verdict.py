"""The first screen of a report: whether the model can be used, for which labels, how, and what would make it better."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

BEST = "best:"  # as in `decisions`, which imports torch: a page of results must not wait for it
WORKS, FAILS = 0.8, 0.5  # F1 from which a label works, and below which it does not
FEWEST = 5  # examples of a label in the data below which its F1 says next to nothing
FEW_IN_TRAINING = 50  # examples below which more of them are the first thing to try
NAMED = 8  # labels of each kind that are named

STATEMENTS = {
    "micro_precision": "of 100 predicted labels are right",
    "micro_recall": "of 100 true labels are found",
    "subset_accuracy": "of 100 examples get exactly the right labels",
}
GOALS = {
    "micro_f1": "all labels together",
    "macro_f1": "all labels equally, including rare ones",
    "example_f1": "all examples equally",
    "subset_accuracy": "exactly right sets",
    "hamming_accuracy": "few wrong single decisions",
}

LabelRow = dict[str, Any]  # a row of `per_label`


def verdict(evaluation: dict[str, Any], decoder: str, trained_on: dict[str, int]) -> dict[str, Any]:
    """`decoder` is the recommended one; `trained_on` has the number of training examples by label."""
    decoders = evaluation.get("decoders") or {}
    labels = judged(evaluation.get("per_label") or [])
    return {
        "statements": statements(decoders.get(decoder, {}), (evaluation.get("intervals") or {}).get(decoder, {})),
        "labels": labels,
        "goals": goals(decoders, decoder) if len(decoders) > 1 else [],  # one that was asked for is no recommendation
        "advice": advice(labels, trained_on) if labels else {},
        "works_from": WORKS,
        "fails_below": FAILS,
        "fewest": FEWEST,
        "named": NAMED,
    }


def statements(scores: dict[str, float], intervals: dict[str, list[float]]) -> list[dict[str, str]]:
    return [
        {"number": of_hundred(scores[metric]), "words": words, "range": _range(intervals.get(metric))}
        for metric, words in STATEMENTS.items()
        if scores.get(metric) is not None
    ]


def of_hundred(share: float) -> str:
    """A whole number; 0 and 100 are said only where they are exact."""
    return str(round(100 * share) if share in (0.0, 1.0) else min(max(round(100 * share), 1), 99))


def _range(interval: list[float] | None) -> str:
    if not interval:
        return ""
    low, high = map(of_hundred, interval)
    return low if low == high else f"{low} to {high}"


def goals(decoders: dict[str, dict[str, float]], recommended: str) -> list[dict[str, Any]]:
    """The recommended decision, and those for another goal whose numbers are not the same, each with what it gives."""
    goal = GOALS.get(recommended.removeprefix(BEST))
    names = {recommended: f"recommended: {goal}" if goal else "recommended"} | {
        BEST + metric: words for metric, words in GOALS.items() if BEST + metric != recommended
    }
    rows = [
        {
            "goal": words,
            "option": f"--optimize-for {name.removeprefix(BEST)}" if name.startswith(BEST) else f"--decode {name}",
            "recommended": name == recommended,
            "values": [of_hundred(decoders[name][metric]) for metric in STATEMENTS],
        }
        for name, words in names.items()
        if name in decoders and all(metric in decoders[name] for metric in STATEMENTS)
    ]
    return [row for row in rows if row["recommended"] or row["values"] != rows[0]["values"]]


def judged(per_label: Iterable[LabelRow]) -> dict[str, list[LabelRow]]:
    """Labels that work, that do not, and in between, the most frequent first; and those too rare to tell."""
    groups: dict[str, list[LabelRow]] = {"work": [], "between": [], "fail": [], "rare": []}
    for row in sorted(per_label, key=lambda row: (-row["support"], row["label"])):
        if row["support"] < FEWEST:
            groups["rare"].append(row)
        else:
            groups["work" if row["f1"] >= WORKS else "between" if row["f1"] >= FAILS else "fail"].append(row)
    return groups if any(groups.values()) else {}


def mistakes(row: LabelRow) -> float:
    """Examples where the label was missed or predicted wrongly."""
    return float(row["support"] * (1 - row["recall"]) + row["predicted"] * (1 - row["precision"]))


def advice(labels: dict[str, list[LabelRow]], trained_on: dict[str, int]) -> dict[str, list[LabelRow]]:
    """`collect`: labels that do not work well and have few training examples. `check`: labels that do not work although
    they have many. Both by falling number of mistakes."""
    weak = [{**row, "trained_on": trained_on.get(row["label"])} for row in (*labels["fail"], *labels["between"])]
    weak.sort(key=lambda row: (-mistakes(row), row["label"]))
    known = [row for row in weak if row["trained_on"] is not None]
    collect = [row for row in known if row["trained_on"] < FEW_IN_TRAINING]
    check = [row for row in known if row["trained_on"] >= FEW_IN_TRAINING and row["f1"] < FAILS]
    return {"collect": collect, "check": check}
