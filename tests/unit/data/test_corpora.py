"""The corpora of the paper: from small files of every form, and what the re-split and the command line promise."""

import gzip
import json
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

from orderfree.cli.data import data_app
from orderfree.config import DataConfig
from orderfree.data.corpora import corpora, data_root, load_parts
from orderfree.data.corpora.aapd import resplit
from orderfree.data.corpora.statistics import Statistics, count_parts
from orderfree.data.readers import read_examples
from orderfree.errors import ConfigError, DataError, OrderfreeError
from orderfree.types import Example

NAMES = ["aapd", "aapd-resplit", "arxiv-msc", "audioset-balanced", "rcv1-subset", "reuters", "reuters-multi"]
# Twenty training and three test documents; "odd" is in no test document and so does not count.
TRAIN = {f"training/{n}": ("earn", "acq") if n % 5 == 0 else ("earn",) for n in range(1, 21)}
TEST = {"test/101": ("earn",), "test/102": ("earn", "acq"), "test/103": ("acq",)}


def run(*arguments):
    return CliRunner().invoke(data_app, [str(argument) for argument in arguments])


def write_jsonl(path, documents):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": i, "text": f"text of {i}", "labels": list(labels)}) for i, labels in documents.items()]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


def as_jsonl(root):
    write_jsonl(root / "reuters21578" / "train.jsonl.gz", TRAIN)
    write_jsonl(root / "reuters21578" / "test.jsonl.gz", TEST)


def as_sgml(root):
    folder = root / "reuters21578"
    folder.mkdir()
    extra = {"training/1199": ("earn",), "training/900": ("odd",), "training/901": ()}
    documents = [*(TRAIN | extra).items(), *TEST.items()]
    for number in range(22):
        content = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n'
        for name, labels in documents[number::22]:
            part, newid = name.split("/")
            topics = "".join(f"<D>{label}</D>" for label in (*labels, *(["odd"] if name == "training/1" else [])))
            split = {"training": "TRAIN", "test": "TEST"}[part]
            content += (
                f'<REUTERS TOPICS="YES" LEWISSPLIT="{split}" NEWID="{newid}">\n<TOPICS>{topics}</TOPICS>\n'
                f"<TEXT>&#2;\n<BODY>text of {name}\n&#3;</BODY></TEXT>\n</REUTERS>\n"
            )
        (folder / f"reut2-{number:03}.sgm").write_text(content, encoding="latin-1")


def as_nltk(root):
    folder = root / "reuters"  # where NLTK itself puts it
    for name in (*TEST, *TRAIN):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text of {name}\n")
    lines = [f"{name} {' '.join(labels)}\n" for name, labels in sorted((TEST | TRAIN).items())]
    (folder / "cats.txt").write_text("".join(lines))


def contents(parts):
    return {name: sorted((e.id, e.text, e.labels) for e in part()) for name, part in parts.items()}


def test_the_corpora_are_registered():
    assert corpora.names() == NAMES
    with pytest.raises(ConfigError, match=r"unknown corpus 'reuter'; known: .*Did you mean 'reuters'"):
        corpora["reuter"]


@pytest.mark.parametrize("form", [as_jsonl, as_sgml, as_nltk])
def test_every_form_of_reuters_gives_the_same_parts(tmp_path, form):
    form(tmp_path)
    parts = load_parts("reuters", tmp_path, seed=1)
    found = contents(parts)
    assert contents(parts) == found  # a part can be read again
    assert {name: len(part) for name, part in found.items()} == {"train": 18, "valid": 2, "test": 3, "test_multi": 1}
    assert {i: labels for i, _, labels in found["train"] + found["valid"]} == TRAIN
    assert {i: labels for i, _, labels in found["test"]} == TEST
    assert all(text == f"text of {i}" for part in found.values() for i, text, _ in part)

    twin = tmp_path / "twin"
    twin.mkdir()
    as_jsonl(twin)
    assert contents(load_parts("reuters", twin, seed=1)) == found
    assert any(contents(load_parts("reuters", twin, seed=n))["valid"] != found["valid"] for n in range(2, 9))
    multi = contents(load_parts("reuters-multi", tmp_path, seed=1))
    assert multi == {"train": found["train"], "valid": found["valid"], "test": found["test_multi"]}


