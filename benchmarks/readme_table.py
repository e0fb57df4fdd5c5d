"""Writes the table of README.md from the result files of benchmarks/quality: `python benchmarks/readme_table.py`.

A corpus has a column as soon as one of the systems has been measured on it; what has not been measured is –."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "quality" / "results"
BEGIN, END = "<!-- table: quality -->\n", "<!-- end -->"
CORPORA = {"reuters": "Reuters", "aapd": "AAPD", "rcv1-subset": "RCV1", "arxiv-msc": "MSC"}
SYSTEMS = {
    "fast": "orderfree `fast` (default)",
    "best": "orderfree `best` (with MiniLM embeddings)",
    "svm": "linear SVM on tf-idf",
    "libmultilabel-1vsrest": "LibMultiLabel, one-vs-rest",
    "libmultilabel-thresholding": "LibMultiLabel, thresholds per label",
}
METRICS = ("micro_f1", "macro_f1", "subset_accuracy")
NOT_MEASURED = "–"


def table(results: Path) -> list[str]:
    found = {(system, corpus): _results(results, system, corpus) for system in SYSTEMS for corpus in CORPORA}
    corpora = [corpus for corpus in CORPORA if any(found[system, corpus] for system in SYSTEMS)]
    lines = [["system", *(CORPORA[corpus] for corpus in corpora)], ["---", *["---:"] * len(corpora)]]
    for system, name in SYSTEMS.items():
        if any(found[system, corpus] for corpus in corpora):
            lines.append([name, *(_cell(found[system, corpus]) for corpus in corpora)])
    return ["| " + " | ".join(line) + " |" for line in lines]


def _results(results: Path, system: str, corpus: str) -> list[dict[str, float]]:
    """The test scores of every seed."""
    files = sorted((results / corpus / system).glob("seed*.json"))
    parts: list[dict[str, Any]] = [json.loads(path.read_text(encoding="utf-8"))["parts"] for path in files]
    return [part["test"]["scores"] for part in parts if "test" in part]


def _cell(scores: list[dict[str, float]]) -> str:
    if not scores:
        return NOT_MEASURED
    means = (statistics.fmean(one[metric] for one in scores) for metric in METRICS)
    return " · ".join(f"{mean:.3f}".removeprefix("0") for mean in means)


def filled(page: str, results: Path = RESULTS) -> str:
    before, begin, behind = page.partition(BEGIN)
    _, end, after = behind.partition(END)
    assert end, f"{PAGE}: no place for the table"
    return "\n".join([before + begin, *table(results), "", end + after])


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
