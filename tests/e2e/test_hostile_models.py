"""Model directories that somebody made to do harm: nothing in them runs, reaches outside, or takes what it likes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from e2e_support import Cli, Toy
from fuzz_models import fuzz, make_models, seal
from safetensors.torch import load_file, save_file
from test_bad_models import change_json

from orderfree.errors import ConfigError, OrderfreeError
from orderfree.inference import Predictor
from orderfree.system import listed
from orderfree.system.pretrained import empty_network
from orderfree.types import Example
from tiny_bert import tiny_encoder


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_models(tmp_path_factory.mktemp("kinds"))


@pytest.fixture
def directory(kinds: dict[str, Path], tmp_path: Path) -> Path:
    """A small transformer to tamper with."""
    place = tmp_path / "model"
    place.mkdir()
    for file in kinds["transformer"].iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    return place


def refused(directory: Path, *parts: str) -> None:
    seal(directory)
    with pytest.raises(OrderfreeError) as caught:
        Predictor.load(directory)
    for part in (str(directory), *parts):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_in_every_way(tmp_path: Path) -> None:
    """`benchmarks/reliability/fuzz_models.py` does this ten thousand times."""
    found = fuzz(150, seed=2, place=tmp_path, say=lambda _: None)
    assert found["wrong"] == {}
    assert found["cases"] == 150
    assert found["accidents"]["refused"] > 50


def with_architecture(**changes: Any) -> Any:
    return lambda content: content["config"]["model"]["encoder_options"]["architecture"].update(changes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("auto_map", {"AutoModel": "evil.Model"}),
        ("attn_implementation", "stranger/kernel"),
        ("_attn_implementation", "stranger/kernel"),
        ("quantization_config", {"quant_method": "stranger"}),
        ("text_config", {"auto_map": {"AutoModel": "evil--evil.Model"}}),
    ],
)
def test_code_that_comes_with_a_model_is_never_run(directory: Path, key: str, value: Any) -> None:
    (directory / "evil.py").write_text("raise SystemExit('it ran')\n", encoding="utf-8")
    change_json(directory / "config.json", with_architecture(**{key: value}))
    refused(directory, "code of its own", "never run")


def test_nor_is_that_of_a_pretrained_encoder(tmp_path: Path) -> None:
    architecture = json.loads((tiny_encoder(tmp_path / "tiny") / "config.json").read_text(encoding="utf-8"))
    with pytest.raises(ConfigError, match="code of its own"):
        empty_network({**architecture, "auto_map": {"AutoModel": "evil.Model"}})


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (with_architecture(hidden_size=10**9), "at most 16,777,216"),
        (with_architecture(hidden_size=1 << 23, intermediate_size=1 << 23), "does not fit"),
        (with_architecture(num_hidden_layers=10**6), "num_hidden_layers = 1,000,000"),
        (with_architecture(max_position_embeddings=1 << 40), "max_position_embeddings"),
        (lambda content: content["config"]["model"].update(decoder_hidden=1 << 20), "model.safetensors"),
        (lambda content: content["config"]["model"].update(decoder_layers=10**9), "decoder_layers"),
        (lambda content: content["config"]["decoding"].update(batch_size=10**18), "batch_size"),
    ],
)
def test_sizes_are_checked_before_memory_is_taken(directory: Path, change: Any, part: str) -> None:
    """Asked for as written, each would be terabytes, or a loop for days."""
    change_json(directory / "config.json", change)
    refused(directory, part)


def test_a_header_that_promises_more_than_there_is(directory: Path) -> None:
    path = directory / "model.safetensors"
    header = json.dumps({"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    refused(directory, "model.safetensors")
    path.write_bytes((1 << 60).to_bytes(8, "little") + header)
    refused(directory, "model.safetensors")


def test_a_vocabulary_like_a_bomb(directory: Path) -> None:
    with open(directory / "tokenizer.json", "r+b") as file:
        file.truncate(listed.LARGEST[".json"] + 1)  # a hole: it takes no space here either
    refused(directory, "tokenizer.json", "is larger than 268,435,456 bytes")


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/b", "..", ".", "", "x\0y"])
def test_names_that_lead_outside(directory: Path, name: str) -> None:
    change_json(directory / "manifest.json", lambda content: content["files"].update({name: {"bytes": 0}}))
    with pytest.raises(OrderfreeError, match="outside the directory"):
        Predictor.load(directory)


def test_links_that_lead_outside(directory: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_bytes((directory / "labels.json").read_bytes())
    (directory / "labels.json").unlink()
    os.symlink(secret, directory / "labels.json")
    refused(directory, "outside the directory")


def test_a_file_the_manifest_keeps_silent_about(directory: Path) -> None:
    for name, part in (("labels.json", "does not list labels.json"), ("tokenizer.json", "does not list tokenizer")):
        whole = (directory / "manifest.json").read_bytes()
        change_json(directory / "manifest.json", lambda content, name=name: content["files"].pop(name) and None)  # type: ignore[misc]
        refused(directory, part)
        (directory / "manifest.json").write_bytes(whole)


def test_weights_of_another_shape_are_named(directory: Path) -> None:
    tensors = load_file(directory / "model.safetensors")
    name = sorted(tensors)[0]
    save_file({**tensors, name: torch.zeros(3, 5, 7)}, directory / "model.safetensors")
    refused(directory, "other labels or another config", name)


@pytest.mark.parametrize("label", ["\x1b[2Jcleared", "two\nlines", "", "a"])
def test_labels_that_would_break_a_terminal_or_a_file(directory: Path, label: str) -> None:
    change_json(directory / "labels.json", lambda content: content["labels"][1].update(name=label))
    refused(directory, "is damaged")


def test_a_report_of_a_card_that_is_no_text(cli: Cli, own_model: Path, toy: Toy, tmp_path: Path) -> None:
    (own_model / "README.md").write_bytes(b"# card \xff\xfe <script>alert(1)</script>\n")
    (own_model / "history.jsonl").write_bytes(b'[1]\n{"update": "x"}\n\xff\n{"update": 1, "validation": 5}\n')
    seal(own_model)
    cli("report", own_model, "--out", tmp_path / "page.html").worked()
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<script") == 1, "our own"


def test_a_tokenizer_that_fails_on_a_text(directory: Path) -> None:
    def forget_the_unknown(content: Any) -> None:
        del content["model"]["vocab"]["[UNK]"]

    change_json(directory / "tokenizer.json", forget_the_unknown)
    seal(directory)
    predictor = Predictor.load(directory)
    with pytest.raises(OrderfreeError, match="the tokenizer of this model is damaged"):
        predictor.predict([Example("1", text="unheard")])
