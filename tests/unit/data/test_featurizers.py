"""Featurizers: what is learnt, what an example becomes, and that a saved one gives the same arrays."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from orderfree.config import DataConfig
from orderfree.data.featurizers import kinds
from orderfree.data.featurizers.bag import CHARACTERS, LEAD_WEIGHT, BagFeaturizer
from orderfree.data.featurizers.frames import FrameFeaturizer
from orderfree.data.featurizers.words import WordFeaturizer
from orderfree.errors import DataError
from orderfree.nn.encoders.bilstm import BiLSTMOptions
from orderfree.nn.encoders.dense import DenseOptions
from orderfree.nn.encoders.linear import LinearOptions
from orderfree.nn.encoders.sparse import SparseOptions
from orderfree.types import Example, SparseVector

TEXTS = ["The red fish.", "a red, RED pond", "blue fish and red fish", ""]


def examples(*texts: str) -> list[Example]:
    return [Example(str(n), text=text) for n, text in enumerate(texts)]


def bag(*texts: str, ngrams: int = 1, **data) -> BagFeaturizer:
    return BagFeaturizer.fit(examples(*texts), DataConfig(**data), SparseOptions(ngrams=ngrams))


def words(*texts: str, **data) -> WordFeaturizer:
    return WordFeaturizer.fit(examples(*texts), DataConfig(**data), BiLSTMOptions())


# --- bags -------------------------------------------------------------------------------------------------------------

WORDS = ["red", "fish", "Blue", "pond", "größe", "x", "字字", "don't", "re-use", "42"]
texts = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
    min_size=2,
    max_size=6,
).filter(lambda texts: any("red" in text or "fish" in text for text in texts))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(texts, st.integers(1, 3), st.booleans())
def test_bags_are_those_of_scikit_learn(texts: list[str], ngrams: int, lowercase: bool) -> None:
    reference = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, ngrams), lowercase=lowercase)
    matrix = reference.fit_transform(texts).toarray()  # (N, terms)
    ours = bag(*texts, ngrams=ngrams, lowercase=lowercase)
    assert list(ours.terms or {}) == reference.get_feature_names_out().tolist()
    for example, row in zip(examples(*texts), matrix, strict=True):
        arrays = ours.encode(example).arrays
        dense = np.zeros(len(row))
        dense[arrays["indices"]] = arrays["weights"]
        np.testing.assert_allclose(dense, row, atol=1e-6)


def test_new_texts_use_the_frequencies_of_the_training_part() -> None:
    reference = TfidfVectorizer(sublinear_tf=True).fit(TEXTS)
    arrays = bag(*TEXTS).encode(Example("new", text="red red unseen pond")).arrays
    np.testing.assert_allclose(arrays["weights"], reference.transform(["red red unseen pond"]).data, atol=1e-6)


def test_the_vocabulary_keeps_the_terms_of_most_documents() -> None:
    """red is in two documents, fish in two; pond, though it is written most often, in one."""
    capped = bag("red fish", "red fish pond pond pond pond", vocabulary_size=2)
    assert list(capped.terms or {}) == ["fish", "red"]
    assert capped.input_size == 2
    assert list(bag(*TEXTS, min_count=2).terms or {}) == ["fish", "red"]


def test_a_bag_is_cut_at_max_words_and_says_so() -> None:
    ours = bag("one two three four", max_words=3)
    assert list(ours.terms or {}) == ["one", "three", "two"]
    assert ours.encode(Example("x", text="one two three")).truncated is False
    cut = ours.encode(Example("x", text="one one one three"))
    assert cut.truncated is True
    assert cut.arrays["indices"].tolist() == [0]


def test_an_empty_text_is_an_empty_bag() -> None:
    encoded = bag(*TEXTS).encode(Example("x", text=" . "))
    assert (len(encoded.arrays["indices"]), len(encoded.arrays["weights"]), encoded.length) == (0, 0, 0)
    assert encoded.arrays["indices"].dtype == np.int32
    assert encoded.arrays["weights"].dtype == np.float32
    assert bag("a", "b").input_size == 1, "an encoder needs at least one term"


def test_bags_in_a_batch_lie_end_to_end() -> None:
    ours = bag(*TEXTS)
    rows = [ours.encode(example).arrays for example in examples("red fish", "", "blue")]
    batch = ours.collate(rows)
    assert batch.offsets.tolist() == [0, 2, 2]
    assert batch.indices.tolist() == [*rows[0]["indices"], *rows[2]["indices"]]


def test_libsvm_vectors_are_taken_as_they_are() -> None:
    def sparse(*terms: tuple[int, float]) -> Example:
        indices, values = zip(*terms, strict=True)
        return Example("x", features=SparseVector(np.array(indices, np.int32), np.array(values, np.float32)))

    ours = BagFeaturizer.fit([sparse((0, 1.0), (6, 2.0)), sparse((3, 1.0))], DataConfig(), SparseOptions())
    assert ours.input_size == 7
    arrays = ours.encode(sparse((2, 0.25), (6, -1.0), (9, 5.0))).arrays
    assert arrays["indices"].tolist() == [2, 6], "term 9 was never seen"
    assert arrays["weights"].tolist() == [0.25, -1.0]
    with pytest.raises(DataError, match="trained on libsvm features"):
        ours.encode(Example("t", text="words"))


# --- words ------------------------------------------------------------------------------------------------------------


def tokens(featurizer: WordFeaturizer, text: str) -> list[str]:
    ids = featurizer.encode(Example("x", text=text)).arrays["tokens"].tolist()
    return [featurizer.tokenizer.id_to_token(i) for i in ids]


def test_words_and_marks_are_tokens_and_the_unseen_is_unknown() -> None:
    ours = words(*TEXTS)
    assert tokens(ours, "Red FISH, unseen.") == ["red", "fish", ",", "[UNK]", "."]
    assert tokens(words("Red", lowercase=False), "Red red") == ["Red", "[UNK]"]
    assert tokens(words("cafe\u0301"), "caf\u00e9") == ["caf\u00e9"], "one spelling of accents"


def test_the_word_vocabulary_is_capped_by_frequency() -> None:
    capped = words("red red red fish fish blue", vocabulary_size=4)  # two of them are [PAD] and [UNK]
    assert capped.input_size == 4
    assert tokens(capped, "red fish blue") == ["red", "fish", "[UNK]"]
    assert tokens(words("red red fish", min_count=2), "red fish") == ["red", "[UNK]"]
    assert words("red fish", vocabulary_size=1).input_size == 2


def test_a_text_is_cut_at_max_words_and_says_so() -> None:
    ours = words("one two three four", max_words=3)
    exact, longer = (ours.encode(Example("x", text=t)) for t in ("one two three", "one two three four"))
    assert (exact.length, exact.truncated) == (3, False)
    assert (longer.length, longer.truncated) == (3, True)


@pytest.mark.parametrize("text", ["", "   \n", "\u200b"])
def test_an_empty_text_still_has_a_position(text: str) -> None:
    encoded = words(*TEXTS).encode(Example("x", text=text))
    assert encoded.length == 1
    assert encoded.truncated is False


def test_words_are_padded_at_the_end() -> None:
    ours = words(*TEXTS)
    batch = ours.collate([ours.encode(example).arrays for example in examples("red fish", "", "red")])
    assert batch.lengths.tolist() == [2, 1, 1]
    assert batch.ids.shape == (3, 2)
    assert batch.ids[1:, 1].tolist() == [ours.padding] * 2


def test_features_are_refused_where_text_is_read() -> None:
    dense = Example("d", features=np.zeros(3, np.float32))
    with pytest.raises(DataError, match="'d' has features but no text"):
        words(*TEXTS).encode(dense)
    with pytest.raises(DataError, match="'d' has no text and no libsvm features"):
        bag(*TEXTS).encode(dense)


@pytest.mark.parametrize("make", [bag, words])
def test_a_million_words_cost_no_more_than_max_words(make) -> None:
    ours = make(*TEXTS)
    text = "red fish " * 500_000
    start = time.perf_counter()
    encoded = ours.encode(Example("x", text=text))
    assert time.perf_counter() - start < 1.0
    assert encoded.truncated


# --- frames -----------------------------------------------------------------------------------------------------------


def frames(*features: np.ndarray) -> FrameFeaturizer:
    return FrameFeaturizer.fit(
        [Example(str(n), features=f.astype(np.float32)) for n, f in enumerate(features)], DataConfig(), DenseOptions()
    )


def test_frames_are_standardised_with_the_training_parts_mean_and_deviation() -> None:
    generator = np.random.default_rng(0)
    features = [generator.normal(3, 2, size=(n, 4)) for n in (1, 5, 3)]
    ours = frames(*features)
    every = np.concatenate(features)
    np.testing.assert_allclose(ours.mean, every.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(ours.deviation, every.std(axis=0), rtol=1e-5)
    encoded = ours.encode(Example("x", features=features[1].astype(np.float32)))
    assert encoded.length == 5
    scaled = (features[1] - every.mean(axis=0)) / every.std(axis=0)
    np.testing.assert_allclose(ours.collate([encoded.arrays]).frames[0], scaled, atol=1e-4)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1000.1, -1.3237191, -77777.7])
def test_columns_that_never_vary_are_not_blown_up(constant: float) -> None:
    """Sums of squares round: taken around 0 they leave a deviation of 1e-8 or so behind."""
    for count in (3, 300, 1837):
        ours = frames(*[np.stack([np.full(count, constant), np.arange(count)], axis=1)] * 3)
        assert ours.deviation[0] == 1.0
        encoded = ours.encode(Example("x", features=np.array([constant + 1, 0], np.float32)))
        assert float(ours.collate([encoded.arrays]).frames[0, 0, 0]) == pytest.approx(1.0, abs=1e-2)


def test_quantised_features_stay_bytes_and_need_no_scale() -> None:
    """AudioSet's x / 255 * 4 - 2, or any other linear map, gives the same batch."""
    generator = np.random.default_rng(2)
    clips = [generator.integers(0, 256, size=(n, 5), dtype=np.uint8) for n in (3, 1, 10)]
    made = {
        kind: [Example(str(n), features=change(clip)) for n, clip in enumerate(clips)]
        for kind, change in {"bytes": lambda x: x, "values": lambda x: (x / 255 * 4 - 2).astype(np.float32)}.items()
    }
    fitted = {kind: FrameFeaturizer.fit(e, DataConfig(), DenseOptions()) for kind, e in made.items()}
    rows = {kind: [fitted[kind].encode(example).arrays for example in e] for kind, e in made.items()}
    assert rows["bytes"][0]["frames"].dtype == np.uint8
    first, second = (fitted[kind].collate(rows[kind]) for kind in made)
    np.testing.assert_allclose(first.frames, second.frames, atol=1e-4)
    with pytest.raises(DataError, match=r"'0' has features of type float32, the model was trained on 8-bit ones"):
        fitted["bytes"].encode(made["values"][0])