def test_what_is_missing_or_damaged_is_named_with_what_to_get(tmp_path):
    with pytest.raises(DataError, match=r"reuters21578: Reuters-21578 is not here\. .*nltk\.downloader reuters"):
        load_parts("reuters", tmp_path, seed=1)
    as_sgml(tmp_path)
    (tmp_path / "reuters21578" / "reut2-007.sgm").unlink()
    with pytest.raises(DataError, match="holds 21 of its 22 SGML files"):
        load_parts("reuters", tmp_path, seed=1)
    write_jsonl(tmp_path / "reuters21578" / "train.jsonl.gz", TRAIN)
    with pytest.raises(DataError, match=r"test\.jsonl\.gz: there is no such file\. .*reuters21578\.tar\.gz"):
        load_parts("reuters", tmp_path, seed=1)
    for name, file in (("rcv1-subset", "subsets_train"), ("aapd", "train"), ("arxiv-msc", "train")):
        with pytest.raises(DataError, match=rf"{file}\.jsonl\.gz: there is no such file\. .* belongs? in the folder"):
            load_parts(name, tmp_path, seed=1)

    path = tmp_path / "aapd" / "train.jsonl.gz"
    for name in ("train", "val", "test"):
        write_jsonl(path.with_name(f"{name}.jsonl.gz"), {name: ("a",)})
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataError, match=r"train\.jsonl\.gz: the gzip file is damaged .*lancopku"):
        list(load_parts("aapd", tmp_path, seed=1)["train"]())


def test_the_data_folder(tmp_path, monkeypatch):
    inside = tmp_path / "project"
    inside.mkdir()
    monkeypatch.chdir(inside)
    monkeypatch.delenv("ORDERFREE_DATA", raising=False)
    with pytest.raises(DataError, match="name their folder with --data or the variable ORDERFREE_DATA"):
        data_root(None)
    (tmp_path / "shared" / "data").mkdir(parents=True)
    assert data_root(None).samefile(tmp_path / "shared" / "data")
    monkeypatch.setenv("ORDERFREE_DATA", str(tmp_path))
    assert data_root(None) == tmp_path
    assert data_root(inside) == inside
    with pytest.raises(DataError, match="there is no such folder, but --data names it"):
        data_root(tmp_path / "nothing")
    monkeypatch.setenv("ORDERFREE_DATA", str(tmp_path / "nothing"))
    with pytest.raises(DataError, match="there is no such folder, but ORDERFREE_DATA names it"):
        data_root(None)


@pytest.mark.parametrize(("name", "folder"), [("aapd", "aapd"), ("arxiv-msc", "arxiv_msc")])
def test_parts_are_those_of_the_files_whatever_the_seed(tmp_path, name, folder):
    files = {"train": {"1": ("a", "b"), "2": ("b",)}, "val": {"val-0": ("a",)}, "test": {"test-0": ("b", "a")}}
    for file, documents in files.items():
        write_jsonl(tmp_path / folder / f"{file}.jsonl.gz", documents)
    found = contents(load_parts(name, tmp_path, seed=1))
    assert {part: [i for i, _, _ in rows] for part, rows in found.items()} == {
        "train": ["1", "2"],
        "valid": ["val-0"],
        "test": ["test-0"],
    }
    assert contents(load_parts(name, tmp_path, seed=2)) == found


def test_the_resplit_reads_all_three_files_and_says_what_they_lack(tmp_path):
    for name in ("train", "val", "test"):
        write_jsonl(tmp_path / "aapd" / f"{name}.jsonl.gz", {f"{name}{n}": ("a", "b") for n in range(3)})
    with pytest.raises(DataError, match=r"needs 4,000 documents, but whole label sets make up only 9\. AAPD"):
        load_parts("aapd-resplit", tmp_path, seed=1)


