"""Reuters-21578 and RCV1-V2 in the form they are downloaded in, read from small files of exactly that form."""

import gzip
import html

import pytest

from orderfree.config import DataConfig
from orderfree.data.readers import detect_format, read_examples
from orderfree.errors import DataError
from orderfree.testing.contracts import check_reader
from orderfree.types import Example

DOCTYPE = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n'
DOCUMENT = """\
<REUTERS TOPICS="{has_topics}" LEWISSPLIT="{split}" CGISPLIT="TRAINING-SET" OLDID="{number}9" NEWID="{number}">
<DATE>26-FEB-1987 15:01:01.79</DATE>
<TOPICS>{topics}</TOPICS>
<PLACES><D>usa</D></PLACES>
<PEOPLE></PEOPLE>
<ORGS></ORGS>
<EXCHANGES></EXCHANGES>
<COMPANIES></COMPANIES>
<UNKNOWN>\x20
&#5;&#5;&#5;C T
&#22;&#22;&#1;f0704&#31;reute
u f BC-A-SLUG   02-26 0105</UNKNOWN>
{text}
</REUTERS>
"""
NORMAL = """<TEXT>&#2;
<TITLE>FISH &lt;FSH> &amp; CHIPS
 RISE</TITLE>
<DATELINE>    HULL, Feb 26 - </DATELINE><BODY>    The price of fish is
up at the M\xfcller market, <>.
 Reuter
&#3;</BODY></TEXT>"""
BRIEF = """<TEXT TYPE="BRIEF">&#2;
******<TITLE>FISH UP 2 PCT</TITLE>
Blah blah blah.
&#3;

</TEXT>"""
UNPROC = """<TEXT TYPE="UNPROC">&#2;
FISH FALL HULL, March 3
- The price is down.
 REUTER
&#3;

</TEXT>"""
PLAIN = "FISH <FSH> & CHIPS\n RISE\n    The price of fish is\nup at the Müller market, <>.\n Reuter"


def read(path, labelled=True, format="auto"):
    return list(read_examples(path, DataConfig(format=format), labelled=labelled))


def sgml(number, *topics, text=NORMAL, split="TRAIN", has_topics="YES"):
    names = "".join(f"<D>{name}</D>" for name in topics)
    return DOCUMENT.format(number=number, topics=names, text=text, split=split, has_topics=has_topics)


def write_sgml(path, *documents):
    content = (DOCTYPE + "".join(documents)).encode("latin-1")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["reut2-000.sgm", "reut2-000.sgm.gz"])
def test_reuters_sgml(tmp_path, name):
    path = write_sgml(
        tmp_path / name,
        sgml(1, "cocoa", "veg-oil"),
        sgml(2, "grain", has_topics="NO"),
        sgml(3, "grain", split="NOT-USED"),
        sgml(4, "grain", has_topics="BYPASS"),
        sgml(5, text=BRIEF),
        sgml(14826, "trade", text=UNPROC, split="TEST"),
    )
    expected = [
        Example("training/1", text=PLAIN, labels=("cocoa", "veg-oil")),
        Example("training/5", text="FISH UP 2 PCT\n", labels=()),
        Example("test/14826", text="FISH FALL HULL, March 3\n- The price is down.\n REUTER", labels=("trade",)),
    ]
    assert read(path) == expected
    assert read(path, labelled=False) == [Example(example.id, text=example.text) for example in expected]


def test_line_ends_of_another_system_change_nothing(tmp_path):
    path = write_sgml(tmp_path / "reut2-000.sgm", sgml(1, "cocoa"))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert [example.text for example in read(path)] == [PLAIN]


