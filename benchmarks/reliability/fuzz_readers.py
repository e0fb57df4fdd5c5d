"""Feeds bytes that a coverage-guided fuzzer (atheris) makes up to the readers, format by format.

    pip install atheris
    python benchmarks/reliability/fuzz_readers.py [--seconds 60] [--formats csv jsonl] [--out FILE]

Every format is fuzzed in a process of its own, from a small good file on. An input must end in examples or in a
`DataError`, with finite features of bounded size, within `MEGABYTES` and `SECONDS`; with `data.skip_bad` a file without
faults is read alike. Ends with 1 if anything else happened, and keeps the input.
`tests/properties/test_hostile_files.py` does the same with hypothesis, and runs with every test.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MEGABYTES, SECONDS = 2048, 60  # for one input, on a busy machine
NOT_HERE = ("nltk-reuters", "texts")  # folders, not files
LARGEST_INPUT = 4096


def read_for_ever(format: str, arguments: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["orderfree.data.readers"]):
        import numpy as np

        from orderfree.config import DataConfig
        from orderfree.data.readers import read_examples
        from orderfree.data.readers.checks import LARGEST_FEATURE
        from orderfree.errors import DataError

    folder = Path(tempfile.mkdtemp())
    (folder / "rcv1-v2.topics.qrels").write_text("E11 1 1\nECAT 2 1\n", encoding="utf-8")  # what lyrl2004 looks for

    def read(labelled: bool, skip_bad: bool) -> dict[int, str] | None:
        found: dict[int, str] = {}
        try:
            options = DataConfig(format=format, skip_bad=skip_bad)
            for place, example in enumerate(read_examples(folder / "text", options, labelled=labelled)):
                values = getattr(example.features, "values", example.features)
                assert values is None or (np.abs(values) <= LARGEST_FEATURE).all(), "features that are too large"
                found[place] = example.id
        except DataError:
            return None
        return found

    def read_twice(content: bytes) -> None:
        """The first byte says whether labels are wanted; the rest is the file, and that of the labels."""
        for name in ("text", "label"):
            (folder / name).write_bytes(content[1:])
        labelled = bool(content[:1] and content[0] % 2)
        whole, rest = read(labelled, skip_bad=False), read(labelled, skip_bad=True)
        assert whole is None or rest == whole, "a file without faults is read otherwise with data.skip_bad"

    atheris.Setup([sys.argv[0], *arguments], read_twice)
    atheris.Fuzz()


def good_files(folder: Path) -> None:
    """A small file to begin with, for every format that can be written; the first byte says: with labels."""
    import numpy as np

    from orderfree.config import DataConfig
    from orderfree.data.writers import WRITERS, write_examples
    from orderfree.types import Example, SparseVector

    vector = SparseVector(np.array([0, 4], np.int32), np.array([0.5, 1.0], np.float32))
    contents: dict[str, dict[str, Any]] = {"libsvm": {"features": vector}, "npz": {"features": np.ones(4, np.float32)}}
    for format in WRITERS:
        (folder / format).mkdir()
        content = contents.get(format, {"text": "red fish, one"})
        labels = ("1", "3") if format == "libsvm" else ("a", "b")
        made = folder / format / "text_good"  # a name that every format takes
        write_examples([Example(str(n), **content, labels=labels) for n in range(3)], made, format, DataConfig())
        made.write_bytes(b"\1" + made.read_bytes())


def fuzz(format: str, seconds: int, folder: Path) -> dict[str, Any]:
    """What libFuzzer says of one format: how many inputs, and what was wrong with the one that ended it."""
    corpus = folder / format
    corpus.mkdir(exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-rss_limit_mb={MEGABYTES}", f"-timeout={SECONDS}"]
    options += [f"-max_len={LARGEST_INPUT}", f"-artifact_prefix={folder}/{format}-", str(corpus)]
    command = [sys.executable, __file__, "--one", format, *options]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    inputs = [int(number) for number in re.findall(r"^#(\d+)", done.stderr, re.MULTILINE)]
    wrong = None if done.returncode == 0 else done.stderr[-2000:]
    return {"inputs": max(inputs, default=0), "wrong": wrong}


def main() -> None:
    from orderfree.checkpoint import versions
    from orderfree.data.readers import readers
    from orderfree.experiments.origin import code_commit

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each format")
    parser.add_argument("--formats", nargs="+", default=[name for name in readers.names() if name not in NOT_HERE])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "fuzz_readers.json")
    arguments = parser.parse_args()
    commit = code_commit(Path(__file__), allow_dirty=True)
    folder = Path(tempfile.mkdtemp())
    good_files(folder)
    found = {}
    for format in arguments.formats:
        found[format] = fuzz(format, arguments.seconds, folder)
        print(f"{format}: {found[format]['inputs']:,} inputs, {found[format]['wrong'] or 'nothing wrong'}", flush=True)
    result = {"seconds": arguments.seconds, "formats": found, "commit": commit, "versions": versions()}
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if any(one["wrong"] for one in found.values()) else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        read_for_ever(sys.argv[2], sys.argv[3:])
    else:
        main()
