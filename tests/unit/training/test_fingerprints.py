"""A run knows everything it is made of: a change in any of it is noticed before the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orderfree.build import complete_config
from orderfree.errors import OrderfreeError
from orderfree.training.directory import check_same_data
from orderfree.training.prepare import fingerprints
from tiny_bert import tiny_encoder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")


FORMATS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    # what lies there, the training file first -> the part of the run that each of the other files is
    "sgm": ({"text_train": "red\n", "label_train": "a b\n"}, {"label_train": "train_labels"}),
    "lyrl2004": (
        {"lyrl2004_tokens_train.dat": ".I 1\n.W\nred\n", "rcv1-v2.topics.qrels": "E11 1 1\n"},
        {"rcv1-v2.topics.qrels": "train_labels"},
    ),
    "nltk-reuters": (
        {"cats.txt": "training/1 a\n", "training/1": "red", "test/2": "blue"},
        {"training/1": "train_texts", "test/2": "train_texts"},
    ),
}


@pytest.mark.parametrize("format", FORMATS)
def test_files_beside_the_training_file(tmp_path: Path, format: str) -> None:
    files, parts = FORMATS[format]
    write(tmp_path, files)
    config = complete_config({"data": {"format": format}}, "the test")
    train = tmp_path / next(iter(files))
    before = fingerprints(config, train, None)
    assert fingerprints(config, train, train).keys() == before.keys() | {
        part.replace("train", "valid") for part in before
    }
    for name, part in parts.items():
        write(tmp_path, {name: files[name] + "more"})
        now = fingerprints(config, train, None)
        assert {key for key in now if now[key] != before[key]} == {part}
        with pytest.raises(OrderfreeError, match=f"the {part.replace('_', ' ')} data is not what this run was started"):
            check_same_data(tmp_path, before, now)
        write(tmp_path, {name: files[name]})
    assert fingerprints(config, train, None) == before


def test_what_makes_features_of_sounds(tmp_path: Path) -> None:
    write(tmp_path, {"train.jsonl": "{}", "vggish": "weights", "components": "more"})
    data = {"vggish": str(tmp_path / "vggish"), "vggish_pca": str(tmp_path / "components")}
    config = complete_config({"data": data}, "the test")
    before = fingerprints(config, tmp_path / "train.jsonl", None)
    write(tmp_path, {"vggish": "other weights"})
    now = fingerprints(config, tmp_path / "train.jsonl", None)
    with pytest.raises(OrderfreeError, match="the sound features data is not what this run was started with"):
        check_same_data(tmp_path, before, now)
    with pytest.raises(OrderfreeError, match=r"name its weights with data\.vggish"):
        complete_config({"data": {"vggish_pca": "components"}}, "the test")


def encoders_with(pretrained: str) -> list[dict[str, Any]]:
    return [
        {"encoder": "transformer", "encoder_options": {"pretrained": pretrained}},
        {"encoder": "linear", "encoder_options": {"embeddings": pretrained}},
        {
            "encoder": "hybrid",
            "encoder_options": {"parts": {"linear": {}, "transformer": {"pretrained": pretrained, "frozen": True}}},
        },
    ]


@pytest.mark.parametrize("place", range(3))
def test_the_pretrained_encoder(tmp_path: Path, place: int) -> None:
    pretrained = tiny_encoder(tmp_path / "tiny")
    write(tmp_path, {"train.jsonl": "{}"})
    config = complete_config({"model": encoders_with(str(pretrained))[place]}, "the test")
    before = fingerprints(config, tmp_path / "train.jsonl", None)
    assert before.keys() == {"train", f"pretrained encoder {pretrained}"}
    weights = pretrained / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    now = fingerprints(config, tmp_path / "train.jsonl", None)
    with pytest.raises(OrderfreeError, match=r"the pretrained encoder .*tiny is not what this run was started with"):
        check_same_data(tmp_path, before, now)
