"""Labels that look like mistakes of the file: what a user should hear before a model is trained on them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

SEPARATORS = (";", "|", ",")
SHOWN = 3


def label_warnings(counts: Mapping[str, int], separator: str | None) -> Iterator[str]:
    """One sentence for each kind of mistake, with the setting that repairs it. `separator`: what cells of the file were
    split at; None where it holds lists."""
    if separator is not None and (other := forgotten_separator(counts, separator)):
        example = next(name for name in counts if other in name)
        yield (
            f"warning: labels such as {example!r} look like several joined by {other!r}; "
            f'--set "data.label_separator={other}" splits them'
        )
    if twins := case_twins(counts):
        shown = "; ".join(", ".join(names) for names in twins[:SHOWN])
        yield (
            f"warning: {sum(map(len, twins)):,} labels differ from another in case only ({shown}); "
            "--set data.label_case=lower joins them"
        )


def forgotten_separator(counts: Mapping[str, int], separator: str) -> str | None:
    """Another separator that stands in many labels, and between parts most of which recur."""
    for other in SEPARATORS:
        joined = [name for name in counts if other in name.strip(other)]
        if other == separator or len(joined) < max(2, 0.1 * len(counts)):
            continue
        parts = Counter(part.strip() for name in counts for part in name.split(other) if part.strip())
        inside = [part.strip() for name in joined for part in name.split(other) if part.strip()]
        if sum(parts[part] > 1 for part in inside) > 0.6 * len(inside):
            return other
    return None


def case_twins(counts: Mapping[str, int]) -> list[list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in counts:
        groups[name.casefold()].append(name)
    return sorted((sorted(names) for names in groups.values() if len(names) > 1), key=lambda names: names[0])
