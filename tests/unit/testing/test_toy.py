import re
import tracemalloc
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from orderfree.testing.toy import (
    EXCLUSIVE,
    EXPECTED,
    LABELS,
    MAX_LABELS,
    PARENTS,
    SCENES,
    Scene,
    ToyCorpus,
    all_cases,
    generated_documents,
    held_back,
    toy_corpus,
    toy_texts,
)
from orderfree.types import Example

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module", params=SEEDS)
def corpus(request: pytest.FixtureRequest) -> ToyCorpus:
    return toy_corpus(request.param)


def parts(corpus: ToyCorpus) -> list[Example]:
    return corpus.train + corpus.valid + corpus.test


def label_sets(examples: list[Example]) -> list[tuple[str, ...]]:
    return [example.labels or () for example in examples]


def counts(examples: list[Example]) -> Counter[str]:
    return Counter(label for labels in label_sets(examples) for label in labels)


def words(text: str | None) -> set[str]:
    return set(re.findall("[a-z]+", (text or "").lower()))


def marginals(scene: Scene) -> dict[str, float]:
    totals = dict.fromkeys(scene.labels(), 0.0)
    for outcome, probability in scene.outcomes.items():
        for label in outcome.split():
            totals[label] += probability
    return totals


def test_the_same_seed_gives_the_same_corpus() -> None:
    assert toy_corpus(7, 50, 10, 10) == toy_corpus(7, 50, 10, 10)


def test_another_seed_gives_other_texts_over_the_same_labels() -> None:
    one, two = toy_corpus(1, 50, 10, 10), toy_corpus(2, 50, 10, 10)
    assert (one.labels, one.parents) == (two.labels, two.parents)
    assert [example.text for example in one.train] != [example.text for example in two.train]


def test_the_size_of_one_part_does_not_change_the_others() -> None:
    small, large = toy_corpus(1, 10, 20, 30), toy_corpus(1, 40, 20, 30)
    assert (small.valid, small.test) == (large.valid, large.test)
    assert small.train == large.train[:10]


def test_parts_have_the_asked_sizes_and_unique_ids(corpus: ToyCorpus) -> None:
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (4000, 500, 1000)
    assert (corpus.train[0].id, corpus.test[-1].id) == ("train-0", "test-999")
    assert len({example.id for example in parts(corpus)}) == 5500


def test_texts_are_short_and_never_name_a_label(corpus: ToyCorpus) -> None:
    for example in parts(corpus):
        assert 8 <= len((example.text or "").split()) <= 30
        assert not words(example.text) & set(LABELS)


def test_label_sets_have_one_to_five_known_labels(corpus: ToyCorpus) -> None:
    assert 20 <= len(corpus.labels) <= 40
    sets = label_sets(parts(corpus))
    assert {len(labels) for labels in sets} == set(range(1, MAX_LABELS + 1))
    assert all(list(labels) == sorted(set(labels), key=corpus.labels.index) for labels in sets)


def test_a_child_never_comes_without_its_parent(corpus: ToyCorpus) -> None:
    for labels in label_sets(parts(corpus)):
        assert {PARENTS[label] for label in labels if label in PARENTS} <= set(labels)


def test_exclusive_labels_never_meet(corpus: ToyCorpus) -> None:
    for labels in label_sets(parts(corpus)):
        assert not any(set(pair) <= set(labels) for pair in EXCLUSIVE)


def test_partners_go_together_although_the_text_is_silent(corpus: ToyCorpus) -> None:
    sets = [labels for labels in label_sets(corpus.train) if "cheese" in labels]
    assert np.mean(["wine" in labels for labels in sets]) > 0.75


def test_frequencies_are_skewed_and_every_label_is_learnable(corpus: ToyCorpus) -> None:
    found = counts(corpus.train)
    assert set(counts(corpus.test)) <= set(found) == set(LABELS)
    assert min(found.values()) >= 5
    assert max(found.values()) > 20 * min(found.values())


def test_a_good_share_of_the_test_part_has_combinations_training_never_shows(corpus: ToyCorpus) -> None:
    seen = set(label_sets(corpus.train))
    assert not seen & held_back()
    assert 0.10 <= np.mean([labels not in seen for labels in label_sets(corpus.test)]) <= 0.25
    assert any(labels in held_back() for labels in label_sets(corpus.test))


def test_probabilities_sum_to_one() -> None:
    assert sum(case.probability for case in all_cases()) == pytest.approx(1)
    assert all(sum(scene.outcomes.values()) == pytest.approx(1) for scene in SCENES)


def test_where_words_are_ambiguous_no_threshold_finds_the_most_probable_set() -> None:
    """The point of the corpus: the labels of the best set are not the probable labels."""
    baffling = 0.0
    for scene in SCENES:
        best = set(max(scene.outcomes, key=scene.outcomes.__getitem__).split())
        scores = marginals(scene)
        others = [score for label, score in scores.items() if label not in best]
        if max(others, default=0.0) > min(scores[label] for label in best):
            baffling += scene.weight
    assert baffling > 0.2 * sum(scene.weight for scene in SCENES)


def test_labels_repel_each_other_under_the_same_words(corpus: ToyCorpus) -> None:
    ambiguous = next(scene for scene in SCENES if "travel railway strike" in scene.outcomes)
    shown = set(ambiguous.words.split())
    sets = [e.labels or () for e in corpus.train if len(words(e.text) & shown) == 2]
    railway, storm, strike = (np.array([name in labels for labels in sets]) for name in ("railway", "storm", "strike"))
    assert np.corrcoef(railway, storm)[0, 1] < -0.5
    assert np.corrcoef(railway, strike)[0, 1] > 0.5


def test_a_second_scene_settles_an_ambiguous_one() -> None:
    travel = next(i for i, scene in enumerate(SCENES) if "travel railway strike" in scene.outcomes)
    strike = next(i for i, scene in enumerate(SCENES) if scene.outcomes == {"strike": 1.0})
    assert [case.labels for case in all_cases() if case.scenes == (travel, strike)] == [("travel", "railway", "strike")]


def test_the_stream_has_the_distribution_of_the_cases() -> None:
    documents = 20_000
    found = counts(list(generated_documents(documents)))
    for label in LABELS:
        share = sum(case.probability for case in all_cases() if label in case.labels)
        spread = np.sqrt(share * (1 - share) / documents)
        assert abs(found[label] / documents - share) < 5 * spread


def test_the_stream_is_reproducible_lazy_and_as_long_as_asked() -> None:
    assert list(generated_documents(1500)) == list(islice(generated_documents(10**12), 1500))
    assert list(generated_documents(0)) == []


def test_the_stream_needs_the_same_memory_however_long_it_is() -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        for _ in generated_documents(count):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1)  # fills the caches
    assert peak(20_000) < 1.2 * peak(2_000)


def test_new_texts_show_scenes_that_leave_no_doubt() -> None:
    assert [example.labels for example in toy_texts()] == [None] * 3
    for example, expected in zip(toy_texts(), EXPECTED, strict=True):
        shown = words(example.text)
        told = [scene for scene in SCENES if len(shown & set(scene.words.split())) == 2]
        assert all(len(scene.outcomes) == 1 for scene in told)
        assert {label for scene in told for label in scene.labels()} == set(expected)
