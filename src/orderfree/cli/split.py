"""`orderfree split`: two passes, so that memory does not grow with the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ..config import DataConfig
from ..data.readers import ReadCounts, detect_format, read_examples, resolve
from ..data.seen import TextCounter
from ..data.splits import part_of_each
from ..data.writers import write_examples, written_files
from ..errors import OrderfreeError


def split_file(
    path: Path, outs: list[Path], fractions: list[float], seed: int, data: DataConfig, say: Callable[[str], None]
) -> list[int]:
    """Writes every part in the format its name tells; the sizes of the parts. What was left out is said."""
    if len(outs) != len(fractions) or len(outs) < 2:
        raise OrderfreeError(
            f"{len(outs)} --out and {len(fractions)} --fraction: expected the same number, at least two."
        )
    if not (all(share > 0 for share in fractions) and abs(sum(fractions) - 1) <= 1e-6):  # so that nan fails too
        raise OrderfreeError(f"--fraction {fractions}: expected positive shares that sum to 1.")
    if str(path) == "-":
        raise OrderfreeError("a split reads its file twice, so it cannot come from standard input; give a file.")
    formats = [detect_format(str(out)) for out in outs]
    written_to = [file for out, kind in zip(outs, formats, strict=True) for file in written_files(out, kind)]
    existing = [file for file in written_to if file.exists()]
    if existing or len({file.resolve() for file in written_to}) < len(written_to):
        raise OrderfreeError(
            f"{(existing or outs)[0]}: already exists or is named twice; give a new file to each part."
        )
    counts, texts = ReadCounts(), TextCounter()

    def label_sets() -> Iterator[tuple[str, ...]]:
        for example in read_examples(path, data, labelled=True, counts=counts):
            texts.add(example)
            yield example.labels or ()

    part_of = part_of_each(label_sets(), fractions, seed)
    sizes = np.bincount(part_of, minlength=len(outs)).tolist()
    empty = [out for out, size in zip(outs, sizes, strict=True) if not size]
    if empty:
        raise OrderfreeError(f"{empty[0]}: no example would fall to this part; give it a larger --fraction.")
    for note in counts.notes():
        say(note)
    if repeated := texts.found()["repeated"]:
        say(f"{repeated:,} texts stand in the file before; copies of a text may fall into different parts")
    columns, _ = resolve(path, data)
    written = columns.model_copy(update={"label_columns": None})
    if columns.more_text_fields:  # their texts are joined in one column
        written = written.model_copy(update={"text_field": "text"})
    finished: list[Path] = []
    try:
        for part, (out, kind) in enumerate(zip(outs, formats, strict=True)):
            examples = read_examples(path, columns, labelled=True)
            mine = (example for place, example in enumerate(examples) if part_of[place] == part)
            write_examples(mine, out, kind, written)
            finished += written_files(out, kind)
    except BaseException:  # all parts or none
        for out in finished:
            out.unlink(missing_ok=True)
        raise
    return [int(size) for size in sizes]
