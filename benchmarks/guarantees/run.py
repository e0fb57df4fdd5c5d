"""Promises against what is achieved, over many random splits of held-out data into calibration and test.

    python benchmarks/guarantees/run.py [--splits 200] [--calibration 1000] [--work runs/guarantees]

Reads what `models.py` has stored; writes benchmarks/results/guarantees.json and docs/results/figures/guarantees.*.
A promise on average holds if the mean over splits reaches it; one with confidence 0.95, if 95 % of the splits do. The
test part of a split is itself a sample, so that a share of splits carries its noise as well.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from models import WORK

from orderfree.checkpoint import versions
from orderfree.inference import Predictor
from orderfree.metrics.calibration import expected_calibration_error
from orderfree.promises.labels import Cells, Refusal, precision_threshold, recall_threshold
from orderfree.promises.sets import list_lengths, list_limit, true_scores
from orderfree.report.figure_style import BLACK, BLUE, GREEN, VERMILION, canvas, in_style, legend, save
from orderfree.system.files import write_json

ROOT = Path(__file__).resolve().parents[2]
CORPORA = ("toy", "reuters", "rcv1-subset", "aapd")
PROMISES = (  # kind, level, confidence
    *(("recall", level, None) for level in (0.8, 0.9, 0.95)),
    ("recall", 0.9, 0.95),
    *(("precision", level, 0.95) for level in (0.8, 0.9, 0.95)),
    *(("candidates", level, None) for level in (0.8, 0.9, 0.95)),
    ("candidates", 0.9, 0.95),
)
Outcome = dict[str, float] | None  # of one split; None: the promise was refused


class HeldOut:
    """What a model says of held-out examples."""

    def __init__(self, folder: Path) -> None:
        stored = np.load(folder / "held_out.npz")
        limits = Predictor.load(folder / "model").limits
        missed = stored["unknown"].astype(int)
        self.recall = Cells.of(stored["br"], stored["targets"], limits.min_labels, limits.max_labels)
        self.recall = self.recall.with_missed(missed)
        self.precision = Cells.of(stored["br"], stored["targets"], 0, limits.max_labels)
        self.probs, self.place = stored["set_probs"], stored["true_place"]
        self.scores = true_scores(self.probs, self.place)

    def outcome(self, kind: str, level: float, confidence: float | None, own: np.ndarray, new: np.ndarray) -> Outcome:
        """On `new` examples, of a promise made on `own` ones."""
        if kind == "candidates":
            limit = list_limit(self.scores[own], level, confidence)
            return None if isinstance(limit, Refusal) else self._lists(limit, new)
        if kind == "recall":
            found = recall_threshold(self.recall.of_examples(own), level, confidence)
        else:
            assert confidence is not None
            found = precision_threshold(self.precision.of_examples(own), level, confidence)
        if isinstance(found, Refusal):
            return None
        cells = (self.recall if kind == "recall" else self.precision).of_examples(new)
        losses = cells.recall_losses(found) if kind == "recall" else cells.precision_losses(found)
        predicted = float((cells.probs >= found).sum() / cells.examples)
        return {"achieved": 1 - float(losses.mean()), "labels_per_example": predicted}

    def _lists(self, limit: float, new: np.ndarray) -> dict[str, float]:
        lengths, outside = list_lengths(self.probs[new], limit)
        covered = np.where(self.place[new] < 0, outside, self.place[new] < lengths)
        return {
            "achieved": float(covered.mean()),
            "median_length": float(np.median(lengths)),
            "mean_length": float(lengths.mean()),
            "outside": float(outside.mean()),
        }

    def abstention(self) -> dict[str, float]:
        """Subset accuracy of the most probable set, on all and on the surest half."""
        right, sure = self.place == 0, self.probs[:, 0]
        half = np.argsort(-sure, kind="stable")[: len(sure) // 2]
        return {
            "all": float(right.mean()),
            "surest_half": float(right[half].mean()),
            "set_calibration_error": expected_calibration_error(sure.clip(0, 1), right) or 0.0,
        }


def measured(held: HeldOut, splits: int, calibration: int) -> list[dict[str, Any]]:
    rows = []
    for kind, level, confidence in PROMISES:
        outcomes = []
        for split in range(splits):
            order = np.random.default_rng(split).permutation(len(held.place))
            outcomes.append(held.outcome(kind, level, confidence, order[:calibration], order[calibration:]))
        kept = [outcome for outcome in outcomes if outcome is not None]
        achieved = np.array([outcome["achieved"] for outcome in kept])
        row: dict[str, Any] = {"kind": kind, "level": level, "confidence": confidence, "refused": splits - len(kept)}
        if kept:
            row |= {
                "mean": float(achieved.mean()),
                "median": float(np.median(achieved)),
                "lowest_and_highest_twentieth": np.quantile(achieved, [0.05, 0.95]).tolist(),
                "splits_that_reach_it": float(np.mean(achieved >= level)),
            }
            for name in kept[0].keys() - {"achieved"}:
                row[name] = float(np.median([outcome[name] for outcome in kept]))
        rows.append(row)
    return rows


@in_style
def draw(results: dict[str, Any], path: Path) -> None:
    """Promised against achieved: the median split, and nine tenths of them."""
    figure, every = canvas(3, f"Promised and achieved, {results['splits']} random splits", width=11)
    looks = dict(zip(CORPORA, zip((BLACK, BLUE, GREEN, VERMILION), "osD^", strict=True), strict=True))
    panels = (("recall", None), ("precision", 0.95), ("candidates", None))
    for place, (kind, confidence) in enumerate(panels):
        axes = every[place]
        axes.plot([0.75, 1], [0.75, 1], color="#999999", linestyle="--", linewidth=1)
        for shift, corpus in enumerate(results["corpora"]):
            color, marker = looks[corpus]
            made = results["corpora"][corpus]["promises"]
            rows = [row for row in made if (row["kind"], row["confidence"]) == (kind, confidence)]
            for row in rows:
                if "median" not in row:
                    continue
                at = row["level"] + 0.008 * (shift - 1.5)
                axes.plot([at, at], row["lowest_and_highest_twentieth"], color=color)
                label = corpus if row is rows[0] else None
                axes.plot(at, row["median"], color=color, marker=marker, linestyle="none", label=label)
        sure = "on average" if confidence is None else f"confidence {confidence:g}"
        axes.set(title=f"{kind}, {sure}", xlabel="promised", ylabel="achieved" if place == 0 else "")
        axes.set(xlim=(0.76, 0.99), ylim=(0.74, 1.0))
    legend(figure, every[0])
    save(figure, path)


def commit() -> str:
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--calibration", type=int, default=1000, help="examples of each split a promise is made on")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "guarantees.json")
    parser.add_argument("--figure", type=Path, default=ROOT / "docs" / "results" / "figures" / "guarantees")
    arguments = parser.parse_args()
    corpora = {}
    for corpus in CORPORA:
        if not (arguments.work / corpus / "held_out.npz").exists():
            print(f"{corpus}: left out, run models.py first")
            continue
        held = HeldOut(arguments.work / corpus)
        corpora[corpus] = {
            "examples": len(held.place),
            "promises": measured(held, arguments.splits, arguments.calibration),
            "abstention": held.abstention(),
        }
        print(f"{corpus}: done", flush=True)
    results = {
        "command": f"python benchmarks/guarantees/run.py --splits {arguments.splits} "
        f"--calibration {arguments.calibration}",
        "splits": arguments.splits,
        "calibration": arguments.calibration,
        "corpora": corpora,
        "versions": versions(),
        "commit": commit(),
    }
    write_json(arguments.out, results)
    draw(results, arguments.figure)


if __name__ == "__main__":
    main()
