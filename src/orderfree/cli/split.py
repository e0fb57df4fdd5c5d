"""`orderfree split`: two passes, so that memory does not grow with the texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..config import DataConfig
from ..data.readers import detect_format, read_examples
from ..data.splits import stratified_split
from ..data.writers import write_examples
from ..errors import OrderfreeError


def split_file(path: Path, outs: list[Path], fractions: list[float], seed: int, data: DataConfig) -> list[int]:
    """Writes every part in the format its name tells; the sizes of the parts."""
    if len(outs) != len(fractions) or len(outs) < 2:
        raise OrderfreeError(
            f"{len(outs)} --out and {len(fractions)} --fraction: expected the same number, at least two."
        )
    if not (all(share > 0 for share in fractions) and abs(sum(fractions) - 1) <= 1e-6):  # so that nan fails too
        raise OrderfreeError(f"--fraction {fractions}: expected positive shares that sum to 1.")
    if str(path) == "-":
        raise OrderfreeError("a split reads its file twice, so it cannot come from standard input; give a file.")
    existing = [out for out in outs if out.exists()]
    if existing or len(set(outs)) < len(outs):
        raise OrderfreeError(
            f"{(existing or outs)[0]}: already exists or is named twice; give a new file to each part."
        )
    formats = [detect_format(str(out)) for out in outs]
    ids: dict[str, int] = {}
    label_sets = [
        [ids.setdefault(label, len(ids)) for label in example.labels or ()]
        for example in read_examples(path, data, labelled=True)
    ]
    parts = stratified_split(label_sets, fractions, seed)
    part_of = np.zeros(len(label_sets), dtype=np.int16)
    for part, rows in enumerate(parts):
        part_of[rows] = part
    empty = [out for out, rows in zip(outs, parts, strict=True) if not len(rows)]
    if empty:
        raise OrderfreeError(f"{empty[0]}: no example would fall to this part; give it a larger --fraction.")
    written: list[Path] = []
    try:
        for part, (out, kind) in enumerate(zip(outs, formats, strict=True)):
            examples = read_examples(path, data, labelled=True)
            mine = (example for place, example in enumerate(examples) if part_of[place] == part)
            write_examples(mine, out, kind, data)
            written.append(out)
    except BaseException:  # all parts or none
        for out in written:
            out.unlink(missing_ok=True)
        raise
    return [len(rows) for rows in parts]
