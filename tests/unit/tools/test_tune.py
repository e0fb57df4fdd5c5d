"""The search for settings: its space, and that stopping it changes nothing."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from orderfree.build import load_config
from orderfree.config import DataConfig
from orderfree.data.writers import write_examples
from orderfree.errors import ConfigError, MissingLibraryError, OrderfreeError, TrainingError
from orderfree.inference import Predictor
from orderfree.nn.encoders import encoders
from orderfree.report.study import render_study
from orderfree.testing.toy import toy_corpus
from orderfree.tools.tune import trials
from orderfree.tools.tune.space import Dimension, read_space, usual_space
from orderfree.tools.tune.study_file import best_trial, write_record
from orderfree.tools.tune.trials import Plan, importances, tune
from orderfree.training.run import Interrupted

SMALL = ("model.encoder=sparse", "model.encoder_options.hidden=8", "model.decoder_hidden=8", "training.epochs=3")
SPACE = """
training.learning_rate: {low: 1e-3, high: 0.03, log: true}
model.dropout: {low: 0.0, high: 0.4, step: 0.2}
training.batch_size: {choices: [32, 64]}
"""


def silent(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("study")
    corpus = toy_corpus(seed=1, train=80, valid=30, test=1)
    for part, examples in (("train", corpus.train), ("valid", corpus.valid)):
        write_examples(examples, folder / f"{part}.jsonl", "jsonl", DataConfig())
    (folder / "space.yaml").write_text(SPACE, encoding="utf-8")
    settings = (*SMALL, "training.tensorboard=false", "training.threads=1")
    return Plan(
        folder / "train.jsonl", folder / "valid.jsonl", folder / "out", 4, "micro_f1", settings=settings,
        space=folder / "space.yaml",
    )  # fmt: skip


@pytest.fixture(scope="module")
def record(plan: Plan) -> dict[str, Any]:
    """A search of four trials that nobody stopped."""
    return tune(plan, silent)


def told(record: dict[str, Any]) -> list[Any]:
    """Everything but the time it took, as it reads back."""
    kept = ("number", "state", "values", "score", "decoder", "curve")
    trials: list[Any] = json.loads(json.dumps([[trial[key] for key in kept] for trial in record["trials"]]))
    return trials


def test_the_best_trial_is_the_model(plan: Plan, record: dict[str, Any]) -> None:
    best = best_trial(record)
    assert best is not None
    assert best["score"] == max(trial["score"] for trial in record["trials"])
    predictor = Predictor.load(plan.out)
    assert predictor.trained.metrics["decided"]["micro_f1"] == best["score"]
    assert predictor.trained.config == load_config(plan.out / "best.yaml"), "usable with --config"
    assert predictor.trained.config.training.learning_rate == best["values"]["training.learning_rate"]
    assert predictor.trained.config.training.select_metric == "micro_f1"
    assert not list((plan.out / "trials").iterdir()), "no other model is kept"


def test_the_first_trial_has_the_settings_given(record: dict[str, Any]) -> None:
    values = record["trials"][0]["values"]
    assert values == {
        "training.learning_rate": 0.003,
        "model.dropout": values["model.dropout"],
        "training.batch_size": 64,
    }
    assert values["model.dropout"] == 0.2


def test_every_suggestion_lies_in_the_space(record: dict[str, Any]) -> None:
    for trial in record["trials"]:
        rate, dropout, size = trial["values"].values()
        assert 1e-3 <= rate <= 0.03
        assert dropout in (0.0, 0.2, 0.4)
        assert size in (32, 64)
    assert len({json.dumps(trial["values"]) for trial in record["trials"]}) == 4


@pytest.mark.parametrize("first", [1, 3])
def test_a_search_in_two_calls_is_the_search_in_one(
    plan: Plan, record: dict[str, Any], tmp_path: Path, first: int
) -> None:
    own = replace(plan, out=tmp_path / "out")
    tune(replace(own, trials=first), silent)
    assert told(tune(own, silent)) == told(record)
    assert (own.out / "model.safetensors").read_bytes() == (plan.out / "model.safetensors").read_bytes()
    again = tune(own, silent)
    assert told(again) == told(record), "there is nothing left to do"


def test_a_trial_that_was_stopped_goes_on(
    plan: Plan, record: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the second epoch of the second trial, with its state saved."""
    own = replace(plan, out=tmp_path / "out")
    report = trials.Pruning._report

    def stopping(self: trials.Pruning, row: dict[str, Any]) -> bool:
        if self.trial.number == 1 and row["epoch"] == 2:
            self.stop.requested = True
        return report(self, row)

    with monkeypatch.context() as patched:
        patched.setattr(trials.Pruning, "_report", stopping)
        with pytest.raises(Interrupted):
            tune(own, silent)
    kept = json.loads((own.out / "study.json").read_text(encoding="utf-8"))
    assert [trial["state"] for trial in kept["trials"]] == ["complete", "running"]
    assert (own.out / "trials" / "1" / "training").exists()
    assert told(tune(own, silent)) == told(record)


