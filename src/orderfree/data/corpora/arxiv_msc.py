"""arXiv abstracts of mathematics with thousands of labels: the codes of the Mathematics Subject Classification."""

from __future__ import annotations

from pathlib import Path

from .catalogue import CorpusInfo, Parts, corpus, part_of_file

FILES = {"train": "train", "valid": "val", "test": "test"}
ADVICE = (
    "The abstracts belong in the folder arxiv_msc: train.jsonl.gz, val.jsonl.gz and test.jsonl.gz, one object with id, "
    "text (title and abstract) and labels (MSC codes) a line. They are made from arXiv's metadata (CC0), whose field "
    "msc-class has the codes."
)


@corpus(
    CorpusInfo(
        "arxiv-msc",
        "arXiv abstracts of mathematics, 5,144 codes of the Mathematics Subject Classification",
        ADVICE,
        comparable="no",
        caveat="The paper has no such corpus. Split by time: the newest tenth of the papers is validation and test, "
        "whatever the seed. Codes of fewer than three training papers are left out. Authors choose the codes, and "
        "often leave some out.",
        printed=None,
    )
)
def load_arxiv_msc(root: Path, seed: int) -> Parts:
    """The split of the files; it does not depend on the seed."""
    return {part: part_of_file(root / "arxiv_msc" / f"{file}.jsonl.gz", ADVICE) for part, file in FILES.items()}
