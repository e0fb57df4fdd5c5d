"""Labels that look like mistakes of the file: what a user should hear before a model is trained on them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ..system.wording import counted

SEPARATORS = (";", "|", ",", "/", "#", " and ", " & ", " + ", "+", " - ")
BLANK_NAMES = frozenset({"nan", "none", "null", "n/a", "#n/a", "<na>", "-"})  # as programs write an empty cell
SHOWN = 3
RARE = 3  # examples; a label with fewer is hardly learned
NEAR_LENGTH = 6  # letters: shorter names that differ in one are seldom mistakes
MISTYPED = 0.1  # a mistyped name has at most this share of the examples of the right one
MOST_COMPARED = 20_000  # labels
CHARACTERS = "model.encoder_options.chars=5"  # a setting that reads texts without words
_JOINTS = re.compile(r"[\s_\-./]+")


def label_warnings(counts: Mapping[str, int], separator: str | None) -> Iterator[str]:
    """One sentence for each kind of mistake, with the setting that repairs it. `separator`: what cells of the file were
    split at; None where it holds lists."""
    joined = None if separator is None else forgotten_separator(counts, separator)
    if joined:
        example = next(name for name in counts if joined in name)
        yield (
            f"warning: labels such as {example!r} look like several labels joined by {joined!r}; split them with "
            f'--separator "{joined}" (data.label_separator)'
        )
    elif separator is not None and other_blanks(counts, separator):
        yield (
            "warning: most labels consist of words that occur in other labels as well; if blanks separate the labels, "
            'split them with --separator " "'
        )
    if separator is not None and (half := next((name for name in counts if _is_half_a_list(name)), None)):
        yield (
            f"warning: labels such as {half!r} look like parts of a list without quotes; write such cells as "
            'a;b or ["a", "b"]'
        )
    if blank := [name for name in counts if name.casefold() in BLANK_NAMES]:
        yield (
            f"warning: the label {blank[0]!r} of {counted(counts[blank[0]], 'example')} looks like a missing value; "
            "leave these cells empty, or rename the label"
        )
    if twins := case_twins(counts):
        yield (
            f"warning: {sum(map(len, twins)):,} labels differ from another label only in case ({_shown(twins)}); "
            "merge them with --set data.label_case=lower"
        )
    if twins := joint_twins(counts):
        yield (
            f"warning: {sum(map(len, twins)):,} labels differ from another label only in blanks or punctuation "
            f"({_shown(twins)}); correct them in the file"
        )
    if not joined and (near := near_names(counts)):
        pairs = counted(len(near), "label differs from a far", "labels differ from a far")
        yield f"{pairs} more frequent label in one letter ({_shown(near)}); correct the spelling if it is a mistake"


def spelling_note(unseen: Iterable[str], known: Collection[str]) -> str | None:
    """Why labels of a file may be none of a model: they are several in one, or written in another case."""
    folded = {name.casefold() for name in known}
    for name in unseen:
        for separator in SEPARATORS:
            parts = [part.strip() for part in name.split(separator)]
            if len(parts) > 1 and all(part in known for part in parts):
                return f"{name!r} looks like several labels; split such labels with --separator {separator!r}"
        if name.casefold() in folded:
            return f"{name!r} differs from a label of the model only in case; write it in the same way"
    return None


def unspaced_note(unspaced: int, examples: int) -> str | None:
    """How to read texts whose words stand without blanks between them."""
    if 2 * unspaced < examples or not unspaced:
        return None
    texts = f"warning: {counted(unspaced, 'text has', 'texts have')} no blanks between words"
    return f"{texts}; read them as character n-grams with --set {CHARACTERS}"


def rare_note(counts: Mapping[str, int]) -> str | None:
    rare = [name for name, count in counts.items() if count < RARE]
    if not rare:
        return None
    shown = ", ".join(sorted(rare)[:SHOWN])
    more = ", …" * (len(rare) > SHOWN)
    some = f"{len(rare):,} of {counted(len(counts), 'label')} {'has' if len(rare) == 1 else 'have'}"
    return f"{some} fewer than {RARE} examples ({shown}{more}), which is too few to learn from"


def forgotten_separator(counts: Mapping[str, int], separator: str) -> str | None:
    """Another separator that stands in many labels, and between parts most of which recur."""
    for other in SEPARATORS:
        joined = [name for name in counts if other in name.strip(other)]
        if other in separator or len(joined) < max(2, 0.1 * len(counts)):
            continue
        if _parts_recur(counts, joined, lambda name, other=other: name.split(other), 0.6):  # type: ignore[misc]
            return other
    return None


def other_blanks(counts: Mapping[str, int], separator: str) -> bool:
    """Whether labels look like several with blanks between: most hold some, and nearly every word recurs."""
    joined = [name for name in counts if " " in name]
    if separator == " " or len(joined) < max(3, 0.5 * len(counts)):
        return False
    words = {word for name in counts for word in name.split()}
    return len(words) < 0.5 * len(counts) and _parts_recur(counts, joined, str.split, 0.95)


def _parts_recur(names: Iterable[str], joined: list[str], split: Callable[[str], list[str]], share: float) -> bool:
    """Whether most parts of the joined names stand in another name, too."""
    parts = Counter(part.strip() for name in names for part in split(name) if part.strip())
    inside = [part.strip() for name in joined for part in split(name) if part.strip()]
    return sum(parts[part] > 1 for part in inside) > share * len(inside)


def _is_half_a_list(name: str) -> bool:
    """`[a` of a cell such as `[a, b]`."""
    return any(name.startswith(begin) and end not in name for begin, end in ("[]", "{}"))


def case_twins(counts: Mapping[str, int]) -> list[list[str]]:
    return _groups(counts, str.casefold)


def joint_twins(counts: Mapping[str, int]) -> list[list[str]]:
    """Names that are equal without blanks, hyphens, underscores, dots and slashes, where there are letters."""
    groups = _groups(counts, lambda name: _JOINTS.sub("", name.casefold()) if any(map(str.isalpha, name)) else name)
    return [names for names in groups if len({name.casefold() for name in names}) > 1]


def near_names(counts: Mapping[str, int]) -> list[list[str]]:
    """Pairs of long names that differ in one letter: left out, put in, replaced or exchanged with its neighbour. Names
    that differ in a digit are meant so, and so are two names that are both frequent."""
    if len(counts) > MOST_COMPARED:
        return []
    without_one: dict[str, set[str]] = defaultdict(set)  # what is left of a name without one letter
    for name in counts:
        if len(name) >= NEAR_LENGTH - 1:
            for place in range(len(name)):
                without_one[name[:place] + name[place + 1 :]].add(name)
            without_one[name].add(name)
    pairs = {tuple(sorted(pair)) for names in without_one.values() for pair in _pairs(sorted(names))}
    return sorted([one, other] for one, other in pairs if _is_mistyped(one, other, counts))


def _is_mistyped(one: str, other: str, counts: Mapping[str, int]) -> bool:
    few, many = sorted((counts[one], counts[other]))
    if few > MISTYPED * many or max(len(one), len(other)) < NEAR_LENGTH:
        return False
    return not _differ_in_digits(one, other) and _are_near(one, other)


def _pairs(names: list[str]) -> Iterator[tuple[str, str]]:
    return ((one, other) for place, one in enumerate(names[:20]) for other in names[place + 1 : 20])


def _differ_in_digits(one: str, other: str) -> bool:
    return re.findall(r"\d+", one) != re.findall(r"\d+", other) or one.casefold() == other.casefold()


def _are_near(one: str, other: str) -> bool:
    """One insertion, deletion, replacement or exchange of neighbours; plurals and joints are others' business."""
    if _JOINTS.sub("", one.casefold()) == _JOINTS.sub("", other.casefold()):
        return False
    if abs(len(one) - len(other)) == 1:
        return True
    places = [place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(places) == 1:
        return not (one[places[0]].isupper() and other[places[0]].isupper())  # math.CO and math.LO are codes
    return len(places) == 2 and places[1] == places[0] + 1 and one[places[0]] == other[places[1]]


def _groups(counts: Mapping[str, int], key: Callable[[str], str]) -> list[list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in counts:
        groups[key(name)].append(name)
    return sorted((sorted(names) for names in groups.values() if len(names) > 1), key=lambda names: names[0])


def _shown(groups: list[list[str]]) -> str:
    return "; ".join(", ".join(names) for names in groups[:SHOWN])
