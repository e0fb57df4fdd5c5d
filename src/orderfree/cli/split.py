"""`orderfree split`: two passes, so that memory does not grow with the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ..config import DataConfig
from ..data.kept_rows import write_rows
from ..data.readers import KeptRows, ReadCounts, detect_format, look_at, read_examples, resolve
from ..data.seen import TextCounter
from ..data.splits import part_of_each
from ..data.writers import write_examples, written_files
from ..errors import OrderfreeError
from ..system.wording import counted

SAME_KINDS = ({"csv", "tsv", "xlsx"}, {"jsonl", "json"}, {"parquet"})  # rows of one can stand in the other as they are


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
        rows = counted(repeated, "row repeats", "rows repeat")
        say(f"{rows} an earlier text; copies of a text may end up in different parts")
    columns, _ = resolve(path, data)
    finished: list[Path] = []
    try:
        for part, (out, kind) in enumerate(zip(outs, formats, strict=True)):
            _write_part(path, columns, part_of == part, out, kind, say)
            finished += written_files(out, kind)
    except BaseException:  # all parts or none
        for out in finished:
            out.unlink(missing_ok=True)
        raise
    return [int(size) for size in sizes]


def _write_part(
    path: Path, columns: DataConfig, mine: np.ndarray, out: Path, kind: str, say: Callable[[str], None]
) -> None:
    """The examples that are `mine` (N,): whole rows if both are tables of one kind, else ids, texts and labels."""
    read_kind = detect_format(str(path)) if columns.format == "auto" else columns.format
    if any({read_kind, kind} <= same for same in SAME_KINDS):
        kept = KeptRows()
        examples = read_examples(path, columns, labelled=True, kept=kept)
        rows = (kept.rows.popleft() for _ in examples)
        write_rows((row for row, own in zip(rows, mine, strict=True) if own), kept, str(out), kind)
        return
    if (look := look_at(path, columns)) is not None and len(look.names) > 2:
        say(f"{out}: holds ids, texts and labels; other columns are kept where it is {read_kind} as {path} is")
    written = columns.model_copy(update={"label_columns": None})
    if columns.more_text_fields:  # their texts are joined in one column
        written = written.model_copy(update={"text_field": "text"})
    examples = read_examples(path, columns, labelled=True)
    write_examples((example for example, own in zip(examples, mine, strict=True) if own), out, kind, written)
