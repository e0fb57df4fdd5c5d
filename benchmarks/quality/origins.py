"""Where the figures of the page come from: how systems were tuned, what made each row, and where `fast` is behind."""

from __future__ import annotations

import statistics
import subprocess
from functools import cache
from typing import Any

from layout import HERE, METRICS

Result = dict[str, Any]
Found = dict[str, list[Result]]  # system -> its results, seeds in order
SHORT = {
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "example_f1": "example-F1",
    "subset_accuracy": "subset accuracy",
    "hamming_accuracy": "Hamming accuracy",
}
DEFAULT = "fast"


@cache
def in_history(commit: str) -> bool:
    """Whether a result was made with code that anybody can check out."""
    if not commit or commit.endswith("-dirty"):
        return False
    command = ["git", "merge-base", "--is-ancestor", commit, "HEAD"]
    return subprocess.run(command, cwd=HERE, capture_output=True, check=False).returncode == 0


def mean_scores(results: list[Result], part: str) -> dict[str, float]:
    return {m: statistics.fmean(result["parts"][part]["scores"][m] for result in results) for m in METRICS}


def standing(corpus: str, found: Found, part: str) -> str:
    """One line: on which metrics which opponents have a higher score than `fast`."""
    ours = mean_scores(found[DEFAULT], part)
    behind = []
    for metric in METRICS:
        theirs = {name: mean_scores(results, part)[metric] for name, results in found.items() if not is_ours(results)}
        digits = 4 if metric == "hamming_accuracy" else 3
        higher = {name: value for name, value in theirs.items() if round(value, digits) > round(ours[metric], digits)}
        if higher:
            named = ", ".join(f"{name} {decimal(value, digits)}" for name, value in sorted(higher.items()))
            behind.append(f"{SHORT[metric]} ({decimal(ours[metric], digits)}; {named})")
    told = f"behind on {'; '.join(behind)}; ahead of all or level on the others" if behind else "behind on no metric"
    others = [results[0]["choices"]["micro_f1"] for results in found.values() if not is_ours(results)]
    older = sum("tried" not in choice for choice in others)
    few = f" ({older} of them with less freedom, marked `before` under choices)" if older else ""
    return f"- **{corpus}**, {len(others)} other system{'s' * (len(others) != 1)}{few}: {told}."


def is_ours(results: list[Result]) -> bool:
    return bool(results[0]["ours"])


def decimal(value: float, digits: int, sign: bool = False) -> str:
    """.551, as elsewhere in these pages; 1.000 keeps its one, and what rounds to nothing has no sign."""
    value = round(value, digits) or 0.0
    return f"{value:{'+' if sign and value else ''}.{digits}f}".replace("-", "−").replace("0.", ".", 1)


def tuning_rows(found: Found) -> list[list[str]]:
    """For each system what was chosen for each metric, and the values of C that were tried."""
    rows = []
    for name, results in found.items():
        choices = results[0]["choices"]
        tried = choices["micro_f1"].get("tried")
        values = "" if is_ours(results) else "before" if tried is None else " ".join(f"{c:g}" for c in tried)
        rows.append([title(name, results), *(_choice(choices[metric]) for metric in METRICS), values])
    return rows


def _choice(choice: dict[str, Any]) -> str:
    threshold = choice["threshold"]
    kind = "" if threshold is None else "each" if isinstance(threshold, list) else "one"
    if "decoder" not in choice:
        return f"C {choice['c']:g}, {kind}" if "c" in choice else f"{choice['epochs']:g} epochs, {kind}"
    power = choice.get("br_power")
    return choice["decoder"] + (f", {kind}" if kind else "") + (f", power {power:g}" if power is not None else "")


def title(name: str, results: list[Result]) -> str:
    shown = f"orderfree `{name}`" if is_ours(results) else name
    return shown if all(in_history(result["commit"]) for result in results) else f"{shown} ‡"


def run_rows(found: Found) -> list[list[str]]:
    """For each system: command, commits and versions of the libraries that solve it."""
    rows = []
    for name, results in found.items():
        seeds = " ".join(str(result["seed"]) for result in results)
        command, _, _ = results[0]["command"].partition(" --seeds")
        commits = ", ".join(dict.fromkeys(result["commit"][:8] for result in results if in_history(result["commit"])))
        versions = results[0]["versions"]
        needed = ["torch"] if is_ours(results) else ["scikit-learn"] if "c" in results[0]["choices"]["micro_f1"] else []
        needed += [library for library in versions if name.startswith(library)]
        libraries = ", ".join(f"{library} {versions[library]}" for library in needed)
        rows.append([title(name, results), f"`{command} --seeds {seeds}`", commits or "‡", libraries])
    return rows


def is_current(test: dict[str, Any], found: Found) -> bool:
    """Whether a paired test is of the very predictions that the result files are of."""
    if not {test["ours"], test["theirs"]} <= found.keys():
        return False
    ours = [result for result in found[test["ours"]] if result["seed"] in test["seeds"]]
    if len(ours) != len(test["seeds"]):
        return False
    theirs = mean_scores(found[test["theirs"]][:1], test["part"])
    own = mean_scores(ours, test["part"])
    return all(abs(test["metrics"][m]["difference"] - (own[m] - theirs[m])) < 1e-9 for m in METRICS)
