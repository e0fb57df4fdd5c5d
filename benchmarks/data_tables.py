"""Writes docs/results/data.md: the paper's table of datasets, ours beside the printed figures.

python benchmarks/data_tables.py                          # the page, from results/data.json
python benchmarks/data_tables.py --count [--data FOLDER]  # counts the corpora first, and writes results/data.json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orderfree.data.corpora import corpora, data_root, load_parts
from orderfree.data.corpora.statistics import count_parts, notes
from orderfree.experiments.paper import COMBINATIONS, REFERENCE, counterpart
from orderfree.system.files import write_json, write_text

ROOT = Path(__file__).parents[1]
COUNTS = ROOT / "results" / "data.json"
PAGE = ROOT / "docs" / "results" / "data.md"
CORPORA = ("reuters", "aapd", "aapd-resplit", "rcv1-subset", "audioset-balanced", "arxiv-msc")
SEED = 1
COLUMNS = {  # key: heading
    "train": "training",
    "valid": "validation",
    "test": "test",
    "labels": "labels",
    "words_per_sample": "words a document",
    "labels_per_sample": "labels a document",
    "label_sets": "label sets",
    "test_sets": "label sets of test",
    "new_sets": "of these not in training",
    "new_documents": "test documents with these",
}
HOW_TO_READ = """# Data: ours beside the paper's

On `reuters` scores can be compared with the paper's, on `aapd` nearly. Our other corpora are smaller than the paper's
or not among them; they compare systems with one another.

Made by `python benchmarks/data_tables.py` from `results/data.json`; do not edit. `--count` counts the corpora anew.

The paper's table "Summary of datasets" has the first six columns; label sets of the test part are the reference of its
table of label combinations. What it does not print is empty. Labels, words and label sets are counted over training,
validation and test together; a word is what stands between blanks. Our figures are those of seed 1, which decides the
validation part of `reuters` and `audioset-balanced` and the parts of `aapd-resplit`.
"""


def counted(data: Path | None) -> dict[str, Any]:
    """corpus -> the counts of its parts, and what to know before comparing them."""
    content: dict[str, Any] = {}
    for name in CORPORA:
        parts = count_parts(load_parts(name, data_root(data), SEED))
        content[name] = {
            "seed": SEED,
            "parts": {part: asdict(statistics) for part, statistics in parts.items()},
            "notes": notes(corpora[name].info, parts),
        }
    return content


def page(content: dict[str, Any]) -> str:
    header = ["corpus", "", *COLUMNS.values()]
    rows = [header, ["---", "---", *["---:"] * len(COLUMNS)]]
    for name, corpus in content.items():
        rows.append([f"`{name}`", "here", *(_shown(_ours(corpus["parts"]).get(key)) for key in COLUMNS)])
        if corpora[name].info.printed:
            rows.append(["", "paper", *(_shown(_printed(name).get(key)) for key in COLUMNS)])
    remarks = [f"- `{name}`: {' '.join(corpus['notes'])}" for name, corpus in content.items()]
    return "\n".join([HOW_TO_READ, *("| " + " | ".join(row) + " |" for row in rows), "", *remarks, ""])


def _ours(parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    together, test = parts["all"], parts["test"]
    return {
        **{part: parts[part]["documents"] for part in ("train", "valid", "test")},
        **{key: together[key] for key in ("labels", "labels_per_sample", "label_sets")},
        "words_per_sample": together["words_per_sample"] or None,  # sounds have none
        "test_sets": test["label_sets"],
        "new_sets": test["unseen_label_sets"],
        "new_documents": test["unseen_documents"],
    }


def _printed(name: str) -> dict[str, Any]:
    reference = COMBINATIONS.get(counterpart(name)[0], {}).get(REFERENCE, {})
    sets = {"test_sets": reference.get("distinct"), "new_sets": reference.get("unseen")}
    return {**(corpora[name].info.printed or {}), **sets}


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", action="store_true", help="read the corpora and write results/data.json first")
    parser.add_argument("--data", type=Path, help="the folder of corpora, as of `orderfree data`")
    arguments = parser.parse_args()
    if arguments.count:
        write_json(COUNTS, counted(arguments.data))
    if not COUNTS.exists():
        raise SystemExit(f"{COUNTS}: there is no such file; run this with --count, which reads the corpora.")
    write_text(PAGE, page(json.loads(COUNTS.read_text(encoding="utf-8"))))
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
