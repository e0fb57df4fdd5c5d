"""Solved classifiers against scikit-learn, and nothing leaks into what the decoders are trained on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from orderfree.build import complete_config
from orderfree.checkpoint import TRAINING, save_model
from orderfree.config import DataConfig
from orderfree.data.readers import read_examples
from orderfree.data.writers import write_examples
from orderfree.errors import ConfigError, ModelDirectoryError
from orderfree.evaluation import evaluate
from orderfree.inference import Predictor
from orderfree.metrics.thresholds import best_threshold
from orderfree.nn.br_decoder import Calibration
from orderfree.nn.encoders.linear import (
    ALONE,
    LinearEncoder,
    LinearOptions,
    best_c,
    best_cut,
    example_weights,
    one_vs_rest,
    without,
)
from orderfree.scoring.neighbours import Neighbours
from orderfree.testing.toy import toy_corpus
from orderfree.training.loop import Stop
from orderfree.training.prepare import prepare
from orderfree.training.run import Interrupted, train
from orderfree.types import BagInput

N, V, L = 60, 12, 4


@pytest.fixture
def problem() -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    generator = np.random.default_rng(0)
    features = scipy.sparse.random(N, V, density=0.4, random_state=0, format="csr", dtype=np.float32)
    targets = features.toarray()[:, :L] + 0.2 * generator.standard_normal((N, L)) > 0.3
    targets[:, 3] = False
    return features, targets


@contextmanager
def threads_of_torch(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


EXACTLY = ALONE + 1  # threads: the primal problem is solved to the last digits


def as_bag(features: scipy.sparse.csr_matrix) -> BagInput:
    indices, weights = torch.from_numpy(features.indices).long(), torch.from_numpy(features.data)
    return BagInput(indices, weights, torch.from_numpy(features.indptr[:-1]).long())


def test_its_scores_are_those_of_scikit_learn(problem) -> None:
    features, targets = problem
    encoder = LinearEncoder(LinearOptions(c=1.0), V, 0.5, L).train()
    with threads_of_torch(EXACTLY):
        assert encoder.solve(features, targets, seed=1, out_of_fold=False) is None
    scores = encoder(as_bag(features)).summary.numpy()
    peer = OneVsRestClassifier(LinearSVC(C=1.0, random_state=0)).fit(features, targets[:, :3])
    np.testing.assert_allclose(scores[:, :3], peer.decision_function(features), atol=1e-4)
    assert (scores[:, 3] == -1).all(), "a label nobody has is never predicted"


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_out_of_fold_scores_do_not_know_their_own_label(problem, loss: str) -> None:
    """Turning the labels of one example round changes other examples' scores, never its own."""
    features, targets = problem
    before = LinearEncoder(LinearOptions(loss=loss, c=1.0), V, 0.0, L).solve(features, targets, seed=1)
    turned = targets.copy()
    turned[7, :3] = ~turned[7, :3]
    after = LinearEncoder(LinearOptions(loss=loss, c=1.0), V, 0.0, L).solve(features, turned, seed=1)
    assert before is not None
    assert after is not None
    np.testing.assert_array_equal(before[7], after[7])
    assert not np.allclose(before, after)


def test_a_label_all_examples_have_scores_high(problem) -> None:
    features, targets = problem
    targets[:, 3] = True
    weights, bias = one_vs_rest(features, targets, "squared_hinge", 1.0)
    assert not weights[3].any()
    assert bias[3] > 0


def test_scores_that_come_with_a_batch_are_used(problem) -> None:
    features, _ = problem
    bag = as_bag(features)
    given = torch.randn(N, L)
    output = LinearEncoder(LinearOptions(), V, 0.0, L)(BagInput(bag.indices, bag.weights, bag.offsets, given))
    assert torch.equal(output.summary, given)
    assert torch.equal(output.states[:, 0], given)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("toy")
    corpus = toy_corpus(1, 300, 60, 0)
    for name, part in (("train", corpus.train), ("valid", corpus.valid)):
        write_examples(iter(part), folder / f"{name}.jsonl", "jsonl", DataConfig())
    return folder / "train.jsonl", folder / "valid.jsonl"


def config(**sections: dict):
    raw = {"model": {"encoder": "linear"}, "training": {"epochs": 2, "tensorboard": False, "threads": 1}}
    return complete_config({key: raw.get(key, {}) | value for key, value in {**raw, **sections}.items()}, "the test")


