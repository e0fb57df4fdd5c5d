"""RCV1-V2 as LYRL2004 gives it out: stemmed words in `lyrl2004_tokens_*.dat`, topics in a qrels file beside them.

.I 2286                          E11 2286 1
.W                               ECAT 2286 1
recov recov excit mexic …
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...config import DataConfig
from ...errors import DataError
from ...types import Example
from .source import STDIN, Source, readers

TOKEN_FILES = "lyrl2004_tokens_*.dat*"  # perhaps gzipped
TOPICS_FILE = "rcv1-v2.topics.qrels"


@readers.register("lyrl2004")
def read_lyrl2004(source: Source, options: DataConfig) -> Iterator[Example]:
    """One token file, or a folder of them: training part first, then the test parts in their order."""
    files = _token_files(source)
    topics = _read_topics(source, files[0].parent) if source.labelled else None
    for path in files:
        file = Source(str(path), source.labelled)
        for number, words in _documents(file):
            if topics is not None and number not in topics:
                # Every document of RCV1-V2 has a topic, so this is never a document without one.
                raise file.error(f"{source.labels_path} names no topic of document {number}; get a whole copy of it.")
            yield Example(number, text=words, labels=None if topics is None else topics[number])


def _token_files(source: Source) -> list[Path]:
    if source.path == STDIN:
        raise source.error("this format cannot be read from standard input; give a file beside its topics.")
    folder = Path(source.path)
    if not folder.is_dir():
        return [folder]
    files = sorted(folder.glob(TOKEN_FILES), key=lambda file: ("_train" not in file.name, file.name))
    if not files:
        raise source.error("holds no lyrl2004_tokens_*.dat; name the folder they are in.")
    return files


def _documents(file: Source) -> Iterator[tuple[str, str]]:
    """Number and words of every document; empty lines between documents mean nothing."""
    number: str | None = None
    words: list[str] | None = None  # None: the .W of this document has not come yet
    for line in file.lines():
        line = line.strip()
        if line.startswith(".I"):
            if number is not None:
                yield number, _joined(words, file)
            number, words = line[2:].strip(), None
            if not (number.isascii() and number.isdigit()):
                raise file.error(f"is {line[:40]!r}, expected .I and the number of a document.")
        elif line == ".W" and number is not None and words is None:
            words = []
        elif line:
            if words is None:
                raise file.error(f"is {line[:40]!r}, expected .I with a number, then .W, then words.")
            words.append(line)
    if number is not None:
        yield number, _joined(words, file)


def _joined(words: list[str] | None, file: Source) -> str:
    if words is None:
        raise file.error("the document before this line has no .W; the file is damaged, get a whole copy.")
    return " ".join(words)


def topics_file(folder: Path) -> Path:
    path = folder / TOPICS_FILE
    packed = path.with_name(f"{TOPICS_FILE}.gz")
    return packed if packed.is_file() and not path.is_file() else path


def _read_topics(source: Source, folder: Path) -> dict[str, tuple[str, ...]]:
    """The topics of every document. Equal tuples are kept once: 800,000 documents have 14,000 different ones."""
    path = topics_file(folder)
    if not path.is_file():
        raise DataError(f"there is no such file; {source.name} needs the topics of its documents beside it.", path)
    file = Source(str(path), labelled=True)
    source.labels_path = file.path
    topics: dict[str, tuple[str, ...]] = {}
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line in file.lines():
        cells = line.split()
        if not cells:
            continue
        if len(cells) != 3 or cells[2] != "1":
            raise file.error(f"is {line[:40]!r}, expected topic, document and 1, such as E11 2286 1.")
        names = (*topics.get(cells[1], ()), cells[0])
        topics[cells[1]] = known.setdefault(names, names)
    return topics