def test_a_trial_killed_before_its_first_state_is_repeated(plan: Plan, record: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(plan.out, out)
    kept = json.loads((out / "study.json").read_text(encoding="utf-8"))
    last = kept["trials"][3]
    kept["trials"][3] = {key: last[key] for key in ("number", "suggested", "values")} | {
        "state": "running",
        "seconds": 1.0,
    }
    (out / "study.json").write_text(json.dumps(kept), encoding="utf-8")
    (out / "trials" / "3").mkdir(parents=True)
    (out / "trials" / "3" / "half").write_text("a", encoding="utf-8")
    assert told(tune(replace(plan, out=out), silent)) == told(record)


def test_a_trial_that_fails_is_told_and_the_others_go_on(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = trials.train

    def failing(*arguments: Any, **options: Any) -> Any:
        if arguments[3].name == "0":
            raise TrainingError("the loss became nan at update 3.")
        return train(*arguments, **options)

    monkeypatch.setattr(trials, "train", failing)
    found = tune(replace(plan, out=tmp_path / "out", trials=2), silent)
    assert [trial["state"] for trial in found["trials"]] == ["failed", "complete"]
    assert "became nan" in found["trials"][0]["problem"]


def test_a_trial_below_the_median_is_cut(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "UNPRUNED_TRIALS", 1)
    monkeypatch.setattr(trials, "UNPRUNED_EPOCHS", 0)
    own = replace(plan, out=tmp_path / "out")
    found = tune(replace(own, trials=1), silent)
    found["trials"][0]["curve"] = [(epoch, 0.99) for epoch in (1, 2, 3)]  # as if it had been good at once
    write_record(own.out, found)
    second = tune(replace(own, trials=2), silent)["trials"][1]
    assert second["state"] == "pruned"
    assert [epoch for epoch, _ in second["curve"]] == [1]
    assert 0 <= second["score"] <= 1, "it has a score and may be the best all the same"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("training.lerning_rate: {low: 0.1, high: 1.0}", ["training.lerning_rate", "learning_rate"]),
        ("training.learning_rate: {low: -1.0, high: 1.0}", ["training.learning_rate = -1", "greater than 0"]),
        ("training.learning_rate: {low: 2.0, high: 1.0}", ["training.learning_rate", "low below high"]),
        ("training.learning_rate: {low: 0.0, high: 1.0, log: true}", ["training.learning_rate", "positive low"]),
        ("training.learning_rate: {low: 0.1}", ["training.learning_rate", "low and high"]),
        ("training.learning_rate: 0.1", ["training.learning_rate", "0.1"]),
        ("training.learning_rate: {min: 0.1, high: 1.0}", ["training.learning_rate", "'min'"]),
        ("training.batch_size: {choices: [32, large]}", ["training.batch_size = 'large'", "integer"]),
        ("training.batch_size: {choices: [32], step: 2}", ["training.batch_size", "not for choices"]),
        ("model.encoder_options.no_such: {choices: [1]}", ["model.encoder_options.no_such"]),
        ("", ["names no key"]),
        ("- a", ["expected keys and values"]),
    ],
)
def test_a_wrong_space_is_one_sentence(plan: Plan, tmp_path: Path, text: str, parts: list[str]) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        read_space(path, plan.with_values)
    message = str(refused.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("given", "value", "suggested"),
    [
        ({"low": 0, "high": 1}, 0.2, None),  # whole numbers only: the search would never give it
        ({"low": 0, "high": 4}, 2.0, 2),
        ({"low": 0.0, "high": 1.0}, 0.2, 0.2),
        ({"choices": [1, 2]}, 1.0, "1"),
        ({"choices": [0.5, 2.0]}, 2, "2.0"),
        ({"choices": [1, 2]}, 3, None),
    ],
)
def test_a_setting_is_suggested_as_the_search_would(given: dict[str, Any], value: Any, suggested: Any) -> None:
    dimension = Dimension.model_validate(given)
    found = dimension.suggestion(value)
    assert found == suggested
    assert type(found) is type(suggested)
    if suggested is not None:
        distribution = dimension.distribution()
        assert distribution._contains(distribution.to_internal_repr(found))


