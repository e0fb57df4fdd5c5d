"""Every input format, encoder and objective: each model trains, evaluates and predicts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from e2e_support import TINY, TINY_SPARSE, Cli, Toy, sets

from orderfree.build import load_config
from orderfree.data.readers import read_examples
from tiny_bert import tiny_encoder

ALL = ["greedy", "beam", "br", "rescore", "joint", "marginal", "expected_f1"]
SCORED = [*ALL[:-1], "linear", "expected_f1"]


def goes_all_the_way(cli: Cli, data: Path, out: Path, settings: list[str], decoders: list[str], count: int) -> None:
    cli("train", data, "--out", out, *sets(settings)).worked()
    found = json.loads(cli("evaluate", out, data, "--json").worked().out)
    assert [name for name in found["decoders"] if not name.startswith("best:")] == decoders
    assert set(found["decisions"].values()) <= set(decoders)
    assert found["examples"] == count
    records = cli("predict", out, data).worked().records()
    assert len(records) == count
    truth = {e.id: set(e.labels or ()) for e in read_examples(data, load_config(None, settings).data, labelled=True)}
    hits = sum(len(truth[record["id"]] & set(record["labels"])) for record in records)
    said = sum(len(record["labels"]) for record in records) + sum(map(len, truth.values()))
    assert found["decoders"]["best:micro_f1"]["micro_f1"] == pytest.approx(2 * hits / said)
    assert found["default_decoder"] == "best:micro_f1"
    assert {record["decoder"] for record in records} == {found["decisions"]["best:micro_f1"]}
    assert all((record["probs"] is None) == ("br" not in decoders) for record in records)


@pytest.mark.parametrize("name", ["all.csv", "all.tsv", "all.parquet", "all.ft", "text_all", "all.jsonl.gz"])
def test_tables_and_lines(cli: Cli, toy: Toy, tmp_path: Path, name: str) -> None:
    share = ["--fraction", 0.5, "--fraction", 0.5]
    cli("split", toy.train, "--out", tmp_path / name, "--out", tmp_path / "rest.jsonl", *share).worked()
    goes_all_the_way(cli, tmp_path / name, tmp_path / "run", [*TINY_SPARSE, "training.epochs=1"], ALL, 100)


def test_libsvm_with_the_sparse_encoder(cli: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(60):
        features = np.sort(rng.choice(np.arange(1, 30), size=5, replace=False))
        labels = ",".join(sorted({str(feature % 4) for feature in features[:2]}))
        lines.append(labels + " " + " ".join(f"{feature}:{rng.random():.3f}" for feature in features))
    data = tmp_path / "data.libsvm"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    goes_all_the_way(cli, data, tmp_path / "run", TINY_SPARSE, ALL, 60)


@pytest.mark.parametrize("shape", [(60, 5), (60, 3, 5)])
def test_npz_with_the_dense_encoder(cli: Cli, tmp_path: Path, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=shape)
    targets = (features.reshape(60, -1)[:, :3] > 0).astype(int)
    np.savez(tmp_path / "data.npz", X=features, Y=targets)
    settings = [*TINY, "model.encoder=dense", "model.encoder_options.hidden=8"]
    goes_all_the_way(cli, tmp_path / "data.npz", tmp_path / "run", settings, ALL, 60)


@pytest.mark.parametrize(
    ("settings", "decoders"),
    [
        (["objective.sequence=mle"], ALL),
        (["objective.sequence=null"], ["br"]),
        (["objective.br_weight=0"], ["greedy", "beam", "marginal", "expected_f1"]),
        (["model.br_batch_norm=true", "objective.normalise=step", "training.schedule=linear"], ALL),
    ],
    ids=["mle", "br only", "sequence only", "other keys"],
)
def test_objectives(cli: Cli, toy: Toy, tmp_path: Path, settings: list[str], decoders: list[str]) -> None:
    goes_all_the_way(cli, toy.train, tmp_path / "run", [*TINY_SPARSE, *settings], decoders, 200)


def test_the_bilstm_encoder(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    sizes = ["model.encoder_options.embedding=8", "model.encoder_options.hidden=8", "model.encoder_options.layers=1"]
    settings = [*TINY, "model.encoder=bilstm", *sizes, "training.epochs=1"]
    goes_all_the_way(cli, toy.train, tmp_path / "run", settings, ALL, 200)


@pytest.mark.parametrize(
    "options",
    [
        {"encoder": "transformer"},
        {"encoder": "transformer", "frozen": True},
        {"encoder": "sparse", "hidden": 8},
        {"encoder": "linear", "folds": 2},
    ],
    ids=["fine-tuned", "frozen", "beside a sparse bag", "beside a linear bag"],
)
def test_a_pretrained_encoder(
    cli: Cli, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> None:
    monkeypatch.setenv("ORDERFREE_CACHE", str(tmp_path / "cache"))
    key = "pretrained" if options["encoder"] == "transformer" else "embeddings"
    decoders = SCORED if options["encoder"] == "linear" else ALL
    given = {**options, key: tiny_encoder(tmp_path / "tiny")}
    settings = [f"model.encoder={given.pop('encoder')}"]
    settings += [f"model.encoder_options.{name}={value}" for name, value in given.items()]
    settings += [*TINY, "training.epochs=1", "training.encoder_rate=0.1"]
    goes_all_the_way(cli, toy.train, tmp_path / "run", settings, decoders, 200)


def test_several_encoders_side_by_side(cli: Cli, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERFREE_CACHE", "off")
    parts = {
        "linear": {"folds": 2, "leads": [3]},
        "bilstm": {"embedding": 8, "hidden": 8, "layers": 1},
        "transformer": {"pretrained": str(tiny_encoder(tmp_path / "tiny")), "frozen": True, "hidden": 8},
    }
    settings = ["model.encoder=hybrid", f"model.encoder_options.parts={json.dumps(parts)}"]
    settings += [*TINY, "training.epochs=1", "model.encoder_options.hidden=8"]
    goes_all_the_way(cli, toy.train, tmp_path / "run", settings, SCORED, 200)
    described = json.loads(cli("inspect", tmp_path / "run", "--json").worked().out)
    assert described["config"]["model"]["label_decoder"] == "residual", "the linear part scores labels"


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"linear": {}}, "expected two or more encoders"),
        ({"linear": {}, "sparse": {}}, "are fed the same thing"),
        ({"linear": {}, "bilsm": {}}, "Did you mean 'bilstm'"),
        ({"linear": {"folds": 1}, "bilstm": {}}, "folds"),
    ],
)
def test_encoders_that_do_not_go_together(cli: Cli, toy: Toy, tmp_path: Path, parts: dict, complaint: str) -> None:
    settings = ["model.encoder=hybrid", f"model.encoder_options.parts={json.dumps(parts)}"]
    cli("train", toy.train, "--out", tmp_path / "run", *sets(settings)).refused(complaint)


def test_a_decoder_the_model_lacks(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    settings = [*TINY_SPARSE, "training.epochs=1", "objective.sequence=null"]
    cli("train", toy.train, "--out", tmp_path / "run", *sets(settings)).worked()
    cli("predict", tmp_path / "run", toy.new, "--decode", "joint").refused("'joint'", "it has br")
    cli("evaluate", tmp_path / "run", toy.test, "--decode", "greedy").refused("'greedy'", "it has br")
    cli("predict", tmp_path / "run", toy.new, "--set", "decoding.decoder=beam").refused("decoding.decoder", "'beam'")