def test_an_svm_has_nothing_to_descend_to(files, tmp_path: Path) -> None:
    own = config(model={"br_decoder": "scores", "encoder": "linear"}, objective={"sequence": None})
    trained = train(own, *files, tmp_path / "svm")
    assert trained.metrics["updates"] == 0
    assert trained.metrics["validation"]["br"]["micro_f1"] > 0.6
    assert trained.network.parameter_count() > 0
    loaded = Predictor.load(tmp_path / "svm")
    assert torch.equal(loaded.trained.network.encoder.terms, trained.network.encoder.terms)


def asking(nearest: int, **options: Any) -> dict[str, Any]:
    return {"encoder": "linear", "encoder_options": {"neighbours": nearest, **options}}


@pytest.mark.parametrize("nearest", [0, 5])
def test_decoders_are_trained_on_out_of_fold_scores_and_resume_exactly(files, tmp_path: Path, nearest: int) -> None:
    own = config(model=asking(nearest))
    whole = train(own, *files, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(own, *files, tmp_path / "cut", stop=Stop(requested=True))
    assert (tmp_path / "cut" / TRAINING / "data" / "solved" / "linear.safetensors").exists()
    again = train(own, *files, tmp_path / "cut", resume=True)
    held = [(folder / "neighbours.safetensors").exists() for folder in (tmp_path / "whole", tmp_path / "cut")]
    assert held == [nearest > 0] * 2
    if nearest:
        one, other = ((tmp_path / name / "neighbours.safetensors").read_bytes() for name in ("whole", "cut"))
        assert one == other
    for name, weights in whole.network.state_dict().items():
        assert torch.equal(weights, again.network.state_dict()[name]), name
    assert set(whole.metrics["validation"]) >= {"greedy", "beam", "br", "rescore", "joint"}


def test_neighbours_are_asked_in_validation_as_in_prediction(files, tmp_path: Path) -> None:
    trained = train(config(model=asking(5)), *files, tmp_path / "run")
    loaded = Predictor.load(tmp_path / "run")
    examples = list(read_examples(files[1], DataConfig(), labelled=True))
    found = evaluate(loaded, examples, ["br", "joint", "linear"])["decoders"]
    for decoder, scores in found.items():
        for metric, value in scores.items():
            assert trained.metrics["validation"][decoder].get(metric, value) == pytest.approx(value), (decoder, metric)
    combination = trained.network.encoder.combination
    assert combination is not None
    assert (combination.vote > 0).any()


def test_neighbours_of_the_validation_part_are_remembered_when_all_is_chosen(files, tmp_path: Path) -> None:
    train(config(model=asking(5)), *files, tmp_path / "plain")
    train(config(model=asking(5, refit=True)), *files, tmp_path / "again")
    plain, again = (Predictor.load(tmp_path / name).trained for name in ("plain", "again"))
    assert [model.featurizer.neighbours.bags.shape[0] for model in (plain, again)] == [300, 360]
    for name, weights in plain.network.encoder.combination.state_dict().items():
        assert torch.equal(weights, again.network.encoder.combination.state_dict()[name]), name


def test_neighbours_beside_another_encoder(files, tmp_path: Path) -> None:
    parts = {"linear": {"neighbours": 5}, "bilstm": {"embedding": 4, "hidden": 4, "layers": 1}}
    own = config(model={"encoder": "hybrid", "encoder_options": {"parts": parts, "hidden": 8}})
    train(own, *files, tmp_path / "run")
    bag = Predictor.load(tmp_path / "run").trained.featurizer.parts["linear"]
    assert bag.neighbours.bags.shape[0] == 300


def test_neighbours_of_other_labels_are_refused(files, tmp_path: Path) -> None:
    train(config(model=asking(5)), *files, tmp_path / "run")
    trained = Predictor.load(tmp_path / "run").trained
    kept = trained.featurizer.neighbours
    trained.featurizer.neighbours = Neighbours(kept.bags, kept.targets[:, :-1], 5)
    save_model(trained, tmp_path / "run", "A card.\n")
    with pytest.raises(ModelDirectoryError, match="its neighbours have 35 labels"):
        Predictor.load(tmp_path / "run")


def test_only_the_linear_encoder_scores_labels() -> None:
    with pytest.raises(ConfigError, match=r"needs model\.encoder=linear"):
        complete_config({"model": {"br_decoder": "scores"}}, "the test")


@pytest.mark.parametrize("peak", [1 / 16, 1 / 8, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_c_is_climbed_to(peak: float) -> None:
    """Scores that get worse with every factor of two away from the peak; each C is tried once."""
    targets = np.random.default_rng(0).random((50, 4)) < 0.3
    noise = np.random.default_rng(1).standard_normal((50, 4))
    tried = []

    def scores_at(c: float) -> np.ndarray:
        tried.append(c)
        return targets + abs(np.log2(c / peak)) * noise

    c, scores = best_c(scores_at, lambda found: best_cut(found, targets))
    assert c == peak
    np.testing.assert_array_equal(scores, targets)
    assert len(set(tried)) == len(tried) <= 7


def test_c_stays_within_bounds() -> None:
    targets = np.random.default_rng(0).random((50, 4)) < 0.3
    noise = np.random.default_rng(1).standard_normal((50, 4))

    def value(scores: np.ndarray) -> float:
        return best_cut(scores, targets)

    for sign in (-1, 1):  # ever better the farther from 1
        c, _ = best_c(lambda c, sign=sign: targets + 2.0 ** (sign * np.log2(c)) * noise, value)
        assert 1 / 128 <= c <= 8


def test_the_best_cut_is_that_of_the_thresholds() -> None:
    generator = np.random.default_rng(2)
    scores, targets = generator.standard_normal((30, 5)), generator.random((30, 5)) < 0.2
    assert best_cut(scores, targets) == pytest.approx(best_threshold(scores, targets)[1])
    assert best_cut(scores, np.zeros_like(targets)) == 0.0


def test_the_chosen_c_is_the_best_on_the_held_out_fold(problem) -> None:
    features, targets = problem
    encoder = LinearEncoder(LinearOptions(folds=3), V, 0.0, L)
    scores = encoder.solve(features, targets, seed=1)
    fixed = LinearEncoder(LinearOptions(folds=3, c=encoder.c), V, 0.0, L)
    np.testing.assert_allclose(fixed.solve(features, targets, seed=1), scores, atol=1e-6)


@pytest.mark.parametrize("helpful", [True, False])
def test_optional_features_stay_where_they_help(problem, helpful: bool) -> None:
    """Either the labels themselves, or loud noise, beside the features."""
    features, targets = problem
    noise = 5 * np.random.default_rng(3).standard_normal((len(targets), 30))
    more = scipy.sparse.hstack([features, targets.astype(float) if helpful else noise]).tocsr()
    optional = np.arange(more.shape[1]) >= V
    encoder = LinearEncoder(LinearOptions(folds=3), more.shape[1], 0.0, L)
    scores = encoder.solve(more, targets, seed=1, optional=optional)
    assert encoder.terms[optional].any() == helpful
    twin = LinearEncoder(LinearOptions(folds=3), more.shape[1] if helpful else V, 0.0, L)
    np.testing.assert_allclose(twin.solve(more if helpful else features, targets, seed=1), scores, atol=1e-4)
    assert twin.c == encoder.c

    told = LinearEncoder(LinearOptions(folds=3, c=1.0), more.shape[1], 0.0, L)
    told.solve(more, targets, seed=1, optional=optional)
    assert told.terms[optional].any(), "a C that was given: nothing is looked for"


def test_calibration_starts_where_scores_are_likeliest() -> None:
    """Labels drawn with log-odds 7 s - 2: that pair is found again, and the loss cannot be lowered by moving it."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4000, 5, generator=generator)
    targets = torch.rand(4000, 5, generator=generator) < (7 * scores - 2).sigmoid()
    calibration = Calibration()
    calibration.fit(scores, targets)
    assert calibration.scale.item() == pytest.approx(7, rel=0.1)
    assert calibration.offset.item() == pytest.approx(-2, rel=0.1)
    torch.nn.functional.binary_cross_entropy_with_logits(calibration(scores), targets.float()).backward()
    assert abs(calibration.scale.grad.item()) < 1e-5
    assert abs(calibration.offset.grad.item()) < 1e-5


def test_calibration_of_scores_that_separate_everything_stays_finite() -> None:
    scores = torch.tensor([[2.0, -2.0], [-3.0, 3.0]])
    calibration = Calibration()
    calibration.fit(scores, scores > 0)
    assert torch.isfinite(calibration(scores)).all()
    assert calibration.scale.item() > 4


def test_calibration_never_turns_scores_upside_down() -> None:
    scores = torch.tensor([[1.0, 0.5], [-1.0, -0.5], [0.8, -0.9]])
    calibration = Calibration()
    calibration.fit(scores, scores < 0)
    assert (calibration.scale.item(), calibration.offset.item()) == (4.0, 0.0)


def test_calibration_of_tiny_margins() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = 0.01 * torch.randn(4000, 5, generator=generator)
    targets = torch.rand(4000, 5, generator=generator) < (300 * scores).sigmoid()
    calibration = Calibration()
    calibration.fit(scores, targets)
    assert calibration.scale.item() == pytest.approx(300, rel=0.1)


def test_examples_of_a_rare_label_weigh_more() -> None:
    assert example_weights(np.array([800, 200, 50, 2, 0]), 200).tolist() == [1.0, 1.0, 2.0, 4.0, 4.0]
    assert example_weights(np.array([1, 5000]), 0).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_weighing_twice_is_having_the_example_twice(loss: str) -> None:
    generator = np.random.default_rng(3)
    features = scipy.sparse.csr_matrix(generator.normal(size=(40, 6)))
    targets = np.zeros((40, 1), dtype=bool)
    targets[:5] = True
    twice = np.concatenate([np.arange(40), np.arange(5)])
    weighted = one_vs_rest(features, targets, loss, 1.0, rare=20)
    repeated = one_vs_rest(features[twice], targets[twice], loss, 1.0)
    for ours, theirs in zip(weighted, repeated, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_an_example_of_weight_two_is_solved_for_as_two(problem, loss: str) -> None:
    features, targets = problem
    weights = np.where(np.arange(N) < 20, 2.0, 1.0)
    twice = np.concatenate([np.arange(N), np.arange(20)])
    weighted = one_vs_rest(features, targets, loss, 1.0, weights[:, None])
    doubled = one_vs_rest(features[twice], targets[twice], loss, 1.0)
    np.testing.assert_allclose(weighted[0], doubled[0], atol=0.02)
    assert not np.allclose(weighted[0], one_vs_rest(features, targets, loss, 1.0)[0], atol=0.02)
    scores, truth = torch.from_numpy(features.toarray()[:, :L]), torch.from_numpy(targets)
    one, other = Calibration(), Calibration()
    one.fit(scores, truth, torch.from_numpy(weights)[:, None])
    other.fit(scores[twice], truth[twice])
    assert one.offset.item() == pytest.approx(other.offset.item(), rel=1e-3)


def test_the_number_of_threads_changes_no_byte(problem) -> None:
    """Up to two threads solve the dual problem, more of them the primal one; both find the same classifiers."""
    features, targets = problem
    solved = {}
    for threads in (1, 2, 3, 4):
        with threads_of_torch(threads):
            solved[threads] = [one_vs_rest(features, targets, "squared_hinge", 1.0) for _ in range(2)]
    for same in ((1, 2), (3, 4)):
        (terms, bias), *others = (found for threads in same for found in solved[threads])
        for other_terms, other_bias in others:
            assert np.array_equal(terms, other_terms)
            assert np.array_equal(bias, other_bias)
    for dual, primal in zip(solved[1][0], solved[4][0], strict=True):
        np.testing.assert_allclose(dual, primal, atol=0.01)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_validation_part_is_learned_when_all_is_chosen(tmp_path: Path, weighted: bool) -> None:
    """Decoders, thresholds and choices are those of a run that leaves it out; the classifiers are those of both parts,
    an example of weight 2 counting as if it were there twice."""
    corpus = toy_corpus(1, 300, 60, 0)
    valid = [replace(example, weight=1.0 + weighted * (i % 2)) for i, example in enumerate(corpus.valid)]
    options = {"encoder": "linear", "encoder_options": {"leads": [8]}}
    training = {"epochs": 2, "tensorboard": False, "threads": EXACTLY}
    refitted = {"model": {**options, "encoder_options": {**options["encoder_options"], "refit": True}}}
    refitted["training"] = training
    plain = train(config(model=options, training=training), corpus.train, valid, tmp_path / "plain")
    again = train(config(**refitted), corpus.train, valid, tmp_path / "again")
    assert plain.decisions == again.decisions
    assert plain.metrics == again.metrics
    for (name, before), after in zip(plain.network.named_parameters(), again.network.parameters(), strict=True):
        assert torch.equal(before, after) == (name not in ("encoder.terms", "encoder.bias")), name

    prepared = prepare(config(**refitted), corpus.train, valid, tmp_path)
    train_part, valid_part = prepared.train, prepared.valid
    times = np.ones(len(valid_part), dtype=int) if valid_part.weights is None else valid_part.weights.astype(int)
    rows = np.repeat(np.arange(len(valid_part)), times)
    assert (len(rows) > len(valid_part)) == weighted
    size, leading = prepared.featurizer.input_size, prepared.featurizer.leading
    features = scipy.sparse.vstack([train_part.bag_matrix(size), valid_part.bag_matrix(size)[rows]], format="csr")
    targets = np.concatenate([train_part.targets(), valid_part.targets()[rows]])
    solved = again.network.encoder
    if not solved.terms[torch.from_numpy(leading)].any():
        features = without(features, leading)
    with threads_of_torch(EXACTLY):
        terms, bias = one_vs_rest(features.astype(np.float64), targets, "squared_hinge", solved.c)
    np.testing.assert_allclose(solved.terms.numpy(), terms.T, atol=1e-3)
    np.testing.assert_allclose(solved.bias.numpy(), bias, atol=1e-3)
