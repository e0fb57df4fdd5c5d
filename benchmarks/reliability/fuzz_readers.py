"""Feeds bytes that a coverage-guided fuzzer (atheris) makes up to every reader: examples or a `DataError`, no more.

    pip install atheris
    python benchmarks/reliability/fuzz_readers.py -max_total_time=60

The options are libFuzzer's. An input that ends in anything else is printed and written to a file, and the exit code is
not 0. `tests/properties/test_hostile_files.py` does the same with hypothesis, and runs with every test.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["orderfree"]):
    from orderfree.config import DataConfig
    from orderfree.data.readers import read_examples, readers
    from orderfree.errors import DataError

FORMATS = readers.names()
PLACE = Path(tempfile.mkdtemp())
(PLACE / "rcv1-v2.topics.qrels").write_text("E11 1 1\nECAT 2 1\n", encoding="utf-8")  # what lyrl2004 looks for


def read_any_format(content: bytes) -> None:
    """The first byte chooses format and whether labels are wanted; the rest is the file, and that of the labels."""
    if not content:
        return
    number, labelled = divmod(content[0], 2)
    for name in ("text", "label"):
        (PLACE / name).write_bytes(content[1:])
    options = DataConfig(format=FORMATS[number % len(FORMATS)])
    try:
        for _ in read_examples(PLACE / "text", options, labelled=bool(labelled)):
            pass
    except DataError:
        pass


if __name__ == "__main__":
    atheris.Setup(sys.argv, read_any_format)
    atheris.Fuzz()