def test_one_vector_is_one_frame_and_no_frame_is_refused() -> None:
    ours = frames(np.zeros((2, 3)), np.ones((1, 3)))
    assert ours.encode(Example("x", features=np.zeros(3, np.float32))).length == 1
    with pytest.raises(DataError, match="'x' has no frames"):
        ours.encode(Example("x", features=np.zeros((0, 3), np.float32)))


def test_frames_are_padded_with_zeros() -> None:
    ours = frames(np.arange(6.0).reshape(3, 2), np.ones((1, 2)))
    rows = [
        ours.encode(Example("x", features=f.astype(np.float32))).arrays
        for f in (np.arange(6.0).reshape(3, 2), np.ones((1, 2)))
    ]
    batch = ours.collate(rows)
    assert batch.frames.shape == (2, 3, 2)
    assert batch.lengths.tolist() == [3, 1]
    assert (batch.frames[1, 1:] == 0).all()


def test_another_number_of_features_is_refused() -> None:
    with pytest.raises(DataError, match="'1' has 2 features, the first has 3"):
        frames(np.zeros(3), np.zeros(2))
    with pytest.raises(DataError, match="'x' has 2 features, the model was trained on 3"):
        frames(np.zeros(3)).encode(Example("x", features=np.zeros(2, np.float32)))
    with pytest.raises(DataError, match="'t' has no dense features"):
        frames(np.zeros(3)).encode(Example("t", text="words"))


