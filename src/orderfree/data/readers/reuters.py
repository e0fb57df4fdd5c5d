"""Reuters-21578 as it is given out: the 22 SGML files, and the `reuters` folder of NLTK.

Both give a document NLTK's id, part and number (`training/1`, `test/14826`), so that the two can stand for each other.
NLTK's copy is already reduced to 90 topics; the SGML files hold all topics, and which of them count is decided where
the corpus is put together."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from ...config import DataConfig
from ...types import Example
from .source import Source, readers

SGML_FILES = "reut2-*.sgm*"  # perhaps gzipped
CATEGORIES = "cats.txt"
PARTS = {"TRAIN": "training", "TEST": "test"}  # LEWISSPLIT -> NLTK's name; NOT-USED is neither

_ATTRIBUTE = re.compile(r'([A-Z]+)\s*=\s*"([^"]*)"')
_TOPIC = re.compile(r"<D>(.*?)</D>", re.DOTALL)
_DOCUMENT_ID = re.compile(r"(?:training|test)/\w+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


LATIN_1 = "iso8859-1"  # both copies date from before UTF-8


@readers.register("reuters-sgml")
def read_reuters_sgml(source: Source, options: DataConfig) -> Iterator[Example]:
    """One SGML file or the folder of all: the documents of the ModApte split (TOPICS="YES", TRAIN or TEST)."""
    for path in _sgml_files(source):
        file = Source(str(path), source.labelled, encoding=LATIN_1)
        for document in _documents(file):
            source.labels_path, source.line = file.path, file.line  # where an error in the labels would be
            example = _example(document, file)
            if example is not None:
                yield example
    source.line = None


def _sgml_files(source: Source) -> list[Path]:
    folder = Path(source.path)
    if not folder.is_dir():
        return [folder]
    files = sorted(folder.glob(SGML_FILES))
    if not files:
        raise source.error("holds none of the files reut2-000.sgm … reut2-021.sgm; name the folder they are in.")
    return files


def _documents(file: Source) -> Iterator[str]:
    """The <REUTERS> elements. `<` is escaped in texts, so a tag is always a tag."""
    lines: list[str] = []
    for line in file.lines():
        if line.startswith("<REUTERS"):
            if lines:
                raise file.error("a document begins before the last one has ended; get a whole copy of the file.")
            lines = [line]
        elif lines:
            lines.append(line)
        if lines and line.endswith("</REUTERS>"):
            yield "\n".join(lines)
            lines = []
    if lines:
        raise file.error("the last document does not end; the file is cut off, get a whole copy.")


def _example(document: str, file: Source) -> Example | None:
    head = document.partition(">")[0]
    attributes = dict(_ATTRIBUTE.findall(head))
    part = PARTS.get(attributes.get("LEWISSPLIT", ""))
    if part is None or attributes.get("TOPICS") != "YES":
        return None
    topics = _element(document, "TOPICS")
    if "NEWID" not in attributes or topics is None:
        raise file.error("the document that ends here has no NEWID or no <TOPICS>; get a whole copy of the file.")
    labels = tuple(_plain(name).strip() for name in _TOPIC.findall(topics)) if file.labelled else None
    return Example(f"{part}/{attributes['NEWID']}", text=_text(document), labels=labels)


def _text(document: str) -> str:
    """Title, line break, body. A few documents were never divided into these (TYPE="UNPROC"): all their text."""
    title, body = _element(document, "TITLE"), _element(document, "BODY")
    if title is None and body is None:
        return _plain(_element(document, "TEXT") or "").strip()
    body = _plain(body or "").rstrip()
    return f"{_plain(title).strip()}\n{body}" if title else body


def _element(document: str, name: str) -> str | None:
    found = re.search(rf"<{name}(?: [^>]*)?>(.*?)</{name}>", document, re.DOTALL)
    return found[1] if found else None


def _plain(text: str) -> str:
    """Entities decoded; the wire's control characters (`&#2;`, `&#3;`) left out."""
    return _CONTROL.sub("", html.unescape(text))


@readers.register("nltk-reuters")
def read_nltk_reuters(source: Source, options: DataConfig) -> Iterator[Example]:
    """NLTK's folder, its `training` or `test` folder alone, or its list of documents, cats.txt."""
    listing, prefix = _listing(source)
    categories = Source(str(listing), source.labelled, encoding=LATIN_1)
    source.labels_path = categories.path
    for line in categories.lines():
        if not line.strip():
            continue
        name, *topics = line.split()
        source.line = categories.line
        if not _DOCUMENT_ID.fullmatch(name):
            raise categories.error(f"begins with {name[:40]!r}, expected a document such as training/1 and its topics.")
        if name.startswith(prefix):
            yield Example(name, text=_nltk_text(name, categories), labels=tuple(topics) if source.labelled else None)
    source.line = None


def _listing(source: Source) -> tuple[Path, str]:
    """cats.txt, and what the ids of the wanted documents begin with."""
    path = Path(source.path)
    if not path.is_dir():
        return path, ""
    if path.name in PARTS.values() and (path.parent / CATEGORIES).is_file():
        return path.parent / CATEGORIES, f"{path.name}/"
    if not (path / CATEGORIES).is_file():
        raise source.error("holds no cats.txt; name NLTK's `reuters` folder, unzipped.")
    return path / CATEGORIES, ""


def _nltk_text(name: str, categories: Source) -> str:
    path = Path(categories.path).parent / name
    if not path.is_file():
        raise categories.error(f"names the document {name}, but there is no file {path}; get a whole copy.")
    return _plain("\n".join(Source(str(path), labelled=False, encoding=LATIN_1).lines())).rstrip()
