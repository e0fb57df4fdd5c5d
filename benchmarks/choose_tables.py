"""Writes the tables of docs/how_to/choose.md from the result files: `python benchmarks/choose_tables.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how_to" / "choose.md"
METRICS = ("micro_f1", "macro_f1", "subset_accuracy")
# what is chosen, the corpus, and the result file
ENCODERS = (
    ("`linear` (`--preset fast`)", "reuters", "benchmarks/quality/results/reuters/fast/seed1.json"),
    (
        "`linear` with MiniLM embeddings (`--preset best`)",
        "reuters",
        "benchmarks/quality/results/reuters/best/seed1.json",
    ),
    ("`bilstm`, a sixth of the paper's size", "reuters", "results/reuters/ocd-mtl/seed1.json"),
    ("for comparison: a linear SVM", "reuters", "benchmarks/quality/results/reuters/svm/seed1.json"),
    ("`linear` (`--preset fast`)", "rcv1-subset", "benchmarks/quality/results/rcv1-subset/fast/seed1.json"),
    ("`sparse`", "rcv1-subset", "results/rcv1-subset/ocd-mtl/seed1.json"),
    ("for comparison: a linear SVM", "rcv1-subset", "benchmarks/quality/results/rcv1-subset/svm/seed1.json"),
)
OBJECTIVES = {
    "br": "`sequence=null`: binary relevance alone",
    "seq2seq": "`sequence=mle`, `br_weight=0`",
    "order-free-rnn": "`sequence=order_free`, `br_weight=0`",
    "ocd": "`sequence=ocd`, `br_weight=0`",
    "ocd-mtl": "`sequence=ocd`, `br_weight=1` (default)",
}


def tables() -> dict[str, list[str]]:
    return {"encoders": _encoders(), "objectives": _objectives(), "decoders": _decoders()}


def _encoders() -> list[str]:
    rows = []
    for name, corpus, path in ENCODERS:
        found = _read(path)
        if "documents_per_second" in found:  # benchmarks/quality: processor time
            part = found["parts"]["test"]
            scores, seconds = part.get("plain", {}).get("joint", part["scores"]), found["seconds"]["fit"]["cpu"]
            speed = _two_digits(found["documents_per_second"]["cpu"])
        else:
            scores, seconds, speed = found["test"]["joint"], found["seconds"]["train"], "–"
        rows.append(
            (
                corpus,
                name,
                _two_digits(seconds) + " †" * bool(found.get("embeddings_found")),
                speed,
                *_scores(scores),
                f"`{path}`",
            )
        )
    return _table("corpus | encoder | training s | documents/s | micro-F1 | macro-F1 | subset acc. | file", rows, 2)


def _objectives() -> list[str]:
    rows = []
    for corpus in ("reuters", "rcv1-subset"):
        for method, name in OBJECTIVES.items():
            path = f"results/{corpus}/{method}/seed1.json"
            found = _read(path)
            decoder = next(d for d in ("joint", "beam", "br") if d in found["test"])
            new = f"{found['combinations'][decoder]['unseen']} / {found['combinations']['reference']['unseen']}"
            seconds = _two_digits(found["seconds"]["train"])
            rows.append((corpus, name, seconds, *_scores(found["test"][decoder]), new, f"`{path}`"))
    return _table("corpus | objective | training s | micro-F1 | macro-F1 | subset acc. | new sets | file", rows, 2)


def _decoders() -> list[str]:
    found = _read("benchmarks/results/decoders.json")["decoders"]
    rows = []
    for decoder, measured in found.items():
        speed = _two_digits(measured["documents_per_second"])
        rows.append((f"`{decoder}`", speed, *_scores(measured["test"]), f"{measured['test']['example_f1']:.3f}"[1:]))
    return _table("decoder | documents/s | micro-F1 | macro-F1 | subset acc. | example-F1", rows, 1)


def _read(path: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / path).read_text(encoding="utf-8"))
    return content


def _scores(scores: dict[str, float]) -> list[str]:
    return [f"{scores[metric]:.3f}".removeprefix("0") for metric in METRICS]


def _two_digits(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{float(f'{value:.2g}'):,.0f}"


def _table(header: str, rows: list[tuple[Any, ...]], words: int) -> list[str]:
    """A Markdown table whose first columns are words, and the file's name at the end; numbers stand to the right."""
    names = header.split(" | ")
    lines = ["---" if column < words or name == "file" else "---:" for column, name in enumerate(names)]
    return ["| " + " | ".join(map(str, row)) + " |" for row in (names, lines, *rows)]


def filled(page: str) -> str:
    for name, lines in tables().items():
        before, begin, behind = page.partition(f"<!-- table: {name} -->\n")
        _, end, after = behind.partition("<!-- end -->")
        assert end, f"{PAGE}: no place for the table {name}"
        page = "\n".join([before + begin, *lines, "", end + after])
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
