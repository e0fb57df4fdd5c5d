"""Parts of another package: found by entry points or by name, and missed by name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import orderfree
from orderfree.build import plugin_parts
from orderfree.data.readers import readers
from orderfree.decoding.search import searches
from orderfree.errors import ConfigError, MissingLibraryError, OrderfreeError
from orderfree.inference import Predictor
from orderfree.nn.encoders import encoders
from orderfree.objectives import objectives
from orderfree.system import plugins

SOURCE = """
from orderfree.data.readers import readers
from orderfree.decoding.search import search, searches
from orderfree.nn.encoders import encoders
from orderfree.nn.encoders.sparse import SparseEncoder
from orderfree.objectives import objectives
from orderfree.types import Example


@readers.register("pipes")
def read_pipes(source, options):
    for line in source.lines():
        text, *labels = line.split("|")
        yield Example(source.example_id(None), text=text, labels=tuple(labels) if source.labelled else None)


@encoders.register("tiny_bag")
class TinyBag(SparseEncoder):
    pass


@objectives.register("tiny_ocd")
class TinyOcd(objectives["ocd"]):
    pass


@search("tiny_greedy", sequence=True)
def tiny_greedy(given, limits):
    return searches["greedy"](given, limits)
"""
SETTINGS = [
    "model.encoder=tiny_bag",
    "model.encoder_options.hidden=8",
    "objective.sequence=tiny_ocd",
    "decoding.decoder=tiny_greedy",
    "data.format=pipes",
    "training.epochs=1",
    "training.tensorboard=false",
]
LINES = [f"word{i % 3} text|l{i % 3}|all" for i in range(30)]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with an entry point; what it registers is forgotten afterwards."""
    folder = tmp_path / "site"
    facts = folder / "tiny_parts-1.0.dist-info"
    facts.mkdir(parents=True)
    (folder / "tiny_parts.py").write_text(SOURCE, encoding="utf-8")
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-parts\nVersion: 1.0\n", encoding="utf-8")
    (facts / "entry_points.txt").write_text("[orderfree.plugins]\ntiny = tiny_parts\n", encoding="utf-8")
    (tmp_path / "data.pipes").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    monkeypatch.setattr(plugins, "STATE", plugins.PluginState())
    for registry in (readers, searches, encoders, objectives):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))  # type: ignore[attr-defined]
        monkeypatch.setattr(registry, "_modules", dict(registry._modules))  # type: ignore[attr-defined]
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("tiny_parts", None)


def _forget(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """As in a process where the package is not installed."""
    sys.modules.pop("tiny_parts", None)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(folder)])
    monkeypatch.setattr(plugins, "STATE", plugins.PluginState())
    parts = {"tiny_greedy": searches, "tiny_bag": encoders, "tiny_ocd": objectives, "pipes": readers}
    for name, registry in parts.items():
        registry._entries.pop(name)  # type: ignore[attr-defined]


def test_all_kinds_of_parts_are_found_by_entry_points(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "tiny_parts" not in sys.modules
    assert "bilstm" in encoders  # a name that is known imports nothing
    assert "tiny_parts" not in sys.modules
    run = package.parent / "run"
    trained = orderfree.train(orderfree.load_config(None, SETTINGS), package.parent / "data.pipes", None, run)
    assert {part["module"] for part in trained.provenance["plugins"]} == {"tiny_parts"}
    assert {part["name"] for part in trained.provenance["plugins"]} == {"tiny_bag", "tiny_ocd", "tiny_greedy"}
    expected = [one.labels for one in orderfree.load(run).predict(["word0 text", "word1"])]
    assert Predictor(trained).default_decoder == "tiny_greedy"
    _forget(monkeypatch, package)
    with pytest.raises(MissingLibraryError, match=r"needs the encoder 'tiny_bag' of the plugin 'tiny_parts'.*--plugin"):
        orderfree.load(run)
    sys.path.append(str(package))
    assert [
        one.labels for one in orderfree.load(run, plugins=["tiny_parts"]).predict(["word0 text", "word1"])
    ] == expected


def test_a_model_of_our_own_parts_needs_no_plugin() -> None:
    assert plugin_parts(orderfree.load_config()) == []


def test_a_module_that_is_not_there_is_said() -> None:
    with pytest.raises(OrderfreeError, match="there is no module 'no_such_parts' to take as a plugin"):
        orderfree.load_config(plugins=["no_such_parts"])


def test_a_broken_package_stops_only_who_needs_it(package: Path) -> None:
    (package / "tiny_parts.py").write_text("import a_library_nobody_has\n", encoding="utf-8")
    assert "bilstm" in encoders
    with pytest.raises(
        ConfigError, match=r"unknown encoder 'tiny_bag'.*The plugin 'tiny' cannot be imported.*nobody_has"
    ):
        encoders["tiny_bag"]
    with pytest.raises(OrderfreeError, match="the plugin 'tiny_parts' needs 'a_library_nobody_has'"):
        plugins.load_plugins(["tiny_parts"])


def test_the_command_line_imports_a_module_of_the_current_folder(package: Path) -> None:
    """No package and no entry point: a file beside the data."""
    (package.parent / "my_parts.py").write_text(SOURCE, encoding="utf-8")
    keys = [word for setting in SETTINGS for word in ("--set", setting)]
    start = [sys.executable, "-c", "from orderfree.cli.main import run; run()"]
    command = [*start, "train", "data.pipes", "--out", "run", "--plugin", "my_parts", *keys, "--json"]
    done = subprocess.run(command, cwd=package.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["default"]["search"] == "tiny_greedy"
    again = [*start, "predict", "run", "data.pipes", "--format", "pipes"]
    refused = subprocess.run(again, cwd=package.parent, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "run: needs the encoder 'tiny_bag' of the plugin 'my_parts'" in refused.stderr
    assert "--plugin my_parts" in refused.stderr