def test_reuters_sgml_folder_is_read_in_the_order_of_its_files(tmp_path):
    for number in (2, 0, 1):
        write_sgml(tmp_path / f"reut2-00{number}.sgm", sgml(10 * number + 1, "a"))
    (tmp_path / "lewis.dtd").write_text("<!ELEMENT …>")
    assert [example.id for example in read(tmp_path)] == ["training/1", "training/11", "training/21"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (sgml(1, "a").replace("</REUTERS>\n", ""), "line 20: the last document does not end; the file is cut off"),
        (sgml(1, "a").replace("</REUTERS>", "") + sgml(2, "a"), "begins before the last one has ended"),
        (sgml(1, "a").replace("NEWID", "NEW"), "has no NEWID or no <TOPICS>"),
        (sgml(1, "a").replace("<TOPICS>", "<TOP>"), "has no NEWID or no <TOPICS>"),
        (sgml(1, " "), "the label '' is empty"),
        ("", "holds no examples"),
    ],
)
def test_a_damaged_sgml_file_is_named(tmp_path, content, sentence):
    path = write_sgml(tmp_path / "reut2-000.sgm", content)
    with pytest.raises(DataError, match=rf"reut2-000\.sgm.*{sentence}"):
        read(path)
    with pytest.raises(DataError, match=sentence):
        read(tmp_path)


def write_nltk(folder):
    for name, text in {
        "training/1": "FISH &lt;FSH> UP\n  The M\xfcller price.\n  \n\n",
        "training/5": "FISH DOWN\n",
        "test/14826": "TRADE\n  It fell.\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text.encode("latin-1"))
    (folder / "cats.txt").write_text("test/14826 trade\ntraining/1 cocoa veg-oil\n\ntraining/5 grain\n")
    return folder


NLTK = [
    Example("test/14826", text="TRADE\n  It fell.", labels=("trade",)),
    Example("training/1", text="FISH <FSH> UP\n  The Müller price.", labels=("cocoa", "veg-oil")),
    Example("training/5", text="FISH DOWN", labels=("grain",)),
]


def test_nltk_reuters(tmp_path):
    folder = write_nltk(tmp_path)
    assert read(folder) == NLTK
    assert read(folder / "training") == NLTK[1:]
    assert read(folder / "test") == NLTK[:1]
    assert read(folder / "cats.txt", format="nltk-reuters") == NLTK
    assert read(folder / "test", labelled=False) == [Example("test/14826", text="TRADE\n  It fell.")]


def test_a_damaged_nltk_folder_is_named(tmp_path):
    folder = write_nltk(tmp_path)
    (folder / "training" / "5").unlink()
    with pytest.raises(DataError, match=r"cats\.txt, line 4: names the document training/5, but there is no file"):
        read(folder)
    (folder / "cats.txt").write_text("training/../../secret cocoa\n")
    with pytest.raises(DataError, match=r"cats\.txt, line 1: begins with 'training/\.\./\.\./secret'"):
        read(folder)
    (folder / "cats.txt").unlink()
    with pytest.raises(DataError, match=r"holds no cats\.txt"):
        read(folder, format="nltk-reuters")


TOKENS = ".I 2286\n.W\nrecov recov excit mexic\nemerg\n\n.I 2287\n.W\n\n.I 2288\n.W\nfish\n"
QRELS = "E11 2286 1\nECAT 2286 1\nM11 2287 1\nE11 2288 1\nECAT 2288 1\nM11 9999 1\n"
LYRL = [
    Example("2286", text="recov recov excit mexic emerg", labels=("E11", "ECAT")),
    Example("2287", text="", labels=("M11",)),
    Example("2288", text="fish", labels=("E11", "ECAT")),
]


@pytest.mark.parametrize("packed", [False, True])
def test_lyrl2004(tmp_path, packed):
    suffix, pack = (".gz", gzip.compress) if packed else ("", bytes)
    path = tmp_path / f"lyrl2004_tokens_train.dat{suffix}"
    path.write_bytes(pack(TOKENS.encode()))
    assert read(path, labelled=False) == [Example(example.id, text=example.text) for example in LYRL]
    with pytest.raises(DataError, match=r"rcv1-v2\.topics\.qrels: there is no such file"):
        read(path)
    (tmp_path / f"rcv1-v2.topics.qrels{suffix}").write_bytes(pack(QRELS.encode()))
    assert read(path) == LYRL


def test_lyrl2004_folder_begins_with_the_training_part(tmp_path):
    for number, part in enumerate(("test_pt1", "test_pt0", "train")):
        (tmp_path / f"lyrl2004_tokens_{part}.dat").write_text(f".I {number}\n.W\nfish\n")
    (tmp_path / "rcv1-v2.topics.qrels").write_text("A 0 1\nA 1 1\nA 2 1\n")
    assert [example.id for example in read(tmp_path)] == ["2", "1", "0"]


@pytest.mark.parametrize(
    ("tokens", "qrels", "sentence"),
    [
        (".I 2286\n.W\na\n.I x\n.W\nb\n", QRELS, r"\.dat, line 4: is '\.I x', expected \.I and the number"),
        ("a b\n", QRELS, r"\.dat, line 1: is 'a b', expected \.I with a number, then \.W"),
        (".I 2286\na b\n", QRELS, r"\.dat, line 2: is 'a b', expected \.I with a number, then \.W"),
        (".I 2286\n.I 2287\n", QRELS, r"\.dat, line 2: the document before this line has no \.W"),
        (".I 2286\n", QRELS, r"\.dat, line 1: the document before this line has no \.W"),
        (".I 1\n.W\na\n", QRELS, r"\.dat, line 3: .*qrels names no topic of document 1"),
        (TOKENS, "E11 2286\n", r"qrels, line 1: is 'E11 2286', expected topic, document and 1"),
    ],
)
def test_damaged_lyrl2004_files_are_named(tmp_path, tokens, qrels, sentence):
    (tmp_path / "lyrl2004_tokens_train.dat").write_text(tokens)
    (tmp_path / "rcv1-v2.topics.qrels").write_text(qrels)
    with pytest.raises(DataError, match=sentence):
        read(tmp_path)


def test_names_and_folders_tell_the_format(tmp_path):
    assert detect_format("reut2-003.sgm") == "reuters-sgml"
    assert detect_format("lyrl2004_tokens_test_pt0.dat.gz") == "lyrl2004"
    assert detect_format(str(write_nltk(tmp_path) / "test")) == "nltk-reuters"
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="is a directory, expected a file"):
        read(tmp_path / "empty")
    for name in ("reuters-sgml", "lyrl2004"):
        with pytest.raises(DataError, match="name the folder they are in"):
            read(tmp_path / "empty", format=name)


