"""Which encoding a file of text has: said by its byte order mark, or plain from its first bytes."""

from __future__ import annotations

import codecs

BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# Names as the codec registry spells them; a line feed in them is one byte that is part of nothing else.
LINE_BY_LINE = frozenset({"utf-8", "ascii", "iso8859-1", "iso8859-15", *(f"cp125{digit}" for digit in range(9))})
# What stands in Western European text beyond ASCII: letters with accents, quotation marks, dashes, the euro sign.
WESTERN = frozenset(
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝàáâãäåæçèéêëìíîïñòóôõöøùúûüýßŒœŠšŽžŸ"
    "\u2018\u2019\u201a\u201c\u201d\u201e\u2013\u2014\u2026\u2022€£§©®°±²³µ¶·¹º»«¼½¾¿¡´ª™\xa0"
)
MOST_ACCENTS = 0.25  # of all letters; in Cyrillic or Greek text that is read as cp1252 nearly all are accented


def recognised_encoding(sample: bytes, maybe_western: bool) -> str:
    """UTF-8, unless a byte order mark says UTF-16, or the bytes are no UTF-8 and plainly cp1252."""
    for mark, name in BYTE_ORDER_MARKS.items():
        if sample.startswith(mark):
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)  # a character that is cut off at the end is no error
    except UnicodeDecodeError:
        return "cp1252" if maybe_western and _is_western(sample) else "utf-8"
    return "utf-8"


def _is_western(sample: bytes) -> bool:
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:
        return False
    beyond = [character for character in text if not character.isascii()]
    letters = sum(map(str.isalpha, text))
    return set(beyond) <= WESTERN and sum(map(str.isalpha, beyond)) <= MOST_ACCENTS * letters