# --- all --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tokens", "bag", "dense"])
def test_a_saved_featurizer_gives_the_same_arrays(kind: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    if kind == "dense":
        given = [Example(str(n), features=generator.normal(size=(n, 3)).astype(np.float32)) for n in (1, 4, 2)]
    else:
        given = examples(*TEXTS, "größe 字 🙂 don't", "a b c " * 30)
    options = {"tokens": BiLSTMOptions(), "bag": SparseOptions(ngrams=2), "dense": DenseOptions()}[kind]
    data = DataConfig(max_words=20)
    fitted = kinds()[kind].fit(given, data, options)
    fitted.save(tmp_path)
    loaded = kinds()[kind].load(tmp_path, data, options)
    assert loaded.input_size == fitted.input_size
    for example in given:
        before, after = fitted.encode(example), loaded.encode(example)
        assert (before.length, before.truncated) == (after.length, after.truncated)
        assert set(before.arrays) == set(fitted.columns)
        for name, kind_of_value in fitted.columns.items():
            assert before.arrays[name].dtype == kind_of_value
            np.testing.assert_array_equal(before.arrays[name], after.arrays[name])


@pytest.mark.parametrize("make", [bag, words])
def test_fitting_twice_gives_the_same(make, tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        make(*TEXTS, "c b a").save(tmp_path / place)
    (first,), (second,) = ((tmp_path / place).iterdir() for place in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


def test_character_ngrams_are_those_of_scikit_learn() -> None:
    """Words and character n-grams are a bag each, as long as one another."""
    texts = ["Wheat prices rose again", "the price of wheat, rising", "corn"]
    examples = [Example(str(n), text) for n, text in enumerate(texts)]
    bag = BagFeaturizer.fit(examples, DataConfig(), LinearOptions(chars=4))
    words = TfidfVectorizer(sublinear_tf=True).fit(texts)
    chars = TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=(3, 4)).fit(
        [" ".join(words.build_analyzer()(text)) for text in texts]
    )
    names = list(bag.terms)
    for text, example in zip(texts, examples, strict=True):
        encoded = bag.encode(example)
        found = {names[i]: w for i, w in zip(encoded.arrays["indices"], encoded.arrays["weights"], strict=True)}
        expected = {}
        for vectorizer, mark in ((words, ""), (chars, CHARACTERS)):
            row = vectorizer.transform([" ".join(words.build_analyzer()(text))]).tocoo()
            terms = vectorizer.get_feature_names_out()
            expected |= {mark + terms[i]: w for i, w in zip(row.col, row.data, strict=True)}
        assert found == pytest.approx(expected, abs=1e-6)


def test_character_ngrams_survive_saving(tmp_path: Path) -> None:
    examples = [Example("1", "wheat and corn"), Example("2", "corn")]
    bag = BagFeaturizer.fit(examples, DataConfig(), LinearOptions(chars=5))
    bag.save(tmp_path)
    loaded = BagFeaturizer.load(tmp_path, DataConfig(), LinearOptions(chars=5))
    for name, values in bag.encode(examples[0]).arrays.items():
        np.testing.assert_array_equal(loaded.encode(examples[0]).arrays[name], values)


def test_leading_words_are_a_bag_of_their_own() -> None:
    """By hand: `a` is in every text (idf 1), `b` among the first two words of the first text only."""
    texts = ["aa bb aa cc", "aa cc bb dd"]
    bag = BagFeaturizer.fit(examples(*texts), DataConfig(), LinearOptions(leads=[1, 2]))
    assert list(bag.terms) == ["aa", "bb", "cc", "dd", "1^aa", "2^aa", "2^bb", "2^cc"]
    encoded = bag.encode(examples(*texts)[0]).arrays
    found = {list(bag.terms)[i]: w for i, w in zip(encoded["indices"], encoded["weights"], strict=True)}
    rare = np.log(3 / 2) + 1  # inverse document frequency of a term in one of two texts
    assert found["1^aa"] == pytest.approx(LEAD_WEIGHT)
    assert found["2^aa"] == pytest.approx(LEAD_WEIGHT / np.hypot(1, rare))
    assert found["2^bb"] == pytest.approx(LEAD_WEIGHT * rare / np.hypot(1, rare))
    words = np.array([found["aa"], found["bb"], found["cc"]])
    assert np.linalg.norm(words) == pytest.approx(1)
    assert "2^cc" not in found


def test_leading_words_change_no_other_weight() -> None:
    texts = ["red fish in a pond", "blue fish"]
    plain, leading = (BagFeaturizer.fit(examples(*texts), DataConfig(), LinearOptions(leads=n)) for n in ([], [3]))
    assert not plain.leading.any()
    assert [term for term, is_lead in zip(leading.terms, leading.leading, strict=True) if is_lead] == [
        term for term in leading.terms if term not in plain.terms
    ]
    for example in examples(*texts):
        few, many = plain.encode(example).arrays, leading.encode(example).arrays
        np.testing.assert_array_equal(many["indices"][: len(few["indices"])], few["indices"])
        np.testing.assert_array_equal(many["weights"][: len(few["weights"])], few["weights"])
        assert len(many["indices"]) > len(few["indices"])