def test_an_encoder_of_ones_own_needs_a_space() -> None:
    config = load_config(None, [], None)
    config.model.encoder = "ones_own"
    with pytest.raises(ConfigError, match=r"no built-in space for model\.encoder=ones_own; give one with --space"):
        usual_space(config)


def test_choices_may_be_anything_yaml_can_say() -> None:
    dimension = Dimension(choices=[None, [8, 40], "joint", 1])
    given = [dimension.suggestion(choice) for choice in (None, [8, 40], "joint", 1)]
    assert [dimension.value(one) for one in given] == [None, [8, 40], "joint", 1]
    assert dimension.suggestion([8]) is None
    assert Dimension(low=0.0, high=1.0, step=0.25).suggestion(0.3) is None


@pytest.mark.parametrize("name", [*encoders])
def test_the_built_in_space_fits_every_encoder(name: str) -> None:
    options = {"hybrid": ["model.encoder_options.parts={sparse: {}, bilstm: {}}"]}.get(name, [])
    settings = [f"model.encoder={name}", *options]
    config = load_config(None, settings)
    space = usual_space(config)
    for key, dimension in space.items():
        for value in dimension.ends:
            load_config(None, [*settings, f"{key}={json.dumps(value)}"])
    alone = usual_space(load_config(None, [*settings, "objective.sequence=null"]))
    assert not {"objective.br_weight", "model.decoder_hidden"} & set(alone)


def test_another_search_is_refused(plan: Plan, record: dict[str, Any], tmp_path: Path) -> None:
    before = (plan.out / "study.json").read_bytes()
    with pytest.raises(OrderfreeError, match="another metric"):
        tune(replace(plan, metric="macro_f1"), silent)
    with pytest.raises(OrderfreeError, match="another config"):
        tune(replace(plan, settings=(*plan.settings, "seed=2")), silent)
    with pytest.raises(OrderfreeError, match="another space"):
        tune(replace(plan, space=None), silent)
    with pytest.raises(OrderfreeError, match="another data"):
        tune(replace(plan, valid=plan.train), silent)
    assert (plan.out / "study.json").read_bytes() == before
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(OrderfreeError, match=r"mine\.txt"):
        tune(replace(plan, out=tmp_path), silent)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_a_damaged_record_is_refused(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text('{"trials": [', encoding="utf-8")
    with pytest.raises(OrderfreeError, match="is damaged"):
        tune(replace(plan, out=tmp_path), silent)


def test_a_used_up_budget_leaves_the_rest_for_next_time(plan: Plan, tmp_path: Path) -> None:
    said: list[str] = []
    found = tune(replace(plan, out=tmp_path / "out", budget_seconds=0.0), said.append)
    assert found["trials"] == []
    assert "budget is used up" in said[-1]


def test_without_optuna(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingLibraryError, match=r"orderfree\[tune\]"):
        tune(replace(plan, out=tmp_path / "out"), silent)
    assert not (tmp_path / "out").exists()


def test_what_mattered_adds_up_to_one(record: dict[str, Any]) -> None:
    shares = importances(record)
    assert set(shares) == set(record["space"])
    assert sum(shares.values()) == pytest.approx(1)
    assert importances({**record, "trials": record["trials"][:3]}) == {}


def test_the_page_shows_every_trial_and_escapes_everything(record: dict[str, Any]) -> None:
    hostile = "<script>alert(1)</script>"
    failed = {**record["trials"][1], "number": 4, "state": "failed", "problem": hostile}
    del failed["score"]
    own = {**record, "trials": [*record["trials"], failed]}
    best = best_trial(record)
    assert best is not None
    page = render_study(own, best, {hostile: 1.0}, f"a: {hostile}", f"orderfree tune {hostile}")
    assert hostile not in page
    assert page.count("&lt;script&gt;alert(1)") == 4
    assert f"with trial {best['number'] + 1}" in page
    reader = _Rows()
    reader.feed(page[page.index('id="trials"') :])
    assert reader.rows == 1 + 5


class _Rows(HTMLParser):
    rows = 0

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.rows += tag == "tr"
