"""A saved model predicts as before; a damaged one says what is wrong in one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from orderfree.build import (
    build_network,
    complete_config,
    decoders_of,
    encoder_options,
    featurizer_class,
    stored_config,
)
from orderfree.checkpoint import FORMAT, TrainedModel, load_model, save_model
from orderfree.data.labels import LabelVocabulary
from orderfree.decisions.records import Decision, Decisions
from orderfree.errors import ConfigError, ModelDirectoryError
from orderfree.inference import Predictor
from orderfree.nn.encoders import encoders
from orderfree.system.files import fingerprint
from orderfree.testing.contracts import example_inputs

NAMES = ("a", "b", "c", "größe")


def make_model(encoder: str, seed: int = 0, label_sets=(NAMES, ("a", "b"), ("a",))) -> TrainedModel:
    raw = {
        "model": {"encoder": encoder, "label_embedding": 5, "decoder_hidden": 6, "br_hidden": 7, "decoder_layers": 2},
        "decoding": {"beam_width": 4},
    }
    config = complete_config(raw, "the test")
    torch.manual_seed(seed)
    examples = example_inputs(encoders[encoder].input_kind)
    featurizer = featurizer_class(config).fit(examples, config.data, encoder_options(config))
    labels = LabelVocabulary.count(label_sets, "the test")
    network = build_network(config, featurizer.input_size, len(labels))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return TrainedModel(
        config,
        labels,
        featurizer,
        network,
        Decisions({"br": {"micro_f1": 0.37}}, {"micro_f1": Decision("br", 0.37)}),
        {"joint": {"f1": 0.5}},
        {"made": "here"},
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved") / "model"
    save_model(make_model("sparse"), directory, "# card\n")
    return directory


@pytest.fixture
def directory(saved: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.mark.parametrize("encoder", encoders.names())
def test_a_loaded_model_predicts_the_same(encoder: str, tmp_path: Path) -> None:
    trained = make_model(encoder)
    save_model(trained, tmp_path / "model", "# card\n")
    loaded = load_model(tmp_path / "model")
    assert loaded.config == trained.config
    assert loaded.labels == trained.labels
    assert (loaded.decisions, loaded.metrics, loaded.provenance) == (
        Decisions({"br": {"micro_f1": 0.37}}, {"micro_f1": Decision("br", 0.37)}),
        {"joint": {"f1": 0.5}},
        {"made": "here"},
    )
    decoders = decoders_of(trained.config)
    examples = example_inputs(encoders[encoder].input_kind)
    before, after = (list(Predictor(model).predict(examples, decoders)) for model in (trained, loaded))
    assert len({round(prediction.label_sets["beam"].log_prob, 4) for prediction in before}) > 1, "all inputs look alike"
    for one, other in zip(before, after, strict=True):
        assert one.label_sets == other.label_sets
        np.testing.assert_array_equal(one.probs, other.probs)
        assert one.truncated == other.truncated


def test_predictions_come_in_the_order_of_the_examples_whatever_the_batches(saved: Path) -> None:
    predictor = Predictor.load(saved)
    examples = example_inputs("bag") * 9
    expected = [next(iter(predictor.predict([example]))).label_sets for example in examples]
    predictor.trained.config.decoding.batch_size = 2  # several chunks, each sorted by length
    found = list(predictor.predict(iter(examples)))
    assert [prediction.example for prediction in found] == examples
    for prediction, label_sets in zip(found, expected, strict=True):
        (one,), (other,) = prediction.label_sets.values(), label_sets.values()
        assert one.labels == other.labels
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


def test_the_same_model_is_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    save_model(make_model("sparse"), tmp_path / "again", "# card\n")
    assert {p.name: fingerprint(p) for p in saved.iterdir()} == {
        p.name: fingerprint(p) for p in (tmp_path / "again").iterdir()
    }


def test_every_file_is_in_the_manifest(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    assert set(manifest["files"]) == {path.name for path in saved.iterdir()} - {"manifest.json"}
    assert manifest["format"] == FORMAT


def test_so_it_is_for_an_encoder_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "_entries", {**encoders._entries, "mine": encoders["bilstm"]})
    save_model(make_model("mine"), tmp_path / "model", "")
    test_every_file_is_in_the_manifest(tmp_path / "model")


def refused(directory: Path) -> str:
    with pytest.raises(ModelDirectoryError) as caught:
        load_model(directory)
    message = str(caught.value)
    assert str(directory) in message
    assert "\n" not in message
    return message


FILES = ["config.json", "labels.json", "vocabulary.json", "model.safetensors", "thresholds.json", "metrics.json"]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(directory: Path, name: str) -> None:
    (directory / name).unlink()
    assert f"{name} is missing; copy or train the model again." in refused(directory)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file(directory: Path, name: str) -> None:
    path = directory / name
    path.write_bytes(path.read_bytes()[:-1])
    message = refused(directory)
    assert f"{name}: has {path.stat().st_size:,} bytes, expected {path.stat().st_size + 1:,}" in message
    assert "truncated" in message


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte(directory: Path, name: str) -> None:
    path = directory / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert f"{name}: does not match its checksum" in refused(directory)


def test_a_newer_format(directory: Path) -> None:
    change_manifest(directory, lambda manifest: manifest.update(format=FORMAT + 1))
    assert f"has format {FORMAT + 1}, this orderfree reads up to {FORMAT}; upgrade orderfree." in refused(directory)


def change_manifest(directory: Path, change) -> None:
    path = directory / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def fix_manifest(directory: Path, name: str) -> None:
    path = directory / name
    entry = {"bytes": path.stat().st_size, "sha256": fingerprint(path)}
    change_manifest(directory, lambda manifest: manifest["files"].update({name: entry}))


@pytest.mark.parametrize(
    "content", ["", "[]", '{"format": 1}', '{"format": "x", "files": {}}', '{"format": 1, "files": []}']
)
def test_a_damaged_manifest(directory: Path, content: str) -> None:
    (directory / "manifest.json").write_text(content)
    refused(directory)


def test_a_manifest_cannot_point_outside(directory: Path) -> None:
    change_manifest(directory, lambda manifest: manifest["files"].update({"../secret": {"bytes": 1, "sha256": ""}}))
    assert "names a file outside the directory" in refused(directory)


def test_weights_of_another_label_count(directory: Path, tmp_path: Path) -> None:
    other = make_model("sparse", label_sets=(("a", "b", "c", "d", "e"), ("a",)))
    save_model(other, tmp_path / "other", "")
    shutil.copy(tmp_path / "other" / "model.safetensors", directory)
    fix_manifest(directory, "model.safetensors")
    message = refused(directory)
    assert "was made for other labels or another config" in message
    assert "does not fit" in message


@pytest.mark.parametrize("change", ["missing", "extra"])
def test_weights_of_another_shape_of_model(directory: Path, change: str) -> None:
    path = directory / "model.safetensors"
    tensors = load_file(path)
    if change == "missing":
        tensors.pop(sorted(tensors)[0])
    else:
        tensors["another"] = torch.zeros(1)
    save_file(tensors, path)
    fix_manifest(directory, "model.safetensors")
    assert "does not fit" in refused(directory)


NONSENSE = [
    (name, content)
    for name in FILES
    for content in (b"", b"{", b"[1]", b"{}", b"\xff\xfe")
    if (name, content) != ("metrics.json", b"{}")  # a model may have no metrics
]


@pytest.mark.parametrize(("name", "content"), NONSENSE)
def test_nonsense_under_a_right_manifest(directory: Path, name: str, content: bytes) -> None:
    (directory / name).write_bytes(content)
    fix_manifest(directory, name)
    refused(directory)


@pytest.mark.parametrize(("encoder", "name"), [("bilstm", "tokenizer.json"), ("dense", "features.json")])
@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\xff\xfe", None])
def test_nonsense_in_the_vocabularies_of_other_encoders(
    encoder: str, name: str, content: bytes | None, tmp_path: Path
) -> None:
    save_model(make_model(encoder), tmp_path / "model", "")
    if content is None:  # and the manifest does not ask for it
        (tmp_path / "model" / name).unlink()
        change_manifest(tmp_path / "model", lambda manifest: manifest["files"].pop(name))
    else:
        (tmp_path / "model" / name).write_bytes(content)
        fix_manifest(tmp_path / "model", name)
    refused(tmp_path / "model")


def test_what_is_no_model_directory(tmp_path: Path) -> None:
    assert "no such model directory" in refused(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    assert "is a file, expected a model directory" in refused(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert "is not a model directory" in refused(tmp_path / "empty")
    (tmp_path / "unfinished" / "training").mkdir(parents=True)
    assert "its training is not finished" in refused(tmp_path / "unfinished")


def test_a_model_that_could_not_be_saved_whole_is_not_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saving over a model takes its manifest away first, so a crash in between cannot mix two models."""
    directory = tmp_path / "model"
    save_model(make_model("sparse"), directory, "# card\n")

    def crash(*arguments, **options):
        raise RuntimeError("killed")

    trained = make_model("sparse", seed=1)
    monkeypatch.setattr(trained.featurizer, "save", crash)
    with pytest.raises(RuntimeError):
        save_model(trained, directory, "# card\n")
    assert "is not a model directory" in refused(directory)


def test_keys_that_are_gone_are_dropped_where_they_hold_what_is_always_done() -> None:
    former = {"training": {"epochs": 3, "select_decoder": None}, "decoding": {"merge_sets": False}}
    assert stored_config(former, "config.json") == complete_config({"training": {"epochs": 3}}, "it")
    with pytest.raises(ConfigError, match=r"unknown key 'decoding\.merge_sets'"):
        stored_config({"decoding": {"merge_sets": True}}, "config.json")
