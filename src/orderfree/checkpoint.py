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
PROMISES.md        the promises that were made later, in words
manifest.json      size and SHA-256 of all of these, written last: a directory without it is not finished;
                   named thresholds and promises, so that one atomic write adds some to a finished directory
"""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ._version import __version__
from .build import (
    build_network,
    check_plugins,
    decoders_of,
    encoder_options,
    featurizer_class,
    is_shortlisted,
    stored_config,
)
from .config import Config
from .data.featurizers import Featurizer, bag_part
from .data.labels import LabelVocabulary
from .decisions.records import Decisions, NamedThresholds
from .errors import DataError, MissingLibraryError, ModelDirectoryError, OrderfreeError, out_of_memory
from .nn.graphs import ENCODER, GraphModel
from .nn.model import OrderFreeModel
from .promises.promise import CANDIDATES, Promise
from .promises.shift import Reference
from .system.files import fingerprint, write_json, write_text
from .system.listed import AGAIN, MANIFEST, ListedFiles, check_files, is_number, is_score, plain_size, read_object
from .system.pretrained import looking_up_nothing
from .system.tensors import Misfit, with_weights, write_tensors

FORMAT = 1
# what every model directory holds besides the files of its featurizer
WEIGHTS = "model.safetensors"
PROMISES = "PROMISES.md"  # what `orderfree thresholds` has promised, for people: written from the manifest
FILES = ("config.json", "labels.json", WEIGHTS, "thresholds.json", "metrics.json", "README.md")
TRAINING = "training"  # the state of an unfinished run; see training/state.py


@dataclass
class TrainedModel:
    config: Config
    labels: LabelVocabulary
    featurizer: Featurizer
    network: OrderFreeModel
    decisions: Decisions = field(default_factory=Decisions)  # how to decode for each purpose
    metrics: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)  # data fingerprints, counts, versions

    def learned_from(self, path: Path) -> bool:
        """Whether its weights were made from this very file, so that scores on it say little."""
        data = self.provenance.get("data", {})
        parts = ("train", "valid") if self.provenance.get("solved_with_validation") else ("train",)
        return path.exists() and fingerprint(path) in {data.get(part) for part in parts}

    def refuse_to_promise_on(self, path: Path) -> str:
        """The fingerprint of a calibration file; an error where the model has learned from it, or was chosen by it."""
        if not path.is_file():  # a pipe is read once
            return ""
        own = fingerprint(path)
        for part, print in self.provenance.get("data", {}).items():
            if own == print:
                raise DataError(
                    f"is the {part} file of this model, so it cannot support a promise about new data; give labelled "
                    "examples that the model has not seen (`orderfree split` sets some aside before training).",
                    path,
                )
        return own


def versions() -> dict[str, str]:
    return {"orderfree": __version__, "torch": torch.__version__, "python": platform.python_version()}


def save_model(trained: TrainedModel, directory: Path, card: str) -> list[str]:
    """Writes all files, each atomically, the manifest last; returns their names."""
    if isinstance(trained.network, GraphModel):
        raise OrderfreeError("this model is an exported one, whose weights are in its graphs; copy its directory.")
    directory = Path(directory)
    (directory / MANIFEST).unlink(missing_ok=True)
    content = {"format": FORMAT, "config": trained.config.model_dump(), "provenance": trained.provenance}
    write_json(directory / "config.json", content)
    write_json(directory / "labels.json", trained.labels.to_json())
    trained.featurizer.save(directory)
    write_tensors(directory / WEIGHTS, trained.network.state_dict())
    write_json(directory / "thresholds.json", trained.decisions.to_json())
    write_json(directory / "metrics.json", trained.metrics)
    promised = _told(trained.decisions.promises)
    write_text(directory / "README.md", card + (f"\n## Promises\n\n{promised}" if promised else ""))
    names = [name for name in (*FILES, *trained.featurizer.files) if (directory / name).exists()]
    write_manifest(directory, names, trained.decisions)
    return names


def write_manifest(directory: Path, names: list[str], decisions: Decisions) -> None:
    manifest = {
        name: {"bytes": plain_size(directory / name), "sha256": fingerprint(directory / name)} for name in names
    }
    stored = {key: content for key, content in decisions.stored_later().items() if content}
    write_json(directory / MANIFEST, {"format": FORMAT, "files": manifest, **stored})


def store_thresholds(
    directory: Path,
    named: dict[str, NamedThresholds],
    candidates: dict[str, Promise] | None = None,
    references: dict[str, Reference] | None = None,
) -> None:
    """Adds named thresholds, promises and the looks of their examples to a finished model directory, in one atomic
    write; those of the same name are replaced. Then PROMISES.md says what is promised."""
    check_directory(directory)
    manifest = read_object(directory / MANIFEST)
    added = Decisions(named=named, candidates=candidates or {}, references=references or {}).stored_later()
    stored = {key: manifest.get(key, {}) | content for key, content in added.items()}
    manifest |= {key: content for key, content in stored.items() if content}
    write_json(directory / MANIFEST, manifest)
    promises = {name: entry["promise"] for name, entry in stored["thresholds"].items() if entry.get("promise")}
    promises |= {f"{CANDIDATES}={level}": entry for level, entry in stored["candidates"].items()}
    if promises:
        told = _told({name: Promise.from_json(entry) for name, entry in promises.items()})
        write_text(directory / PROMISES, f"# Promises\n\n{told}")
    else:
        (directory / PROMISES).unlink(missing_ok=True)


def _told(promises: dict[str, Promise]) -> str:
    return "".join(f"- `{name}`: {promise.sentence}\n" for name, promise in promises.items())


def load_model(directory: Path | str) -> TrainedModel:
    """Files that come from anywhere: nothing in them runs, and whatever is wrong with them is one sentence."""
    directory = Path(directory)
    files = check_directory(directory)
    try:
        with looking_up_nothing():
            return _load(files)
    except (MissingLibraryError, ModelDirectoryError):
        raise
    except Misfit as error:
        raise ModelDirectoryError(f"{directory / WEIGHTS}: {error}; copy or train it again.") from None
    except Exception as error:  # content that a stranger chose can go wrong in any way
        if out_of_memory(error):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelDirectoryError(f"{directory}: is damaged ({reason[:300]}); copy or train it again.") from None


def _load(files: ListedFiles) -> TrainedModel:
    content = read_object(files / "config.json")
    check_plugins(content["provenance"].get("plugins", []), str(files.directory))
    config = stored_config(content["config"], str(files / "config.json"))
    labels = LabelVocabulary.from_json(read_object(files / "labels.json"))
    featurizer = featurizer_class(config).load(files, config.data, encoder_options(config))
    neighbours = getattr(bag_part(featurizer), "neighbours", None)
    if neighbours is not None and neighbours.labels != len(labels):
        raise ValueError(f"its neighbours have {neighbours.labels:,} labels, and labels.json {len(labels):,}")
    scorer = getattr(bag_part(featurizer), "scorer", None)
    if scorer is not None and scorer.labels != len(labels):
        raise ValueError(f"its shortlists are of {scorer.labels:,} labels, and labels.json has {len(labels):,}")
    network: OrderFreeModel
    if ENCODER in files:  # exported: graphs in the place of weights
        network = GraphModel(files, len(labels), int(content["provenance"]["exported"]["parameters"]))
    else:
        network = with_weights(lambda: build_network(config, featurizer.input_size, len(labels)), files / WEIGHTS)
    metrics, provenance = read_object(files / "metrics.json"), dict(content["provenance"])
    decoders = decoders_of(config, is_shortlisted(network))
    _check_told(metrics, provenance, decoders)
    decided, manifest = read_object(files / "thresholds.json"), read_object(files.directory / MANIFEST)
    decisions = Decisions.from_json(decided, manifest, len(labels), decoders)
    return TrainedModel(config, labels, featurizer, network, decisions, metrics, provenance)


def _check_told(metrics: dict[str, Any], provenance: dict[str, Any], decoders: Collection[str]) -> None:
    """What is only shown must at least be what its name says."""
    default = metrics.get("default")
    chosen = {} if default is None else {str(default["search"]): default["scores"]}
    if default is not None and not (isinstance(name := default["decoder"], str) and name.isprintable()):
        raise ValueError("metrics.json does not name the decoder that predictions are made with")
    for decoder, scores in (*metrics.get("validation", {}).items(), *chosen.items()):
        if decoder not in decoders or not all(map(is_score, scores.values())):
            raise ValueError(f"metrics.json holds scores of {decoder!r} that are none")
    if not all(is_number(metrics.get(key, 0)) for key in ("update", "updates")):
        raise ValueError("metrics.json does not hold how many updates there were")
    kinds = {"train_examples": int, "valid_examples": int, "data": dict, "versions": dict}
    if wrong := next((key for key, kind in kinds.items() if not isinstance(provenance.get(key, kind()), kind)), None):
        raise ValueError(f"config.json holds no {wrong.replace('_', ' ')}")


def check_directory(directory: Path) -> ListedFiles:
    """The files of a model directory; what is not a finished and undamaged one is refused in one sentence."""
    if not directory.exists():
        raise ModelDirectoryError(f"{directory}: no such model directory; train one with `orderfree train … --out`.")
    if not directory.is_dir():
        raise ModelDirectoryError(f"{directory}: is a file, expected a model directory.")
    if not (directory / MANIFEST).exists():
        if (directory / TRAINING).exists():
            raise ModelDirectoryError(
                f"{directory}: its training is not finished; go on with `orderfree train … --out {directory} --resume`."
            )
        raise ModelDirectoryError(f"{directory}: is not a model directory (it has no manifest.json).")
    manifest = read_object(directory / MANIFEST)
    version = manifest.get("format")
    if not isinstance(version, int) or version > FORMAT:
        raise ModelDirectoryError(
            f"{directory}: has format {version}, this orderfree reads up to {FORMAT}; upgrade orderfree."
        )
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise ModelDirectoryError(f"{directory / MANIFEST}: is damaged; {AGAIN}")
    for name in FILES:
        if name not in files and not (name == WEIGHTS and ENCODER in files):
            raise ModelDirectoryError(f"{directory / MANIFEST}: does not list {name}; {AGAIN}")
    return check_files(directory, files)
