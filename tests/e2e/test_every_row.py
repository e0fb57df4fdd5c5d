"""Every row of the paper's tables: its config, made small, is trained and tested by the same runner."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import orderfree
from orderfree.experiments import grid
from orderfree.experiments.cells import Cell, Plan
from orderfree.experiments.grid import run_cells
from orderfree.experiments.paper import METHODS, PERFORMANCE
from orderfree.experiments.result_files import load_results
from orderfree.testing.toy import toy_corpus

CONFIGS = Path(orderfree.__file__).parent / "configs"
SMALL_SIZE = ("reuters", "rcv1-subset")
PAPER_SIZE = ("reuters", "aapd")
SMALL = {
    "embedding": 8, "hidden": 4, "label_embedding": 8, "decoder_hidden": 8, "br_hidden": 8, "vocabulary_size": 500,
    "batch_size": 32, "epochs": 2, "validate_every": 1000,
}  # fmt: skip


@pytest.mark.parametrize("folder", [*(f"{corpus}/paper-small" for corpus in SMALL_SIZE), *PAPER_SIZE])
def test_there_is_a_config_for_every_row(folder: str) -> None:
    assert {path.stem for path in (CONFIGS / folder).glob("*.yaml")} == set(METHODS)


def test_the_resplit_has_a_config_for_every_row_the_paper_prints() -> None:
    printed = {method for method, _ in PERFORMANCE["aapd-resplit", "test_unseen"]}
    assert {path.stem for path in (CONFIGS / "aapd-resplit").glob("*.yaml")} == printed


@pytest.mark.parametrize("corpus", ["reuters", "aapd", "aapd-resplit"])
def test_all_rows_of_a_corpus_end_by_the_same_rule(corpus: str) -> None:
    sections = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (CONFIGS / corpus).glob("*.yaml")]
    keys = ("batch_size", "learning_rate", "epochs", "validate_every", "patience")
    rules = {tuple(section["training"][key] for key in keys) for section in sections if "training" in section}
    assert len(rules) == 1  # the SVM has no updates and no section


def small(section: dict) -> dict:
    return {key: small(value) if isinstance(value, dict) else SMALL.get(key, value) for key, value in section.items()}


@pytest.mark.parametrize("method", METHODS)
def test_row(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = toy_corpus(1, 120, 40, 40)
    parts = {"train": toy.train, "valid": toy.valid, "test": toy.test}
    monkeypatch.setattr(
        grid, "load_parts", lambda name, root, seed: {p: (lambda e=e: iter(e)) for p, e in parts.items()}
    )
    monkeypatch.setattr(grid, "data_root", lambda option: tmp_path)
    raw = small(yaml.safe_load((CONFIGS / "reuters" / "paper-small" / f"{method}.yaml").read_text(encoding="utf-8")))
    raw.setdefault("training", {}).update({"tensorboard": False, "threads": 1})
    folder = tmp_path / "configs" / "toy" / "paper-small"
    folder.mkdir(parents=True)
    (folder / f"{method}.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    said: list[str] = []
    plan = Plan(tmp_path / "configs", tmp_path / "results", tmp_path / "work")
    assert run_cells([Cell("toy", "paper-small", method, 1)], plan, said.append) == [], said
    (result,) = load_results(tmp_path / "results", pytest.fail)
    expected = {"svm": {"br"}, "br": {"br"}, "br++": {"br"}, "ocd-mtl": {"beam", "br", "rescore", "joint"}}
    assert set(result.test) == expected.get(method, {"beam"})
    assert result.parameters > 0
    assert len(result.per_label) == len({label for example in toy.test for label in example.labels}
                                        | {row["label"] for row in result.per_label})  # fmt: skip
    assert result.updates == (0 if method == "svm" else 8)