def _write_sgml_contract(examples, path):
    documents = []
    for example in examples:
        text = f"<TEXT><TITLE>{html.escape(example.text)}</TITLE></TEXT>".encode("ascii", "xmlcharrefreplace").decode()
        documents.append(sgml(example.id.removeprefix("training/"), *example.labels, text=text))
    write_sgml(path, *documents)


def _write_nltk_contract(examples, path):
    (path.parent / "training").mkdir()
    for example in examples:
        (path.parent / example.id).write_text(example.text)
    path.write_text("".join(f"{example.id} {' '.join(example.labels)}\n" for example in examples))


def _write_lyrl_contract(examples, path):
    path.write_text("".join(f".I {example.id}\n.W\n{example.text}\n\n" for example in examples))
    lines = [f"{label} {example.id} 1\n" for example in examples for label in example.labels]
    (path.parent / "rcv1-v2.topics.qrels").write_text("".join(lines))


@pytest.mark.parametrize(
    ("name", "write", "examples"),
    [
        (
            "reuters-sgml",
            _write_sgml_contract,
            [("training/1", "größer — 字\n", ("a", "b")), ("training/2", "x\n", ())],
        ),
        ("nltk-reuters", _write_nltk_contract, [("training/1", "red & blue", ("a", "b")), ("training/2", "x", ())]),
        ("lyrl2004", _write_lyrl_contract, [("2286", "red fish", ("a", "b")), ("2287", "", ("a",))]),
    ],
)
def test_readers_keep_the_contract(tmp_path, name, write, examples):
    check_reader(name, tmp_path, write, [Example(id_, text=text, labels=labels) for id_, text, labels in examples])
