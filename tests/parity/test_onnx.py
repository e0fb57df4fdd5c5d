"""An exported model gives the logits of the model it was made from, and its label sets, through the same searches."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fuzz_models import seal

from orderfree.build import build_network, complete_config, encoder_options, featurizer_class
from orderfree.checkpoint import TrainedModel, load_model, save_model, store_thresholds
from orderfree.cli.main import app
from orderfree.data.featurizers.bag import as_matrix
from orderfree.data.labels import LabelVocabulary
from orderfree.decisions.records import NamedThresholds
from orderfree.errors import MissingLibraryError, ModelDirectoryError, OrderfreeError
from orderfree.inference import Predictor
from orderfree.metrics.scores import to_matrix
from orderfree.promises.promise import Promise
from orderfree.report.examples import evaluate_with_examples as evaluate
from orderfree.report.trace import trace
from orderfree.scoring.neighbours import Neighbours
from orderfree.testing.toy import toy_corpus
from orderfree.tools.export import export_onnx
from orderfree.training.warm import copy_model
from orderfree.types import Example

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

SMALL = {"label_embedding": 6, "decoder_hidden": 8, "br_hidden": 7, "br_layers": 1}
# Others were compared by hand when this was written; exporting takes seconds.
MODELS: dict[str, dict[str, Any]] = {
    "bilstm": {"encoder": "bilstm", "encoder_options": {"embedding": 7, "hidden": 4, "layers": 2}, "decoder_layers": 2},
    "linear": {"encoder": "linear"},
    "neighbours": {"encoder": "linear", "encoder_options": {"neighbours": 5}},
}


def examples(count: int) -> list[Example]:
    return toy_corpus(train=count, valid=1, test=1).train


def made(name: str, sequence: str | None = "ocd") -> TrainedModel:
    """A model with random weights on the toy corpus."""
    raw = {"model": {**SMALL, **MODELS[name]}, "objective": {"sequence": sequence}}
    config = complete_config(raw, "a test")
    corpus = examples(60)
    torch.manual_seed(1)
    featurizer = featurizer_class(config).fit(corpus, config.data, encoder_options(config))
    labels = LabelVocabulary.count([example.labels or () for example in corpus], "a test")
    network = build_network(config, featurizer.input_size, len(labels))
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.4)
    if name == "neighbours":
        bags = as_matrix([featurizer.encode(example).arrays for example in corpus], featurizer.size)
        targets = to_matrix([example.labels or () for example in corpus], labels.names).toarray()
        featurizer.neighbours, _ = Neighbours.remember(bags, targets, nearest=5, seed=1)
    return TrainedModel(config, labels, featurizer, network)


@pytest.fixture(scope="module", params=MODELS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainedModel, Path]:
    """A model, and the directory it was exported to."""
    trained, out = made(request.param), tmp_path_factory.mktemp("onnx") / "out"
    assert export_onnx(trained, out, "A card.\n") == ["encoder.onnx", "start.onnx", "step.onnx", "br.onnx"]
    return trained, out


@torch.inference_mode()
def test_logits(both: tuple[TrainedModel, Path]) -> None:
    trained, out = both
    arrays = [trained.featurizer.encode(example).arrays for example in examples(5)]
    one, other = (side.start(trained.featurizer.collate(arrays)) for side in (Predictor(trained), Predictor.load(out)))
    assert torch.allclose(one.br_logits, other.br_logits, atol=1e-4)
    previous = torch.full((5,), len(trained.labels))
    for _ in range(3):  # a few steps from the start, each on what the last one left
        (logits, state), (found, same) = one.step(previous, one.state), other.step(previous, other.state)
        assert torch.allclose(logits, found, atol=1e-4)
        previous = logits[:, :-1].argmax(dim=-1)
        one, other = replace(one, state=state), replace(other, state=same)


def test_label_sets_of_every_decoder(both: tuple[TrainedModel, Path]) -> None:
    trained, out = both
    one, other = Predictor(trained), Predictor.load(out)
    hard = [Example("empty", text=""), Example("one word", text="copper")]
    for given in (examples(40), hard[:1], hard):  # a batch of one as well
        for decoder in one.decoders:
            expected = [found.label_sets[decoder] for found in one.predict(given, [decoder])]
            got = [found.label_sets[decoder] for found in other.predict(given, [decoder])]
            assert [set(found.labels) for found in got] == [set(found.labels) for found in expected], decoder
            assert np.allclose([f.log_prob for f in got], [f.log_prob for f in expected], atol=1e-3)


def test_reports_and_the_service_can_tell_how_a_prediction_came_about(both: tuple[TrainedModel, Path]) -> None:
    trained, out = both
    one, other = (trace(side, examples(1)[0], "beam") for side in (Predictor(trained), Predictor.load(out)))
    assert [step.taken for step in other.steps] == [step.taken for step in one.steps]
    assert np.allclose([step.probs for step in other.steps], [step.probs for step in one.steps], atol=1e-4)
    found = evaluate(Predictor.load(out), examples(6), ["joint", "br"])
    assert all(example["generation"]["steps"] for example in found["examples_shown"])


def test_an_exported_model_is_neither_saved_as_weights_nor_trained(
    both: tuple[TrainedModel, Path], tmp_path: Path
) -> None:
    _, out = both
    with pytest.raises(OrderfreeError, match="is an exported one"):
        save_model(load_model(out), tmp_path, "")
    assert not list(tmp_path.iterdir())
    with pytest.raises(OrderfreeError, match="cannot be trained"):
        copy_model(out, tmp_path / "warm")


def test_without_the_runtime_it_is_named(both: tuple[TrainedModel, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingLibraryError, match=r"orderfree\[onnx\]'\.$"):
        load_model(both[1])


def test_what_cannot_be_exported_or_read_is_said(both: tuple[TrainedModel, Path], tmp_path: Path) -> None:
    trained, out = both
    with pytest.raises(OrderfreeError, match="is there already"):
        export_onnx(trained, tmp_path, "")
    with pytest.raises(OrderfreeError, match="exported one already"):
        export_onnx(load_model(out), tmp_path / "again", "")
    assert not (tmp_path / "again").exists()
    damaged = tmp_path / "damaged"
    shutil.copytree(out, damaged)
    (damaged / "step.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelDirectoryError, match=r"step\.onnx"):
        Predictor.load(damaged)


def test_the_command_and_eight_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir()
    save_model(made("bilstm", sequence=None), run, "A card.\n")
    careful = NamedThresholds("br", 0.9, 0, "micro_f1", {}, 20)
    promise = Promise("recall", 0.5, None, 20, 0.6, 0.1)
    store_thresholds(run, {"careful": careful, "sure": replace(careful, promise=promise)})
    with pytest.raises(OrderfreeError, match="--onnx"):
        app(["export", str(run), str(out)], standalone_mode=False)
    app(["export", "--onnx", "--int8", str(run), str(out), "--json"], standalone_mode=False)
    told = capsys.readouterr()
    assert set(json.loads(told.out)["bytes"]) == {"encoder.onnx", "br.onnx"}
    assert "promises do not hold with weights in 8 bits" in told.err
    assert not (out / "model.safetensors").exists()
    one, other = (Predictor.load(place).predict_proba(examples(20), "br") for place in (run, out))
    assert not np.array_equal(one, other)  # eight bits are fewer
    assert np.abs(one - other).mean() < 0.05
    assert load_model(out).decisions.named == {"careful": careful}
    app(["inspect", str(out), "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["parameters"] == load_model(run).network.parameter_count()


def renamed_input(graph: Any) -> None:
    before, graph.input[0].name = graph.input[0].name, "surprise"
    for node in graph.node:
        node.input[:] = ["surprise" if name == before else name for name in node.input]


def another_shape(graph: Any) -> None:
    made = graph.output[0].name
    for node in graph.node:
        node.output[:] = ["inside" if name == made else name for name in node.output]
        node.input[:] = ["inside" if name == made else name for name in node.input]
    axes = onnx.helper.make_tensor("axes_of_surprise", onnx.TensorProto.INT64, [1], [0])
    graph.initializer.append(axes)
    graph.node.append(onnx.helper.make_node("Unsqueeze", ["inside", "axes_of_surprise"], [made]))
    graph.output[0].type.tensor_type.ClearField("shape")


def not_a_number(graph: Any) -> None:
    weights = next(w for w in graph.initializer if w.data_type == onnx.TensorProto.FLOAT and len(w.raw_data) > 8)
    weights.raw_data = np.full(len(weights.raw_data) // 4, np.nan, np.float32).tobytes()


def numbers_elsewhere(graph: Any) -> None:
    weights = next(w for w in graph.initializer if w.data_type == onnx.TensorProto.FLOAT and len(w.raw_data) > 8)
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="elsewhere.bin")


@pytest.mark.parametrize(
    ("change", "name", "part"),
    [
        (numbers_elsewhere, "br.onnx", "manifest.json does not list"),
        (not_a_number, "br.onnx", "not finite"),
        (renamed_input, "encoder.onnx", "asks for 'surprise'"),
        (renamed_input, "start.onnx", "asks for 'surprise'"),
        (renamed_input, "step.onnx", "asks for 'surprise'"),
        (another_shape, "encoder.onnx", "makes 'states' of"),
        (another_shape, "start.onnx", "makes 'hidden' of"),
    ],
)
def test_graphs_of_a_stranger(
    both: tuple[TrainedModel, Path], tmp_path: Path, change: Any, name: str, part: str
) -> None:
    directory = Path(shutil.copytree(both[1], tmp_path / "out"))
    (directory / "elsewhere.bin").write_bytes(bytes(1 << 16))
    model = onnx.load(directory / name)
    change(model.graph)
    (directory / name).write_bytes(model.SerializeToString())
    seal(directory)
    with pytest.raises(ModelDirectoryError, match=name) as caught:
        list(Predictor.load(directory).predict(examples(3), ["beam", "br"]))
    assert part in str(caught.value)
