"""Model directories that are none, or are damaged: every command that opens one says so in one sentence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from e2e_support import Cli, Toy


def change_json(path: Path, change: Callable[[Any], Any]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    changed = change(content)
    path.write_text(json.dumps(content if changed is None else changed), encoding="utf-8")


def seal(model: Path) -> None:
    """Makes the manifest right for files that were changed on purpose."""

    def describe(manifest: dict[str, Any]) -> None:
        for name in manifest["files"]:
            content = (model / name).read_bytes()
            manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    change_json(model / "manifest.json", describe)


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def refused_by_all(cli: Cli, model: Path, toy: Toy, *parts: object) -> None:
    messages = {
        cli("inspect", model).refused(*parts),
        cli("evaluate", model, toy.test).refused(*parts),
        cli("predict", model, toy.new).refused(*parts),
    }
    assert len(messages) == 1


def test_no_model_directory(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    refused_by_all(cli, tmp_path / "nowhere", toy, tmp_path / "nowhere", "no such model directory", "orderfree train")
    refused_by_all(cli, toy.train, toy, toy.train, "is a file, expected a model directory")
    refused_by_all(cli, tmp_path, toy, tmp_path, "is not a model directory", "manifest.json")


@pytest.mark.parametrize(
    "name", ["config.json", "labels.json", "vocabulary.json", "model.safetensors", "thresholds.json", "metrics.json"]
)
def test_damaged_files(cli: Cli, own_model: Path, toy: Toy, name: str) -> None:
    path = own_model / name
    whole = path.read_bytes()
    flip_a_byte(path)
    cli("predict", own_model, toy.new).refused(path, "does not match its checksum", "train the model again")
    path.write_bytes(whole[:-1])
    cli("predict", own_model, toy.new).refused(path, f"{len(whole) - 1:,} bytes, expected {len(whole):,}", "truncated")
    path.unlink()
    cli("predict", own_model, toy.new).refused(own_model, f"{name} is missing", "copy or train the model again")
    path.write_bytes(whole)
    cli("predict", own_model, toy.new).worked()


def test_all_commands_refuse_alike(cli: Cli, own_model: Path, toy: Toy) -> None:
    flip_a_byte(own_model / "model.safetensors")
    refused_by_all(cli, own_model, toy, own_model / "model.safetensors", "checksum")


def test_damaged_manifest(cli: Cli, own_model: Path, toy: Toy) -> None:
    manifest = own_model / "manifest.json"
    whole = manifest.read_bytes()
    for content in (b"", b"{", b"[]", b'{"format": 1}', b'{"format": 1, "files": {"config.json": 5}}', b"\xff"):
        manifest.write_bytes(content)
        cli("inspect", own_model).refused("manifest.json", "again")
    manifest.write_bytes(whole)
    change_json(manifest, lambda content: content["files"].update({"../outside": {"bytes": 1, "sha256": ""}}))
    cli("inspect", own_model).refused(manifest, "outside the directory")


def test_a_newer_format(cli: Cli, own_model: Path, toy: Toy) -> None:
    change_json(own_model / "manifest.json", lambda content: content.update(format=99))
    refused_by_all(cli, own_model, toy, own_model, "has format 99", "upgrade orderfree")


def test_made_for_other_labels(cli: Cli, own_model: Path, toy: Toy) -> None:
    change_json(own_model / "labels.json", lambda content: content["labels"].append({"name": "extra", "count": 1}))
    seal(own_model)
    refused_by_all(cli, own_model, toy, own_model / "model.safetensors", "other labels or another config")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", lambda content: content.pop("config")),
        ("config.json", lambda content: content.pop("provenance")),
        ("config.json", lambda content: content["config"].update(surprise=1)),
        ("labels.json", lambda content: {}),
        ("thresholds.json", lambda content: {"br": {"micro_f1": "much"}}),
        ("vocabulary.json", lambda content: {}),
        ("metrics.json", lambda content: []),
    ],
)
def test_contents_that_make_no_sense(cli: Cli, own_model: Path, toy: Toy, name: str, change: Any) -> None:
    def replaced(content: Any) -> Any:
        result = change(content)
        return content if name == "config.json" else result

    change_json(own_model / name, replaced)
    seal(own_model)
    cli("predict", own_model, toy.new).refused(own_model, "again")
