"""The model directory: everything a prediction needs, in files that run no code when loaded.

config.json        format version, resolved config, data fingerprints, versions it was made with
labels.json        label names with counts, and the label sets seen in training
tokenizer.json     words of the bilstm encoder, or
vocabulary.json    terms of the sparse encoder, or
features.json      scale of the dense encoder's features
embedder*          the frozen encoder of sentence embeddings, where the model reads them
model.safetensors  weights, or
*.onnx             graphs, where the model was exported (nn/graphs.py)
thresholds.json    thresholds and the best decoder for each metric, chosen on validation
metrics.json       validation scores of every decoder
README.md          model card
manifest.json      size and SHA-256 of all of these, written last: a directory without it is not finished
"""

from __future__ import annotations

import json
import os
import platform
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save_file

from ._version import __version__
from .build import build_network, complete_config, encoder_options, featurizer_class
from .config import Config
from .data.featurizers import Featurizer
from .data.labels import LabelVocabulary
from .errors import ConfigError, ModelDirectoryError
from .files import fingerprint, write_json, write_text, writing_aside
from .nn.graphs import ENCODER, GraphModel
from .nn.model import OrderFreeModel

FORMAT = 1
# what every model directory holds besides the files of its featurizer
WEIGHTS = "model.safetensors"
FILES = ("config.json", "labels.json", WEIGHTS, "thresholds.json", "metrics.json", "README.md")
TRAINING = "training"  # the state of an unfinished run; see training/state.py


Threshold = float | list[float]  # one for all labels, or one for each


@dataclass
class TrainedModel:
    config: Config
    labels: LabelVocabulary
    featurizer: Featurizer
    network: OrderFreeModel
    # decoder -> metric it was tuned for -> threshold
    thresholds: dict[str, dict[str, Threshold]] = field(default_factory=dict)
    decisions: dict[str, str] = field(default_factory=dict)  # metric -> the decoder that was best on validation
    metrics: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)  # data fingerprints, counts, versions
    powers: dict[str, float] = field(default_factory=dict)  # metric -> br_power of joint decoding, where that was best


def versions() -> dict[str, str]:
    return {"orderfree": __version__, "torch": torch.__version__, "python": platform.python_version()}


def save_model(trained: TrainedModel, directory: Path, card: str) -> list[str]:
    """Writes all files, each atomically, the manifest last; returns their names."""
    directory = Path(directory)
    (directory / "manifest.json").unlink(missing_ok=True)
    content = {"format": FORMAT, "config": trained.config.model_dump(), "provenance": trained.provenance}
    write_json(directory / "config.json", content)
    write_json(directory / "labels.json", trained.labels.to_json())
    trained.featurizer.save(directory)
    write_tensors(directory / WEIGHTS, trained.network.state_dict())
    decided = {"thresholds": trained.thresholds, "decisions": trained.decisions, "powers": trained.powers}
    write_json(directory / "thresholds.json", decided)
    write_json(directory / "metrics.json", trained.metrics)
    write_text(directory / "README.md", card)
    names = [name for name in (*FILES, *trained.featurizer.files) if (directory / name).exists()]
    write_manifest(directory, names)
    return names


def write_manifest(directory: Path, names: list[str]) -> None:
    manifest = {
        name: {"bytes": (directory / name).stat().st_size, "sha256": fingerprint(directory / name)} for name in names
    }
    write_json(directory / "manifest.json", {"format": FORMAT, "files": manifest})


def write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """A safetensors file that appears only when complete."""
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing_aside(path) as aside:
        save_tensors(flat, aside)


def save_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """safetensors' own `save_file`; what the disk refuses is raised as the OSError it is."""
    try:
        save_file(tensors, path)
    except safetensors.SafetensorError as error:
        if (code := re.search(r"os error (\d+)", str(error))) is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error


