"""Labels that are not known: read, written, never trained on, never judged. Class weights, by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from orderfree import Example, OrderFreeClassifier
from orderfree.build import complete_config
from orderfree.config import Config, DataConfig
from orderfree.data.labels import LabelVocabulary
from orderfree.data.readers import ReadCounts, read_examples
from orderfree.data.writers import write_examples
from orderfree.decoding.rollout import RolloutTask, follow, policies
from orderfree.errors import ConfigError, DataError
from orderfree.evaluation import evaluate, judge
from orderfree.inference import Prediction, Predictor
from orderfree.metrics.ranking import ranking_scores
from orderfree.nn.encoders.linear import one_vs_rest
from orderfree.objectives import objectives
from orderfree.objectives.multitask import Criterion, multitask
from orderfree.training.loop import Trainer
from orderfree.training.prepare import prepare
from orderfree.training.run import train
from orderfree.training.weights import decision_weights, label_balance
from orderfree.types import DecoderState, LabelSet, ModelOutput, RolloutPlan, ScoredRollout
from unit_models import made_model


def read(path: Path, **options: Any) -> list[Example]:
    return list(read_examples(path, DataConfig(**options), labelled=True))


def test_every_format_that_can_say_it(tmp_path: Path) -> None:
    rows = [
        {"text": "t", "labels": ["a"], "unknown": ["c"]},
        {"text": "t", "labels": None},
        {"text": "t", "labels": []},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    expected = [(("a",), ("c",)), ((), None), ((), ())]
    assert [(e.labels, e.unknown) for e in read(tmp_path / "a.jsonl")] == expected
    table = {"text": ["t"] * 3, "labels": [["a"], None, []], "unknown": [["c"], None, None]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    assert [(e.labels, e.unknown) for e in read(tmp_path / "a.parquet")] == expected
    (tmp_path / "a.csv").write_text("text,a,c\nt,1,\nt,,\nt,0,0\n", encoding="utf-8")
    assert [(e.labels, e.unknown) for e in read(tmp_path / "a.csv", label_columns=["*"])] == expected
    targets = np.array([[1, np.nan], [np.nan, np.nan], [0, 0]])
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 2)), Y=targets, label_names=np.array(["a", "c"]))
    assert [(e.labels, e.unknown) for e in read(tmp_path / "a.npz")] == expected
    counts = ReadCounts()
    list(read_examples(tmp_path / "a.jsonl", DataConfig(), labelled=True, counts=counts))
    assert (counts.unknown, counts.unlabelled) == (1, 1)


@pytest.mark.parametrize("name", ["a.jsonl", "a.npz"])
def test_what_is_written_reads_back(tmp_path: Path, name: str) -> None:
    content = {"text": "t"} if name == "a.jsonl" else {"features": np.ones(2, dtype=np.float32)}
    examples = [
        Example("0", **content, labels=("a",), unknown=("c",)),
        Example("1", **content, labels=(), unknown=None),
        Example("2", **content, labels=("c",)),
    ]
    write_examples(examples, tmp_path / name, Path(name).suffix[1:], DataConfig())
    assert [(e.labels, e.unknown) for e in read(tmp_path / name)] == [(e.labels, e.unknown) for e in examples]


def test_a_format_that_cannot_say_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="csv files cannot say that a label is not known; choose jsonl"):
        write_examples([Example("0", text="t", labels=(), unknown=None)], tmp_path / "a.csv", "csv", DataConfig())
    assert not list(tmp_path.iterdir())


LABELS = 5
TARGETS = torch.tensor([[1, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 1, 0, 0, 0]]).bool()
BARRED = torch.tensor([[0, 1, 0, 0, 1], [1, 1, 1, 1, 0], [0, 0, 0, 0, 0]]).bool()


def _step(previous: torch.Tensor, state: DecoderState) -> tuple[torch.Tensor, DecoderState]:
    """A model that likes the barred labels best."""
    logits = torch.zeros(len(previous), LABELS + 1)
    logits[:, [1, 4]] = 5.0
    return logits, state


@pytest.mark.parametrize("policy", sorted(policies))
def test_no_policy_chooses_an_unknown_label(policy: str) -> None:
    torch.manual_seed(0)
    state = DecoderState(*(torch.zeros(1, 3, 1) for _ in range(2)), torch.zeros(3, 1, 1), torch.ones(3, 1).bool())
    plan = RolloutPlan(policy, teacher_ratio=0.5)
    for _ in range(20):
        found = follow(plan, _step, state, RolloutTask(TARGETS, torch.arange(LABELS + 1), torch.full((3,), 4), BARRED))
        for row in range(3):
            for labels in (found.sequence, found.fed if found.fed is not None else found.sequence):
                assert not set(labels[row].tolist()) & set(BARRED[row].nonzero().flatten().tolist())


@pytest.mark.parametrize("name", sorted(objectives))
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_unknown_label_is_as_if_the_model_had_it_not(name: str, temperature: float) -> None:
    """Slow twin: each example has the same loss in a model without its unknown labels, and they get no gradient."""
    torch.manual_seed(1)
    entry: Any = objectives[name]
    options = entry.Options(temperature=temperature) if name == "ocd" else entry.Options()
    objective = entry(options, torch.arange(LABELS + 1))
    state = DecoderState(*(torch.zeros(1, 3, 1) for _ in range(2)), torch.zeros(3, 1, 1), torch.ones(3, 1).bool())
    plan = objective.plan(0.9)
    rollout = follow(plan, _step, state, RolloutTask(TARGETS, objective.rank, torch.full((3,), 4), BARRED))
    logits = torch.randn(3, rollout.sequence.shape[1], LABELS + 1, requires_grad=True)
    output = ModelOutput(None, ScoredRollout(rollout, logits))
    multitask(Criterion(objective), output, TARGETS).total.backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[..., :-1][BARRED[:, None].expand(-1, logits.shape[1], -1)] == 0).all()

    total = 0.0
    for row in range(3):
        kept = [label for label in range(LABELS) if not BARRED[row, label]]
        place = {label: i for i, label in enumerate([*kept, LABELS])}
        small = entry(options, torch.arange(len(kept) + 1))
        rename = lambda ids: torch.tensor([[place[i] for i in ids[row].tolist()]])  # noqa: B023, E731
        own = type(rollout)(
            rename(rollout.sequence),
            rollout.active[row : row + 1],
            baseline=None if rollout.baseline is None else rename(rollout.baseline),
        )
        alone = ModelOutput(None, ScoredRollout(own, logits.detach()[row : row + 1][..., [*kept, LABELS]]))
        total += multitask(Criterion(small), alone, TARGETS[row : row + 1][:, kept]).total.item()
    assert multitask(Criterion(objective), output, TARGETS).total.item() == pytest.approx(total / 3, rel=1e-5)


def test_binary_relevance_and_linear_classifiers_leave_it_out() -> None:
    weights = decision_weights(TARGETS, None, BARRED, None)
    logits = torch.randn(3, LABELS, requires_grad=True)
    loss = multitask(Criterion(None), ModelOutput(logits), TARGETS, _only(weights)).total
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, TARGETS.float(), reduction="none")
    assert loss.item() == pytest.approx(losses[~BARRED].sum().item() / 3, rel=1e-6)
    generator = np.random.default_rng(1)
    features = generator.normal(size=(40, 3))
    targets = features + generator.normal(size=(40, 3)) > 0
    counted = np.ones((40, 3))
    counted[:15, 1] = 0
    terms, bias = one_vs_rest(features, targets, "squared_hinge", 1.0, counted)
    alone, alone_bias = one_vs_rest(features[15:], targets[15:], "squared_hinge", 1.0)
    everything, _ = one_vs_rest(features, targets, "squared_hinge", 1.0)
    np.testing.assert_allclose(terms[1], alone[1], atol=1e-3)
    assert bias[1] == pytest.approx(alone_bias[1], abs=1e-3)
    np.testing.assert_allclose(terms[[0, 2]], everything[[0, 2]], atol=1e-5)
    counted[targets[:, 2], 2] = 0  # no positive is known
    terms, bias = one_vs_rest(features, targets, "squared_hinge", 1.0, counted)
    assert not terms[2].any()
    assert bias[2] == -1


def _only(decisions: torch.Tensor | None) -> Any:
    from orderfree.types import LossWeights

    return LossWeights(decisions=decisions)


TINY = {
    "model": {"encoder": "sparse", "encoder_options": {"hidden": 8}, "decoder_hidden": 8, "label_embedding": 4},
    "training": {"epochs": 1, "tensorboard": False},
}


def _examples(count: int, **last: Any) -> list[Example]:
    rows = [Example(str(i), text=f"word{i % 3} text", labels=(f"l{i % 3}", "all")) for i in range(count)]
    return [*rows, Example("last", text="word0 text", **last)]


def test_training_and_judging_leave_out_what_is_not_known(tmp_path: Path) -> None:
    config = complete_config(TINY, "the test")
    said: list[str] = []
    examples = [*_examples(40, labels=("l0",), unknown=("all",)), Example("null", text="x", labels=(), unknown=None)]
    trained = train(config, examples, examples, tmp_path / "run", say=said.append, progress=False)
    assert "2 examples have no known labels (null) and will be ignored" in said
    assert trained.provenance["train_examples"] == 41
    found = evaluate(Predictor(trained), examples, ["br"])
    assert found["examples"] == 41
    row = next(row for row in found["per_label"] if row["label"] == "all")
    assert row["support"] == 40
    assert row["predicted"] <= 40
    with pytest.raises(DataError, match="no example has labels that are known"):
        evaluate(Predictor(trained), examples[-1:], ["br"])


def test_unknown_labels_are_no_part_of_any_score_of_probabilities() -> None:
    """Both decoders: an example of which nothing is known but for one label is judged by that label alone."""
    told = Predictor(made_model(3))
    names = told.labels.names
    generator = np.random.default_rng(1)
    truth = generator.random((30, len(names))) < 0.4
    rows = generator.random((30, len(names))).astype(np.float32)
    hidden = generator.random(truth.shape) < 0.3

    def judged(values: np.ndarray, unknown: np.ndarray) -> dict[str, Any]:
        found = []
        for row in range(len(rows)):
            labels = tuple(name for name, has, lost in zip(names, truth[row], unknown[row], strict=True) if has > lost)
            lost = tuple(name for name, gone in zip(names, unknown[row], strict=True) if gone)
            example = Example(str(row), text="t", labels=labels, unknown=lost)
            found.append(Prediction(example, {"br": LabelSet((), 0.0)}, values[row], False, values[row]))
        return judge(told, found, ["br"])

    scores = judged(rows, hidden)
    each = [ranking_scores(rows[~lost, [n]][:, None], truth[~lost, [n]][:, None]) for n, lost in enumerate(hidden.T)]
    for key in ("mean_average_precision", "auc"):
        assert scores["ranking"]["br"][key] == pytest.approx(np.mean([one[key] for one in each]))
    assert scores["calibration"]["cells"] == np.count_nonzero(~hidden)
    assert scores["calibration"]["brier_score"] == pytest.approx(np.mean((rows - truth)[~hidden] ** 2))
    others = judged(np.where(hidden, 1 - rows, rows), hidden)
    for key in ("ranking", "calibration", "label_calibration", "precision_recall"):
        assert others[key] == scores[key], key
    assert scores["ranking"]["sequence"] == scores["ranking"]["br"]
    unlikely = judged(rows / 1000, hidden)["label_calibration"]
    assert unlikely["by_digits_of_frequency"] == []


def test_the_chain_refuses_what_it_cannot_learn_from(tmp_path: Path) -> None:
    raw = {**TINY, "model": {**TINY["model"], "label_decoder": "chain"}, "objective": {"sequence": "mle"}}
    examples = _examples(40, labels=(), unknown=("l0",))
    with pytest.raises(DataError, match="chain says yes or no to every label"):
        prepare(complete_config(raw, "the test"), examples, examples, tmp_path)


def test_the_classifier_takes_none_and_nan() -> None:
    texts = [example.text for example in _examples(40, labels=())]
    settings = {"training.epochs": 1, "model.encoder_options": {"c": 1.0, "folds": 2}, "model.decoder_hidden": 4}
    lists: list[Any] = [["a"] if i % 3 else ["b"] for i in range(40)]
    classifier = OrderFreeClassifier(settings=settings, random_state=1).fit(texts, [*lists, None])
    assert classifier.predictor_.trained.provenance["unknown_examples"] == 1
    assert classifier.score(texts, [*classifier.predict(texts)[:-1], None]) == 1.0
    matrix = np.array([[float(i % 3 > 0), float(i % 3 == 0)] for i in range(41)])
    matrix[4, 1] = np.nan
    classifier.fit(texts, matrix)
    assert classifier.predict(texts).shape == (41, 2)
    corpus_row = classifier._labelling.unknown(matrix)[4]
    assert corpus_row == ("1",)


def config_of(class_weight: Any) -> Config:
    return complete_config({"objective": {"class_weight": class_weight}}, "the test")


def test_class_weights_by_hand() -> None:
    """10 examples: 'a' in 8, 'b' in 2. Balanced: 10 / 16 and 10 / 4 to have them, 10 / 4 and 10 / 16 to lack them."""
    labels = LabelVocabulary.count([("a",)] * 7 + [("a", "b")] + [("b",)] + [()], "the test")
    balance = label_balance(config_of("balanced"), labels, 10)
    assert balance is not None
    assert balance.present.tolist() == pytest.approx([0.625, 2.5])
    assert balance.absent.tolist() == pytest.approx([2.5, 0.625])
    targets = torch.tensor([[True, False], [True, True], [False, True], [False, False]])
    usual = (7 * 0.625 + (0.625 + 2.5) / 2 + 2.5 + 1) / 10
    assert balance.sequences(targets).tolist() == pytest.approx(
        [0.625 / usual, 1.5625 / usual, 2.5 / usual, 1 / usual], rel=1e-5
    )
    weights = decision_weights(targets, torch.tensor([1.0, 2.0, 1.0, 1.0]), None, balance)
    assert weights is not None
    assert weights[:2].tolist() == [[0.625, 0.625], [1.25, 5.0]]
    named = label_balance(config_of({"b": 3}), labels, 10)
    assert named is not None
    assert (named.present.tolist(), named.absent.tolist()) == ([1.0, 3.0], [1.0, 1.0])
    assert label_balance(config_of(None), labels, 10) is None
    with pytest.raises(ConfigError, match=r"'bb' is no label of the training data. Did you mean 'b'\?"):
        label_balance(config_of({"bb": 3}), labels, 10)
    with pytest.raises(ConfigError, match="class_weight"):
        config_of({"b": -1})


@pytest.mark.parametrize("encoder", ["linear", "sparse"])
def test_a_label_that_counts_more_is_said_more_readily(tmp_path: Path, encoder: str) -> None:
    """The same text has the label half of the time: how probable it is depends on what it counts."""
    examples = [Example(str(i), text="same words", labels=("x", *(["rare"] if i % 2 else []))) for i in range(60)]
    found = []
    for weight in (0.2, 5.0):
        raw = {
            "model": {"encoder": encoder, "decoder_hidden": 4, "dropout": 0.0},
            "objective": {"class_weight": {"rare": weight}},
            "training": {"epochs": 20, "tensorboard": False, "patience": None, "batch_size": 16},
        }
        trained = train(complete_config(raw, "it"), examples, examples, tmp_path / f"{weight}", progress=False)
        found.append(Predictor(trained).predict_proba(examples[:1])[0, trained.labels.ids["rare"]])
    assert found[0] < 0.5 < found[1]
    assert math.log(found[1] / (1 - found[1])) - math.log(found[0] / (1 - found[0])) > 1


def test_the_loop_weighs_each_batch(tmp_path: Path) -> None:
    """The loss of a step with class weights is what the weights of its batch make of it."""
    config = complete_config({**TINY, "objective": {"class_weight": "balanced", "sequence": None}}, "the test")
    examples = _examples(20, labels=("l0",), unknown=("all",))
    prepared = prepare(config, examples, examples, tmp_path)
    from orderfree.build import build_network
    from orderfree.checkpoint import TrainedModel

    network = build_network(config, prepared.featurizer.input_size, len(prepared.labels)).eval()
    trainer = Trainer(TrainedModel(config, prepared.labels, prepared.featurizer, network), prepared, tmp_path)
    batch = prepared.train.batch(np.arange(21))
    assert batch.unknown is not None
    logits = network.br_decoder(network.encoder(batch.inputs))
    weights = decision_weights(batch.targets, None, batch.unknown, trainer.balance)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch.targets.float(), reduction="none")
    assert trainer.losses(batch).total.item() == pytest.approx((losses * weights).sum().item() / 21, rel=1e-5)
