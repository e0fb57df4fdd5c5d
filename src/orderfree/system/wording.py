"""Numbers in the sentences that people read."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 text`, `2 texts`; `many` is the plural where it is not `one` with an s: `counted(2, "row is", "rows are")`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
