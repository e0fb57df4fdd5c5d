"""What the columns of a table hold, found out by their names and first rows where there is no doubt.

What the settings name is never changed. Where a column must be guessed and two are as likely, an error names both and
the option that chooses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...config import DataConfig
from .checks import UNSPACED, listed_labels
from .source import Source

TEXT_NAMES = {
    *("text", "texts", "body", "content", "contents", "abstract", "description", "document", "message", "comment"),
    *("review", "sentence", "question", "article", "summary", "post", "tweet"),
    *("beschreibung", "inhalt", "nachricht", "meldung", "artikel", "texte", "texto", "contenu", "contenido", "testo"),
}
LABEL_NAMES = {
    *("labels", "label", "tags", "tag", "categories", "category", "topics", "topic", "classes", "class", "genres"),
    *("genre", "keywords", "keyword", "codes", "code", "subjects", "themes", "targets"),
    *("kategorie", "kategorien", "schlagwort", "schlagworte", "schlagwörter", "thema", "themen", "étiquettes"),
    *("catégorie", "catégories", "etiquetas", "categoría", "categorías", "categoria", "categorie", "etichette"),
}
SEPARATORS = (";", "|", ",", "\n", " / ")
TEXT_JOINT = "\n"  # between the texts of several columns
WORDY = 4  # words of a cell, on average, of a column that holds texts
RECURRING = 0.6  # share of names that stand in another cell, too, where a cell is split at the right separator
FLAGS = {  # cells of 0/1 columns
    "0": False,
    "0.0": False,
    "false": False,
    "no": False,
    "1": True,
    "1.0": True,
    "true": True,
    "yes": True,
}
_UNNAMED = re.compile(r"(column \d+)?\s*")
OFTEN = 0.2  # share of cells a separator stands in, where names seldom recur because there are few rows


@dataclass(frozen=True)
class Look:
    """What the beginning of a table shows."""

    names: list[str]
    rows: list[dict[str, Any]]
    encoding: str | None = None
    delimiter: str | None = None
    unusual_delimiter: bool = False
    sheet: str | None = None  # of a workbook that has several

    def cells(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows if row.get(name) not in (None, "")]

    def wordy(self) -> list[str]:
        """Columns whose cells are texts of several words."""
        return [name for name in self.names if _words(self.cells(name)) >= WORDY]


def column_names(header: Sequence[Any]) -> list[str]:
    """The names in a header; where several are blank, as behind a table, by the numbers of their columns."""
    names = [str(cell) for cell in header]
    if sum(not name.strip() for name in names) < 2:
        return names
    return [name if name.strip() else f"column {number}" for number, name in enumerate(names, start=1)]


def recognised(look: Look, options: DataConfig, source: Source) -> DataConfig:
    """The options with the columns and the separator of this table; what was found out is noted for the user."""
    changes = recognised_settings(look, options, source)
    told = [f"{name!r} as text" for name in [changes.get("text_field")] if name]
    if "labels_field" in changes:
        told.append(f"{changes['labels_field']!r} as labels")
    if "label_columns" in changes:
        told.append(f"{len(changes['label_columns']):,} columns of 0 and 1 as labels")
    if "label_separator" in changes:
        told.append(f"labels separated by {changes['label_separator']!r}")
    if look.sheet is not None:
        told.append(f"sheet {look.sheet!r}")
    if look.unusual_delimiter:
        told.append(f"cells separated by {look.delimiter!r}")
    if look.encoding not in (None, "utf-8", "utf-8-sig"):
        told.append(f"encoding {look.encoding}")
    if told:
        source.counts.recognised = f"{source.name}: read with " + ", ".join(told)
    return options.model_copy(update=changes) if changes else options


def recognised_settings(look: Look, options: DataConfig, source: Source) -> dict[str, Any]:
    """Keys of `data` that the settings leave open and the table answers."""
    changes: dict[str, Any] = {}
    if own_id := _same_name(look.names, options.id_field):
        changes["id_field"] = own_id
    features = options.features_field in look.names and options.text_field not in look.names
    text = options.text_field if features else _text_column(look, options, source)
    changes["text_field"] = text
    if source.labelled and options.label_columns is None:
        changes |= _labels(look, options, text, source)
    return {key: value for key, value in changes.items() if value is not None and value != getattr(options, key)}


def _text_column(look: Look, options: DataConfig, source: Source) -> str | None:
    if (same := _same_name(look.names, options.text_field)) is not None:
        return same
    if "text_field" in options.model_fields_set:
        return None
    named = [name for name in look.names if _plain(name) in TEXT_NAMES]
    wordy = [name for name in look.wordy() if _plain(name) not in LABEL_NAMES and name != options.labels_field]
    likely = named or wordy
    if likely and _UNNAMED.fullmatch(likely[0]):
        raise source.error(
            "the first line gives the column of the texts no name; the names of all columns must stand in the first "
            "line, so remove what stands above them, or add them."
        )
    if likely == wordy and len(likely) == 1 and _is_an_example(look, likely[0], options):
        raise source.error(
            "the first line looks like an example, expected the names of the columns; put a line with the names above "
            "it, for example text,labels."
        )
    if len(likely) > 1:
        both = " ".join(f"--text {_quoted(name)}" for name in likely[:3])
        raise source.error(
            f"which column holds the text is not clear ({', '.join(map(repr, likely))}); choose one with --text, or "
            f"several, which are joined: {both}."
        )
    return likely[0] if likely else None


def _labels(look: Look, options: DataConfig, text: str | None, source: Source) -> dict[str, Any]:
    """The column of labels and how they are separated, or columns of zeros and ones."""
    column = _same_name(look.names, options.labels_field)
    if column is None and "labels_field" not in options.model_fields_set:
        others = [name for name in look.names if name not in (text, *options.more_text_fields, options.id_field)]
        named = [name for name in others if _plain(name) in LABEL_NAMES]
        if len(named) > 1:
            raise source.error(
                f"which column holds the labels is not clear ({', '.join(map(repr, named))}); choose one: "
                f"--labels {_quoted(named[0])}."
            )
        flags = [name for name in others if _is_flag(look.cells(name))]
        if not named and len(flags) > 1:
            return {"label_columns": flags}
        only = len(others) == 1  # beside the text: numbers are names of labels, too
        likely = named or [name for name in others if _recurs(look.cells(name), numbers=only)]
        if not named and len(likely) > 1:
            raise source.error(
                f"which column holds the labels is not clear ({', '.join(map(repr, likely[:5]))}); choose one, for "
                f"example --labels {_quoted(likely[0])}. Labels that stand in several columns must be joined in one, "
                "for example as a;b; a column for each label must hold 0 and 1."
            )
        column = likely[0] if len(likely) == 1 else None
    if column is None:
        return {}
    separator = None
    if "label_separator" not in options.model_fields_set:
        separator = recognised_separator(look.cells(column))
    return {"labels_field": column, "label_separator": separator}


def recognised_separator(cells: Sequence[Any]) -> str | None:
    """What separates labels in these cells; None where they hold lists or single names, or where there is doubt."""
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and listed_labels(cell) is None]
    fitting = []
    for separator in SEPARATORS:
        joined = [text for text in texts if separator in text.strip(separator)]
        if not joined:
            continue
        counts = Counter(part.strip() for text in texts for part in text.split(separator))
        inside = [part.strip() for text in joined for part in text.split(separator) if part.strip()]
        if sum(counts[part] > 1 for part in inside) >= RECURRING * len(inside) or len(joined) >= OFTEN * len(texts):
            fitting.append(separator)
    return fitting[0] if len(fitting) == 1 else None


def _same_name(names: Sequence[str], wanted: str) -> str | None:
    """The column of this name, or the only one that differs in case or blanks alone."""
    if wanted in names:
        return wanted
    alike = [name for name in names if _plain(name) == _plain(wanted)]
    return alike[0] if len(alike) == 1 else None


def _plain(name: str) -> str:
    return name.strip().casefold()


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


def _words(cells: Sequence[Any]) -> float:
    texts = [cell for cell in cells if isinstance(cell, str) and listed_labels(cell) is None]
    return sum(map(word_count, texts)) / len(texts) if texts and len(texts) == len(cells) else 0.0


def word_count(text: str) -> float:
    """Words between blanks; two characters of a script without blanks are about a word."""
    return len(UNSPACED.sub("", text).split()) + len(UNSPACED.findall(text)) / 2


def _is_flag(cells: Sequence[Any]) -> bool:
    values = {_plain(str(cell)) for cell in cells}
    return bool(values) and values <= FLAGS.keys()


def _is_an_example(look: Look, text: str, options: DataConfig) -> bool:
    """Whether the header is a row of examples: the name of the text column is a text, another is one of its labels."""
    if _words([text]) < WORDY:
        return False
    return any(_is_a_cell(name, look.cells(name)) for name in look.names if name != text)


def _is_a_cell(name: str, cells: Sequence[Any]) -> bool:
    """Whether this name of a column holds labels, and only such as the cells below it hold."""
    if not _recurs([name, *cells]):
        return False
    separator = recognised_separator([name, *cells])

    def labels(cell: str) -> set[str]:
        return set(map(str.strip, cell.split(separator) if separator else [cell]))

    return labels(name) <= set().union(*map(labels, cells))


def _recurs(cells: Sequence[Any], numbers: bool = False) -> bool:
    """Whether these are names that stand in several cells, alone or in lists; numbers and dates recur, too, and are no
    names unless that is asked for."""
    if any(cells) and all(isinstance(cell, list) and all(isinstance(name, str) for name in cell) for cell in cells):
        return True
    if not cells or not all(isinstance(cell, str) for cell in cells):
        return False
    separator = recognised_separator(cells)
    names = [
        name for cell in cells for name in (listed_labels(cell) or (cell.split(separator) if separator else [cell]))
    ]
    counts = Counter(map(str.strip, names))
    if not numbers and sum(any(map(str.isalpha, name)) for name in names) < RECURRING * len(names):
        return False
    return sum(counts[name.strip()] > 1 for name in names) >= RECURRING * len(names)
