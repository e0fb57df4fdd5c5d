"""RCV1-V2: the 14,423 of its 804,414 documents whose term numbers are public."""

from __future__ import annotations

from pathlib import Path

from .catalogue import CorpusInfo, Parts, corpus, part_of_file, printed_row

ADVICE = (
    "The subset belongs in the folder rcv1: subsets_train.jsonl.gz, subsets_val.jsonl.gz and subsets_test.jsonl.gz. "
    "The whole collection is lyrl2004_tokens_*.dat with rcv1-v2.topics.qrels (appendices of Lewis et al., JMLR 2004): "
    "these can be given to `orderfree train` and `orderfree split` with --format lyrl2004."
)


@corpus(
    CorpusInfo(
        "rcv1-subset",
        "RCV1-V2, 14,423 documents as term numbers",
        ADVICE,
        comparable="no",
        caveat="A small part of the collection with too many rare topics; M143 was lost, so that 102 are left. Words "
        "are term numbers, each once a document, the heaviest first; their order says nothing else.",
        printed=printed_row(802_414, 1_000, 1_000, 103, 123.94, 3.24),
    )
)
def load_rcv1_subset(root: Path, seed: int) -> Parts:
    """The split that its README describes; it does not depend on the seed."""
    files = {"train": "train", "valid": "val", "test": "test"}
    return {part: part_of_file(root / "rcv1" / f"subsets_{name}.jsonl.gz", ADVICE) for part, name in files.items()}