def test_a_frequent_set_is_held_out_as_often_as_a_rare_one():
    """Of 40 sets with one document and 40 with six, 70 documents come from about ten sets of each kind."""
    documents = [Example(f"{n}-{k}", text="", labels=(f"l{n}",)) for n in range(80) for k in range(1 if n < 40 else 6)]
    drawn = Counter()
    for seed in range(100):
        part_of = resplit(documents, seed, held_out=35)
        held_out = {int(name.split("-")[0]) for name, part in part_of.items() if part.endswith("unseen")}
        drawn.update("rare" if number < 40 else "frequent" for number in held_out)
    assert 0.7 < drawn["frequent"] / drawn["rare"] < 1.1  # only rare sets fit into the last places


def test_a_set_larger_than_the_unseen_parts_stays_in_training():
    documents = [Example(f"big{n}", text="", labels=("big",)) for n in range(90)]
    documents += [Example(f"small{n}", text="", labels=(f"l{n}",)) for n in range(20)]
    for seed in range(5):
        part_of = resplit(documents, seed, held_out=8)
        assert {name[:3] for name, part in part_of.items() if part.endswith("unseen")} == {"sma"}
        assert {name[:3] for name, part in part_of.items() if part.endswith("_seen")} == {"big"}


def test_statistics_by_hand():
    def part(*documents):
        return lambda: iter([Example("", text=text, labels=labels) for text, labels in documents])

    found = count_parts(
        {
            "train": part(("a b c", ("x", "y")), ("d", ("z",))),
            "valid": part(("", ("y", "x"))),
            "test": part(("a  b", ("x",)), ("a\nb", ("x",)), ("c", ("z",))),
            "test_more": part(("a", ("w",))),
        }
    )
    assert found["train"] == Statistics(2, 3, 2.0, 1.5, 2, None, None)
    assert found["valid"] == Statistics(1, 2, 0.0, 2.0, 1, 0, 0)
    assert found["test"] == Statistics(3, 2, 5 / 3, 1.0, 2, 1, 2)
    assert found["test_more"] == Statistics(1, 1, 1.0, 1.0, 1, 1, 1)
    assert found["all"] == Statistics(6, 3, 1.5, 8 / 6, 3, None, None)


def test_list():
    done = run("list", "--json")
    infos = json.loads(done.stdout)
    assert [info["name"] for info in infos] == NAMES
    assert [info["comparable"] for info in infos] == ["near", "near", "no", "no", "no", "yes", "no"]
    assert all("near-comparable with published ones" in info["caveat"] for info in infos[:2])
    shown = run("list").stdout
    assert all(name in shown for name in NAMES)
    assert shown.count("AAPD belongs in") == 1


def test_prepare_writes_files_that_read_back(tmp_path):
    as_sgml(tmp_path)
    out = tmp_path / "new" / "reuters"
    done = run("prepare", "reuters", "--out", out, "--data", tmp_path, "--seed", 3)
    assert done.exit_code == 0, done.output
    assert "train.jsonl.gz: 18 examples" in done.stdout
    written = {
        part: lambda part=part: read_examples(out / f"{part}.jsonl.gz", DataConfig(), labelled=True)
        for part in ("train", "valid", "test", "test_multi")
    }
    assert contents(written) == contents(load_parts("reuters", tmp_path, seed=3))
    assert len(list(out.iterdir())) == 4

    again = run("prepare", "reuters", "--out", out, "--data", tmp_path)
    assert isinstance(again.exception, OrderfreeError)
    assert "already exists" in str(again.exception)


