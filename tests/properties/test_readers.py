"""What is written and read again is the same, or was refused; and no bytes make a reader fail in an unforeseen way."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orderfree.config import DataConfig
from orderfree.data.readers import ReadCounts, read_examples
from orderfree.data.writers import write_examples
from orderfree.errors import DataError
from orderfree.types import Example

WITHOUT_IDS = {"fasttext", "sgm"}
BINARY = {"parquet", "npz"}
FORMATS = ["jsonl", "csv", "tsv", "parquet", "fasttext", "libmultilabel", "sgm"]

# Characters that some format gives a meaning to are made frequent.
awkward = st.text(
    st.sampled_from("ab ,;\"'\\\t\n\r:#|=[]_\ufeff\u2028\x85\xa0é") | st.characters(exclude_categories=["Cs"])
)
tame = st.text(st.sampled_from("abcxyz.é_-:#\"'[="), min_size=1)


def example_lists(texts, labels):
    label_sets = st.lists(labels, unique=True, max_size=4).map(tuple)
    pairs = st.lists(st.tuples(st.text(min_size=1) | st.just("7"), texts, label_sets), min_size=1, max_size=5)
    return pairs.map(lambda rows: [Example(own_id, text=text, labels=names) for own_id, text, names in rows])


def expected_of(examples, format):
    if format not in WITHOUT_IDS:
        return examples
    return [Example(str(i), text=e.text, labels=e.labels) for i, e in enumerate(examples)]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("suffix", ["", ".gz"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_written_is_read_again_or_refused(tmp_path, format, suffix, data):
    path = tmp_path / ("text" + (suffix if format not in BINARY else ""))
    examples = data.draw(example_lists(awkward, awkward))
    try:
        write_examples(examples, path, format, DataConfig())
    except DataError:
        return
    options = DataConfig(format=format)
    assert list(read_examples(path, options, labelled=True)) == expected_of(examples, format)
    unlabelled = [Example(e.id, text=e.text) for e in expected_of(examples, format)]
    assert list(read_examples(path, options, labelled=False)) == unlabelled


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels=st.lists(awkward, max_size=4).map(tuple), unknown=st.lists(awkward, max_size=4).map(tuple))
def test_labels_that_may_be_there_are_read_again_or_refused(tmp_path, labels, unknown):
    examples = [Example("0", text="a", labels=labels, unknown=unknown)]
    try:
        write_examples(examples, tmp_path / "text", "jsonl", DataConfig())
    except DataError:
        return
    assert list(read_examples(tmp_path / "text", DataConfig(format="jsonl"), labelled=True)) == examples


@pytest.mark.parametrize("format", FORMATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_tame_examples_are_never_refused(tmp_path, format, data):
    rows = data.draw(st.lists(st.tuples(tame, tame, st.lists(tame, unique=True)), min_size=1, max_size=5))
    examples = [Example(own_id, text=text, labels=tuple(labels)) for own_id, text, labels in rows]
    examples = [e for e in examples if not e.text.startswith("__label__")] or [Example("0", text="a", labels=())]
    write_examples(examples, tmp_path / "text", format, DataConfig())
    read = list(read_examples(tmp_path / "text", DataConfig(format=format), labelled=True))
    assert read == expected_of(examples, format)


@pytest.mark.parametrize("format", [*FORMATS, "libsvm", "npz"])
@pytest.mark.parametrize("labelled", [True, False])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=60)
    | st.text(st.sampled_from('1,:#. ab"\t\n{}[]0-')).map(str.encode)
    | st.text(st.sampled_from('1,:#. ab"\t\n{}[]0-')).map(lambda rest: ("id,text,labels\n" + rest).encode())
)
def test_any_bytes_give_examples_or_a_data_error(tmp_path, format, labelled, content):
    (tmp_path / "text").write_bytes(content)
    (tmp_path / "label").write_bytes(content)
    counts = ReadCounts()
    try:
        examples = list(read_examples(tmp_path / "text", DataConfig(format=format), labelled=labelled, counts=counts))
    except DataError as error:
        message = str(error)
    else:
        message = ""
        check(examples, labelled, counts)
    assert not message or str(tmp_path) in message


def check(examples, labelled, counts):
    assert counts.examples == len(examples) > 0
    for example in examples:
        assert (example.labels is not None) == labelled
        assert (example.text is None) != (example.features is None)
        assert len(set(example.labels or ())) == len(example.labels or ())
