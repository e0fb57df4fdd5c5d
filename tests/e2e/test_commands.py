"""Every command as it is meant to be used, on one small model."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from e2e_support import TINY_SPARSE, Cli, Ended, Toy, call_new_python, environment, files_below, sets

from orderfree.report.verdict import of_hundred

DECODERS = ["greedy", "beam", "br", "rescore", "joint", "marginal", "expected_f1"]
METRICS = ["micro_f1", "macro_f1", "example_f1", "subset_accuracy", "hamming_accuracy", "average"]
MODEL_FILES = [
    *("README.md", "config.json", "history.jsonl", "labels.json", "manifest.json", "metrics.json"),
    *("model.safetensors", "thresholds.json", "vocabulary.json"),
]


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_train_with_a_validation_file(trained: Ended, model: Path) -> None:
    printed = json.loads(trained.out)
    assert list(printed["validation"]) == DECODERS
    assert set(printed["thresholds"]) == {"br", "marginal"}
    assert set(printed["thresholds"]["br"]) == set(printed["decisions"]) == set(METRICS)
    assert files_below(model) == MODEL_FILES
    history = [json.loads(line) for line in (model / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["epoch"] for row in history] == [1, 2]
    provenance = json.loads((model / "config.json").read_text(encoding="utf-8"))["provenance"]
    assert (provenance["train_examples"], provenance["valid_examples"]) == (200, 40)


def test_train_without_a_validation_file(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    ended = cli("train", toy.train, "--out", tmp_path / "deep" / "run", *sets(TINY_SPARSE)).worked()
    assert f"Model written to {tmp_path / 'deep' / 'run'}" in ended.out
    assert all(decoder in ended.out for decoder in DECODERS)
    expected, following = ended.out.splitlines()[-2:]
    default = json.loads((tmp_path / "deep" / "run" / "metrics.json").read_text(encoding="utf-8"))["default"]
    right, recalled = (of_hundred(default["scores"][f"micro_{kind}"]) for kind in ("precision", "recall"))
    assert (
        f"about {right} of 100 predicted labels are right, and about {recalled} of 100 true labels are found"
        in expected
    )
    assert f"decoder {default['search']}, chosen for micro_f1; measured on the 20 validation examples" in expected
    assert following == f"Next: orderfree predict {tmp_path / 'deep' / 'run'} new.jsonl"
    shown = json.loads(cli("inspect", tmp_path / "deep" / "run", "--json").worked().out)
    assert shown["provenance"]["train_examples"] == 180
    assert shown["provenance"]["valid_examples"] == 20


def test_evaluate(cli: Cli, toy: Toy, model: Path, tmp_path: Path) -> None:
    report = tmp_path / "reports" / "report.html"
    table = cli("evaluate", model, toy.test, "--report", report).worked().out
    assert "60 examples" in table
    assert all(decoder in table for decoder in DECODERS)
    assert "<html" in report.read_text(encoding="utf-8")
    found = json.loads(cli("evaluate", model, toy.test, "--json").worked().out)
    assert list(found["decoders"]) == [*DECODERS, *(f"best:{metric}" for metric in METRICS)]
    assert found["default_decoder"] == "best:micro_f1"
    one = json.loads(cli("evaluate", model, toy.test, "--decode", "joint", "--json").worked().out)
    assert one["decoders"] == {"joint": found["decoders"]["joint"]}


@pytest.mark.parametrize("metric", METRICS)
def test_optimize_for(cli: Cli, toy: Toy, model: Path, metric: str) -> None:
    """On the validation part, what was chosen for a metric is at least as good for it as every decoder."""
    found = json.loads(cli("evaluate", model, toy.valid, "--json").worked().out)
    best = found["decoders"][f"best:{metric}"]
    if not found["unseen_labels"]:
        assert best[metric] >= max(found["decoders"][decoder][metric] for decoder in DECODERS) - 1e-9
    one = json.loads(cli("evaluate", model, toy.valid, "--optimize-for", metric, "--json").worked().out)
    assert one["decoders"] == {f"best:{metric}": best}
    records = cli("predict", model, toy.new, "--optimize-for", metric).worked().records()
    assert {record["decoder"] for record in records} == {found["decisions"][f"best:{metric}"]}


def test_a_metric_nobody_knows(cli: Cli, toy: Toy, model: Path) -> None:
    cli("predict", model, toy.new, "--optimize-for", "micro").refused("tuned for 'micro'", "Did you mean 'micro_f1'?")
    both = ["--optimize-for", "micro_f1", "--decode", "br"]
    cli("predict", model, toy.new, *both).refused("give only one of them")


def test_evaluate_counts_labels_never_seen_in_training_as_misses(
    cli: Cli, toy: Toy, model: Path, tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in toy.test.read_text(encoding="utf-8").splitlines()]
    known = json.loads(cli("evaluate", model, toy.test, "--json").worked().out)
    for row in rows:
        row["labels"].append("zeppelin")
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    ended = cli("evaluate", model, tmp_path / "new.jsonl", "--json").worked()
    assert "warning: 1 label does not occur in training, so every occurrence counts as missed: zeppelin" in ended.err
    found = json.loads(ended.out)
    assert found["unseen_labels"] == ["zeppelin"]
    for decoder in DECODERS:
        assert found["decoders"][decoder]["subset_accuracy"] == 0
        assert found["decoders"][decoder]["micro_f1"] < known["decoders"][decoder]["micro_f1"]


def test_predict_keeps_order_and_ids_and_ignores_labels(cli: Cli, toy: Toy, model: Path, tmp_path: Path) -> None:
    text = toy.test.read_text(encoding="utf-8")
    as_user = call_new_python("predict", model, "-", input=text).worked()
    records = as_user.records()
    assert [record["id"] for record in records] == ids(toy.test)
    assert list(records[0]) == ["id", "labels", "decoder", "log_prob", "probs"]
    assert all(set(record["probs"]) == set(record["labels"]) for record in records)
    unlabelled = [{k: v for k, v in json.loads(line).items() if k != "labels"} for line in text.splitlines()]
    (tmp_path / "plain.jsonl").write_text("".join(json.dumps(row) + "\n" for row in unlabelled), encoding="utf-8")
    assert cli("predict", model, tmp_path / "plain.jsonl").worked().out == as_user.out


def test_predict_ends_with_how_much_was_predicted(cli: Cli, toy: Toy, model: Path) -> None:
    ended = cli("predict", model, toy.new).worked()
    counts = [len(record["labels"]) for record in ended.records()]
    mean = sum(counts) / len(counts)
    assert f"3 inputs predicted: {mean:.2f} labels each, {counts.count(0)} without labels" in ended.err


def test_predict_reads_standard_input_with_a_format(
    cli: Cli, model: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [record["labels"] for record in cli("predict", model, toy.new).worked().records()]
    texts = [json.loads(line)["text"] for line in toy.new.read_text(encoding="utf-8").splitlines()]
    table = io.StringIO()
    csv.writer(table).writerows([["text"], *([text] for text in texts)])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(table.getvalue().encode())))
    records = cli("predict", model, "-", "--format", "csv").worked().records()
    assert [record["labels"] for record in records] == expected
    assert [record["id"] for record in records] == ["0", "1", "2"]


def test_predict_to_files(cli: Cli, toy: Toy, model: Path, tmp_path: Path) -> None:
    records = cli("predict", model, toy.new).worked().records()
    for name in ("out.csv", "out.parquet", "out.jsonl", "out.jsonl.gz"):
        ended = cli("predict", model, toy.new, "--out", tmp_path / name).worked()
        assert ended.out == ""
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["labels"].split(",") if row["labels"] else [] for row in rows] == [r["labels"] for r in records]
    assert [json.loads(row["probs"]) for row in rows] == [record["probs"] for record in records]
    table = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["labels"] for row in table] == [record["labels"] for record in records]
    assert [dict(row["probs"]) for row in table] == [record["probs"] for record in records]
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == records
    assert files_below(tmp_path) == ["out.csv", "out.jsonl", "out.jsonl.gz", "out.parquet"]
    by_option = cli("predict", model, toy.new, "--out-format", "csv").worked().out
    assert by_option == (tmp_path / "out.csv").read_text(encoding="utf-8")


def test_tables_hold_no_alternatives(cli: Cli, toy: Toy, model: Path) -> None:
    cli("predict", model, toy.new, "--alternatives", "--out-format", "csv").refused("csv cannot hold what it adds")


def test_predict_probs_and_alternatives(cli: Cli, toy: Toy, model: Path) -> None:
    labels = json.loads(cli("inspect", model, "--json").worked().out)["labels"]
    for record in cli("predict", model, toy.new, "--probs", "all").worked().records():
        assert list(record["probs"]) == list(labels)
        assert all(0 <= p <= 1 for p in record["probs"].values())
    assert all(r["probs"] is None for r in cli("predict", model, toy.new, "--probs", "none").worked().records())
    for record in cli("predict", model, toy.new, "--decode", "beam", "--alternatives").worked().records():
        assert record["alternatives"]
        sets_found = [frozenset(a["labels"]) for a in record["alternatives"]] + [frozenset(record["labels"])]
        assert len(set(sets_found)) == len(sets_found)
        assert sum(math.exp(a["log_prob"]) for a in record["alternatives"]) <= 1


@pytest.mark.parametrize("decoder", DECODERS)
def test_predict_set_sizes(cli: Cli, toy: Toy, model: Path, decoder: str) -> None:
    def sizes(*settings: str) -> set[int]:
        ended = cli("predict", model, toy.new, "--decode", decoder, *sets(list(settings))).worked()
        return {len(record["labels"]) for record in ended.records()}

    assert max(sizes("decoding.max_labels=1")) <= 1
    assert sizes("decoding.min_labels=1", "decoding.max_labels=1") == {1}
    assert sizes("decoding.min_labels=20", "decoding.max_labels=20") == {20}
    assert min(sizes("decoding.min_labels=30")) >= 30
    assert sizes("decoding.min_labels=1000") == {36}


def test_predict_an_empty_text_and_a_very_long_one(cli: Cli, model: Path, tmp_path: Path) -> None:
    rows = [{"id": "empty", "text": ""}, {"id": "long", "text": "racket umpire " * 500_000}, {"id": 3, "text": "ball"}]
    (tmp_path / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    ended = cli("predict", model, tmp_path / "odd.jsonl").worked()
    assert [record["id"] for record in ended.records()] == ["empty", "long", "3"]
    assert "1 text was truncated to 500 words" in ended.err


def test_predict_into_a_closed_pipe_is_no_error(model: Path, toy: Toy, tmp_path: Path) -> None:
    big = tmp_path / "big.jsonl"
    big.write_text(toy.train.read_text(encoding="utf-8") * 3, encoding="utf-8")
    command = [sys.executable, "-m", "orderfree", "predict", str(model), str(big), "--probs", "all"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.readline()
        started.stdout.close()
        assert started.stderr.read() == b""
        assert started.wait(timeout=60) == 0


def test_inspect(cli: Cli, model: Path) -> None:
    plain = cli("inspect", model).worked().out
    assert "36 labels" in plain
    assert "parameters" in plain
    assert "provenance:" in plain
    content = json.loads(cli("inspect", model, "--json").worked().out)
    assert len(content["labels"]) == 36
    assert content["config"]["training"]["epochs"] == 2
    assert set(content["metrics"]["validation"]) == set(DECODERS)
    assert len(content["provenance"]["data"]["train"]) == 64


def test_config(cli: Cli, tmp_path: Path) -> None:
    plain = cli("config").worked().out
    assert yaml.safe_load(plain)["model"]["encoder"]
    assert "# model.encoder_options of bilstm" in plain
    resolved = yaml.safe_load(cli("config", "--set", "model.encoder=bilstm", "--set", "seed=7").worked().out)
    assert resolved["seed"] == 7
    assert set(resolved["model"]["encoder_options"]) == {"embedding", "hidden", "layers", "cell"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(resolved), encoding="utf-8")
    again = cli("config", "--config", tmp_path / "mine.yaml", "--set", "seed=8").worked().out
    assert yaml.safe_load(again) == {**resolved, "seed": 8}
    assert yaml.safe_load(cli("config", "--config", tmp_path / "mine.yaml").worked().out) == resolved


EXAMPLE = ["--labels", "A,B,C,D", "--targets", "A,B,D", "--predictions", "B,C,A,D"]


def test_explain_ocd_is_the_example_of_the_paper(cli: Cli) -> None:
    steps = json.loads(cli("explain-ocd", *EXAMPLE, "--json").worked().out)["steps"]
    assert [step["targets"] for step in steps] == [["A", "B", "D"], ["A", "D"], ["A", "D"], ["D"], ["<eos>"]]
    third, half = pytest.approx(1 / 3), pytest.approx(1 / 2)
    assert [step["policy"] for step in steps] == [
        [third, third, 0, third, 0],
        [half, 0, 0, half, 0],
        [half, 0, 0, half, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]
    plain = cli("explain-ocd", *EXAMPLE).worked().out
    assert "A, B, D" in plain
    assert "<eos>" in plain


def test_explain_ocd_with_a_temperature(cli: Cli) -> None:
    """At the first step a right label loses nothing, the wrong one 1, and ending the three that are missing."""
    explanation = json.loads(cli("explain-ocd", *EXAMPLE, "--temperature", "0.5", "--json").worked().out)
    weights = [math.exp(q / 0.5) for q in (0, 0, -1, 0, -3)]
    assert explanation["steps"][0]["policy"] == pytest.approx([weight / sum(weights) for weight in weights])


def test_split(cli: Cli, toy: Toy, tmp_path: Path) -> None:
    outs = [tmp_path / name for name in ("a.jsonl", "b.csv", "c.parquet")]
    parts = ["--out", outs[0], "--fraction", 0.6, "--out", outs[1], "--fraction", 0.2, "--out", outs[2], "--fraction"]
    sizes = json.loads(cli("split", toy.train, *parts, 0.2, "--json").worked().out)
    assert sizes == {str(outs[0]): 120, str(outs[1]): 40, str(outs[2]): 40}
    found = ids(outs[0])
    found += [row["id"] for row in csv.DictReader(outs[1].read_text(encoding="utf-8").splitlines())]
    found += pq.read_table(outs[2])["id"].to_pylist()
    assert sorted(found) == sorted(ids(toy.train))
    for out in outs:
        out.unlink()
    assert "120 examples" in cli("split", toy.train, *parts, 0.2).worked().out
    cli("split", toy.train, *parts, 0.2).refused(outs[0], "already exists")


def test_toy(cli: Cli, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        cli("toy", "--out", tmp_path / name, "--seed", seed).worked()
    parts = ["train.jsonl", "valid.jsonl", "test.jsonl", "new.jsonl"]
    assert files_below(tmp_path / "a") == sorted(parts)
    for part in parts:
        assert (tmp_path / "a" / part).read_bytes() == (tmp_path / "b" / part).read_bytes()
    assert (tmp_path / "a" / "train.jsonl").read_bytes() != (tmp_path / "c" / "train.jsonl").read_bytes()


def test_help_of_every_command(cli: Cli) -> None:
    commands = ["train", "evaluate", "predict", "inspect", "split", "config", "explain-ocd", "toy", "demo"]
    front = cli("--help").worked().out
    for command in commands:
        assert command in front
        assert "Usage" in cli(command, "--help").worked().out


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from orderfree.cli.main import app; app(['--help'], standalone_mode=False); "
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(), capture_output=True)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_help_lists_every_target() -> None:
    root = Path(__file__).parents[2]
    listed = subprocess.run(["make", "help"], cwd=root, check=True, capture_output=True, text=True).stdout
    lines = (root / "Makefile").read_text(encoding="utf-8").splitlines()
    targets = next(line for line in lines if line.startswith(".PHONY:")).split()[1:]
    for target in targets:
        assert f"make {target}" in listed


def test_usage_errors_end_with_2(cli: Cli) -> None:
    for arguments in (["trian"], ["train"], ["split", "x.jsonl", "--fraction", "half", "--out", "y.jsonl"]):
        ended = cli(*arguments)
        assert ended.code == 2
        assert "Traceback" not in ended.err