def load_model(directory: Path | str) -> TrainedModel:
    directory = Path(directory)
    check_directory(directory)
    content = _read_json(directory / "config.json")
    try:
        config = complete_config(content["config"], str(directory / "config.json"))
        labels = LabelVocabulary.from_json(_read_json(directory / "labels.json"))
        decided = _read_json(directory / "thresholds.json")
        thresholds = {
            decoder: {metric: _threshold(value) for metric, value in tuned.items()}
            for decoder, tuned in decided["thresholds"].items()
        }
        decisions = {str(metric): str(decoder) for metric, decoder in decided["decisions"].items()}
        powers = {str(metric): float(power) for metric, power in decided.get("powers", {}).items()}
        featurizer = featurizer_class(config).load(directory, config.data, encoder_options(config))
        metrics, provenance = _read_json(directory / "metrics.json"), dict(content["provenance"])
    except (KeyError, TypeError, ValueError, AttributeError, OSError, ConfigError) as error:
        raise ModelDirectoryError(f"{directory}: is damaged ({error}); copy or train it again.") from None
    network: OrderFreeModel
    if (directory / ENCODER).exists():  # exported: graphs in the place of weights
        network = GraphModel(directory, len(labels), int(provenance.get("exported", {}).get("parameters", 0)))
    else:
        network = build_network(config, featurizer.input_size, len(labels))
        load_weights(network, directory / WEIGHTS)
    for value in (value for tuned in thresholds.values() for value in tuned.values()):
        if isinstance(value, list) and len(value) != len(labels):
            raise ModelDirectoryError(
                f"{directory}/thresholds.json: has {len(value)} thresholds for {len(labels)} labels; "
                "copy or train the model again."
            )
    return TrainedModel(config, labels, featurizer, network, thresholds, decisions, metrics, provenance, powers)


def _threshold(value: Any) -> Threshold:
    return [float(one) for one in value] if isinstance(value, list) else float(value)


def check_directory(directory: Path) -> None:
    """Refuses, in one sentence, what is not a finished and undamaged model directory."""
    if not directory.exists():
        raise ModelDirectoryError(f"{directory}: no such model directory; train one with `orderfree train … --out`.")
    if not directory.is_dir():
        raise ModelDirectoryError(f"{directory}: is a file, expected a model directory.")
    if not (directory / "manifest.json").exists():
        if (directory / TRAINING).exists():
            raise ModelDirectoryError(
                f"{directory}: its training is not finished; go on with `orderfree train … --out {directory} --resume`."
            )
        raise ModelDirectoryError(f"{directory}: is not a model directory (it has no manifest.json).")
    manifest = _read_json(directory / "manifest.json")
    version = manifest.get("format")
    if not isinstance(version, int) or version > FORMAT:
        raise ModelDirectoryError(
            f"{directory}: has format {version}, this orderfree reads up to {FORMAT}; upgrade orderfree."
        )
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise ModelDirectoryError(f"{directory}/manifest.json: is damaged; copy or train the model again.")
    for name, expected in files.items():
        _check_file(directory, name, expected)


def _check_file(directory: Path, name: str, expected: Any) -> None:
    path = directory / name
    if path.parent != directory:
        raise ModelDirectoryError(f"{directory}/manifest.json: names a file outside the directory ({name!r}).")
    if not path.is_file():
        raise ModelDirectoryError(f"{directory}: {name} is missing; copy or train the model again.")
    size = expected.get("bytes") if isinstance(expected, dict) else None
    if path.stat().st_size != size:
        raise ModelDirectoryError(
            f"{path}: has {path.stat().st_size:,} bytes, expected {size:,}; it is truncated or was changed, "
            "copy or train the model again."
            if isinstance(size, int)
            else f"{directory}/manifest.json: is damaged; copy or train the model again."
        )
    try:
        found = fingerprint(path)
    except OSError as error:
        raise ModelDirectoryError(f"{path}: cannot be read ({error.strerror}); check its permissions.") from None
    if found != expected.get("sha256"):
        raise ModelDirectoryError(f"{path}: does not match its checksum; copy or train the model again.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelDirectoryError(f"{path.parent}: {path.name} is missing; copy or train the model again.") from None
    except (OSError, ValueError) as error:
        raise ModelDirectoryError(f"{path}: cannot be read ({error}); copy or train the model again.") from None
    if not isinstance(content, dict):
        raise ModelDirectoryError(f"{path}: expected a JSON object; copy or train the model again.")
    return content


def load_weights(network: OrderFreeModel, path: Path) -> None:
    try:
        tensors = load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise ModelDirectoryError(f"{path}: cannot be read ({error}); copy or train the model again.") from None
    expected = network.state_dict()
    wrong = sorted(
        name
        for name in expected.keys() | tensors.keys()
        if name not in tensors or name not in expected or tensors[name].shape != expected[name].shape
    )
    if wrong:
        raise ModelDirectoryError(
            f"{path}: was made for other labels or another config ({wrong[0]} does not fit); copy or train it again."
        )
    network.load_state_dict(tensors)