def test_prepare_limits_the_training_part(tmp_path):
    as_jsonl(tmp_path)

    def prepared(name, seed, limit):
        arguments = ("--out", tmp_path / name, "--data", tmp_path, "--seed", seed, "--limit-train", limit, "--json")
        sizes = json.loads(run("prepare", "reuters", *arguments).stdout)
        return list(sizes.values()), [(tmp_path / name / f"{p}.jsonl.gz").read_bytes() for p in ("train", "valid")]

    sizes, files = prepared("a", seed=1, limit=5)
    assert sizes == [5, 2, 3, 1]
    assert prepared("b", seed=1, limit=5) == (sizes, files)
    assert prepared("c", seed=2, limit=5)[1][0] != files[0]
    assert prepared("d", seed=1, limit=500)[0] == [18, 2, 3, 1]
    kept = {json.loads(line)["id"] for line in gzip.decompress(files[0]).splitlines()}
    assert kept < {e.id for e in load_parts("reuters", tmp_path, seed=1)["train"]()}


def test_nothing_is_left_of_a_corpus_that_cannot_be_written_whole(tmp_path):
    for part, documents in (("train", {"1": ("a",)}), ("val", {"2": ("a",)}), ("test", {"3": ("",)})):
        write_jsonl(tmp_path / "rcv1" / f"subsets_{part}.jsonl.gz", documents)
    done = run("prepare", "rcv1-subset", "--out", tmp_path / "out", "--data", tmp_path)
    assert "the label '' is empty" in str(done.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rcv1"]


def test_describe(tmp_path):
    as_jsonl(tmp_path)
    content = json.loads(run("describe", "reuters", "--data", tmp_path, "--json").stdout)
    assert content["parts"]["test"]["documents"] == 3
    assert content["parts"]["test"]["unseen_label_sets"] == 1
    assert content["printed"]["words_per_sample"] == 53.94
    assert any("count something else than our 3.00" in note for note in content["notes"])
    shown = run("describe", "reuters", "--data", tmp_path).stdout
    assert "paper  6,993  776    3,019  90" in shown
    assert "here   18     2      3      2 " in shown


def as_audioset(root):
    """Forty training and four evaluation clips of up to ten 8-bit frames, with two sounds."""
    (root / "audioset").mkdir()
    for name, clips in (("bal_train", 40), ("eval", 4)):
        rng = np.random.default_rng(clips)
        np.savez_compressed(
            root / "audioset" / f"{name}.npz",
            X=rng.integers(0, 256, size=(clips, 10, 128), dtype=np.uint8),
            n_frames=np.where(np.arange(clips) % 4, 10, 3).astype(np.uint8),
            Y=np.stack([np.ones(clips), np.arange(clips) % 2], axis=1).astype(np.uint8),
            label_names=np.array(["Speech", "Male speech, man speaking"]),
            ids=np.array([f"{name}{i}" for i in range(clips)]),
        )


def test_audioset_validates_on_a_stratified_share_of_training_and_is_written_as_bytes(tmp_path):
    as_audioset(tmp_path)
    assert run("prepare", "audioset-balanced", "--out", tmp_path / "out", "--data", tmp_path).exit_code == 0
    parts = {
        part: list(read_examples(tmp_path / "out" / f"{part}.npz", DataConfig(), labelled=True))
        for part in ("train", "valid", "test")
    }
    assert [len(examples) for examples in parts.values()] == [38, 2, 4]
    assert sum(len(example.labels) for example in parts["valid"]) == 3  # one of two has the rarer label
    assert [example.features.shape for example in parts["test"]] == [(3, 128), (10, 128), (10, 128), (10, 128)]
    assert parts["test"][0].features.dtype == np.uint8
    assert parts["test"][1].labels == ("Male speech, man speaking", "Speech")
    shown = run("describe", "audioset-balanced", "--data", tmp_path).output
    assert "2,063,949" in shown
    assert "between blanks" not in shown


def test_audioset_elsewhere_is_answered_with_how_to_get_it(tmp_path):
    with pytest.raises(DataError, match=r"bal_train.npz: there is no such file. AudioSet's embeddings belong in"):
        load_parts("audioset-balanced", tmp_path, seed=1)
