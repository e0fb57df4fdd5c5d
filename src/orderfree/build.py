"""The only place where a config becomes objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sized
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .config import BagOptions, Config, ModelConfig, Section, check
from .data.featurizers import Featurizer, InputSize, kinds
from .data.labels import LabelVocabulary
from .decoding.beam import Limits
from .decoding.search import searches
from .errors import ConfigError, MissingLibraryError, OrderfreeError, nearest
from .nn import chain_decoder, residual_decoder, seq2set_decoder, sgm_decoder  # noqa: F401  (each registers itself)
from .nn.br_decoder import br_decoders
from .nn.encoders import encoders
from .nn.label_decoder import label_decoders
from .nn.model import OrderFreeModel
from .objectives import SequenceObjective, objectives
from .objectives.multitask import Criterion
from .system.plugins import failures, load_plugins
from .system.precision import BFLOAT16, FLOAT32, embedding_precision
from .system.raw_config import apply_setting, read_yaml
from .system.registry import Registry

REAL_SHARE = 0.05  # of training examples without labels: fewer are taken for gaps in a table, and not predicted
PRESETS = Path(__file__).parent / "presets"
DEFAULT_PRESET = "fast"
MOST_PROBLEMS = 20  # of a config that are told
FORMER = {("training", "select_decoder"): None, ("decoding", "merge_sets"): False}  # as this version always does


def load_config(
    path: Path | None = None,
    settings: list[str] | None = None,
    preset: str | None = None,
    plugins: Iterable[str] = (),
) -> Config:
    """The config of a file, of a preset, or where neither is given of the preset that is the default; with `key=value`
    settings over it, complete and checked; all problems in one error. `plugins`: modules that register parts."""
    load_plugins(plugins)
    if preset is not None and path is not None:
        raise ConfigError(
            "a preset and a config file each define all settings; give one of them, and change single keys with --set."
        )
    raw = read_yaml(path) if path is not None else _preset(preset or DEFAULT_PRESET)
    given: dict[str, Any] = {}
    for setting in settings or []:
        apply_setting(given, setting)
    if path is None:  # what a preset says of its encoder and its objective means nothing to others
        model, objective = _section(raw, "model"), _section(raw, "objective")
        encoder, sequence = model.get("encoder"), objective.get("sequence")
        if another := _section(given, "model").get("encoder", encoder) != encoder:
            model.pop("encoder_options", None)
        if another or _section(given, "objective").get("sequence", sequence) != sequence:
            objective.pop("sequence_options", None)
    for setting in settings or []:
        apply_setting(raw, setting)
    return complete_config(raw, str(path) if path is not None else "the configuration")


def _preset(name: str) -> dict[str, Any]:
    known = sorted(file.stem for file in PRESETS.glob("*.yaml"))
    if name not in known:
        raise ConfigError(f"unknown preset {name!r}; known: {', '.join(known)}.{nearest(name, known)}")
    raw = read_yaml(PRESETS / f"{name}.yaml")
    base = raw.pop("extends", None)
    return raw if base is None else _merged(_preset(base), raw)


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The base with changes over it, section by section."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def as_config(given: Config | Mapping[str, Any]) -> Config:
    """A config, or one made from its sections: `{"model": {"encoder": "sparse"}}`."""
    if isinstance(given, Config):
        return given
    if isinstance(given, Mapping):
        return complete_config(dict(given), "the configuration")
    raise ConfigError(
        f"the config is {given!r}, expected what load_config returns, or a dict of sections such as "
        '{"training": {"epochs": 5}}; load_config(path) reads a YAML file.'
    )


def stored_config(raw: dict[str, Any], source: str) -> Config:
    """The config of a directory that an earlier version may have written, with keys that are gone since."""
    for (section, key), usual in FORMER.items():
        if key in _section(raw, section) and raw[section][key] == usual:
            del raw[section][key]
    return complete_config(raw, source)


def complete_config(raw: dict[str, Any], source: str) -> Config:
    """Fills in every default, the options of the chosen encoder and objective included."""
    config, problems = check(Config, raw)
    model, objective = _section(raw, "model"), _section(raw, "objective")
    encoder = model.get("encoder", Config().model.encoder)
    encoder_options, found = _options(encoders, encoder, model.get("encoder_options"), "model.encoder_options")
    problems += found
    objective_options = {}
    for key, default in (("sequence", Config().objective.sequence), ("second", None)):
        name = objective.get(key, default)
        if name is not None:
            where = f"{key}_options"
            objective_options[where], found = _options(objectives, name, objective.get(where), f"objective.{where}")
            problems += found
    if config is not None and encoder_options is not None:
        config.model.encoder_options = encoder_options.model_dump()
        unknown = _unknown_decoders(config.model)
        problems += unknown
        if not unknown:
            _choose_decoders(config)
            problems += _contradictions(config)
    if problems or config is None:
        shown = [f"  - {problem}" for problem in problems[:MOST_PROBLEMS]]
        shown += ["  - …"] * (len(problems) > len(shown))
        raise ConfigError(f"{source} has {len(problems):,} problem(s):\n" + "\n".join(shown))
    for where in ("sequence_options", "second_options"):
        options = objective_options.get(where)
        setattr(config.objective, where, options.model_dump() if options is not None else {})
    return config


def scores_labels(config: Config) -> bool:
    """Whether the encoder scores labels before any training, or one of its parts does."""
    declared = getattr(encoders[config.model.encoder], "scores_labels", False)
    return bool(getattr(encoder_options(config), "scores_labels", declared))


def _unknown_decoders(settings: ModelConfig) -> list[str]:
    problems = []
    for key, registry in (("label_decoder", label_decoders), ("br_decoder", br_decoders)):
        name = getattr(settings, key)
        if name is not None and name not in registry:
            known = registry.names()
            problems.append(f"model.{key}: expected {', '.join(known)} or null, found {name!r}.{nearest(name, known)}")
    return problems


def _choose_decoders(config: Config) -> None:
    """Where the config leaves them open: corrections of label scores where there are some."""
    settings, scored = config.model, scores_labels(config)
    settings.label_decoder = settings.label_decoder or ("residual" if scored else "lstm")
    if settings.br_decoder is None:
        settings.br_decoder = "residual" if scored else getattr(encoders[settings.encoder], "br_decoder", "mlp")


def _section(raw: dict[str, Any], name: str) -> dict[str, Any]:
    section = raw.get(name)
    return section if isinstance(section, dict) else {}


def _options(registry: Any, name: Any, raw: Any, prefix: str) -> tuple[Section | None, list[str]]:
    try:
        entry = registry[name]
    except TypeError:  # no name at all; the check of the key itself has said so
        return None, []
    except ConfigError as error:
        return None, [str(error)]
    return check(entry.Options, raw or {}, prefix)


def _contradictions(config: Config) -> list[str]:
    """Keys that are fine alone but not together."""
    if config.objective.sequence is None and config.objective.br_weight == 0:
        return ["objective.sequence is null and objective.br_weight is 0: nothing would be trained; set one of them."]
    problems = [*_objective_problems(config), *_score_problems(config), *_batch_problems(config)]
    if config.data.vggish_pca is not None and config.data.vggish is None:
        problems.append("data.vggish_pca: components are of VGGish embeddings; name its weights with data.vggish.")
    available = decoders_of(config, shortlisted=scores_labels(config))  # how many labels there are is not known yet
    name = config.decoding.decoder
    if name is not None and not (name in searches and name in available):
        problems.append(f"decoding.decoder: {name!r} is not a decoder of this model; it has {', '.join(available)}.")
    most = config.decoding.max_labels
    if most is not None and most < (config.decoding.min_labels or 0):
        problems.append(f"decoding.max_labels ({most}) is below decoding.min_labels ({config.decoding.min_labels}).")
    return problems


def _objective_problems(config: Config) -> list[str]:
    """What the label decoder cannot be trained with."""
    settings, name = config.objective, config.model.label_decoder
    decoder, problems = label_decoders[name or "lstm"], []
    if settings.sequence is None and settings.second is not None:
        problems.append("objective.second needs objective.sequence: it is trained beside it.")
    frequent_first = settings.sequence_options.get("order", "frequent_first") == "frequent_first"
    in_order = settings.sequence in (None, "mle") and frequent_first and settings.second is None
    if decoder.fixed_order and not in_order:
        problems.append(
            f"model.label_decoder={name} goes from frequent labels to rare and says each once: "
            "it needs objective.sequence=mle with order frequent_first, and no second objective."
        )
    if settings.sampled_labels and settings.sequence is None:
        problems.append("objective.sampled_labels is for the label decoder, and objective.sequence=null means none.")
    elif settings.sampled_labels and decoder.reads_all_labels:
        problems.append(f"objective.sampled_labels: model.label_decoder={name} reads all labels.")
    return problems


def _score_problems(config: Config) -> list[str]:
    """Decoders that correct or repeat label scores, under an encoder that has none."""
    settings = config.model
    if scores_labels(config):
        return []
    scoring = [name for name in encoders.names() if getattr(encoders[name], "scores_labels", False)]
    wanted = " or ".join(f"model.encoder={name}" for name in scoring)
    return [
        f"model.{key}={name} needs {wanted}: {settings.encoder} does not score labels."
        for key, name, needs_scores in (
            ("label_decoder", settings.label_decoder, label_decoders[settings.label_decoder or "lstm"].needs_scores),
            ("br_decoder", settings.br_decoder, br_decoders[settings.br_decoder or "mlp"].needs_scores),
        )
        if needs_scores
    ]


def _batch_problems(config: Config) -> list[str]:
    settings = config.model
    if config.training.batch_size > 1:
        return []
    normalising = {
        f"model.encoder={settings.encoder}": getattr(encoders[settings.encoder], "normalises_batches", False),
        "model.br_batch_norm": settings.br_batch_norm and settings.br_layers > 0,
    }
    return [
        f"{key} needs training.batch_size of at least 2: one example has no spread."
        for key, needs_two in normalising.items()
        if needs_two
    ]


def decoders_of(config: Config, shortlisted: bool = False) -> tuple[str, ...]:
    """The decoders a model of this config can be searched with, in the order of the paper's tables. shortlisted: it has
    so many labels that each example is scored on a shortlist of them."""
    sequence, br = config.objective.sequence is not None, config.objective.br_weight > 0
    # where the scores are what binary relevance says, that is enough
    scored = scores_labels(config) and not br_decoders[config.model.br_decoder or "mlp"].repeats_scores
    return tuple(
        name
        for name, search in ((name, searches[name]) for name in searches)
        if (sequence or not search.needs_sequence)
        and (br or not search.needs_br)
        and (scored or not search.needs_scores)
        and (shortlisted or not search.needs_sets)
    )


def preferred_decoder(config: Config) -> str:
    """Before validation has chosen one: joint where the model has both decoders, else that of the one it has."""
    return next(name for name in ("joint", "beam", "br") if name in decoders_of(config))


def plugin_parts(config: Config) -> list[dict[str, str]]:
    """The parts of a model with this config that are from plugins: kind, name and module of each."""
    model, objective = config.model, config.objective
    used: list[tuple[Registry[Any], str | None]] = [
        (encoders, model.encoder),
        (label_decoders, model.label_decoder),
        (br_decoders, model.br_decoder),
        (objectives, objective.sequence),
        (objectives, objective.second),
        *((searches, name) for name in decoders_of(config)),
    ]
    modules = [(registry.kind, name, registry.plugin(name)) for registry, name in used if name is not None]
    return [{"kind": kind, "name": name, "module": module} for kind, name, module in modules if module is not None]


def check_plugins(parts: list[dict[str, str]], owner: str) -> None:
    """Refuses what needs parts that nothing has registered."""
    registries = (encoders, label_decoders, br_decoders, objectives, searches)
    by_kind: dict[str, Registry[Any]] = {registry.kind: registry for registry in registries}
    for part in parts:
        if part["name"] not in by_kind[part["kind"]]:
            module = part["module"]
            raise MissingLibraryError(
                f"{owner}: needs the {part['kind']} {part['name']!r} of the plugin {module!r}, which is not there; "
                f"install its package, or name the module with --plugin {module} "
                f"(in Python plugins=[{module!r}]).{failures()}"
            )


def is_shortlisted(network: OrderFreeModel) -> bool:
    """Whether this model scores each example on a shortlist of labels only."""
    return bool(getattr(network.encoder, "shortlisted", False))


def check_decoder(available: Collection[str], name: str) -> None:
    searches[name]  # an unknown name is answered with the list of all
    if name not in available:
        raise OrderfreeError(
            f"this model cannot be decoded with {name!r}: it has {', '.join(available)} "
            "(joint and rescore need both the label decoder and the binary-relevance decoder, neighbour_sets needs "
            "thousands of labels)."
        )


def encoder_options(config: Config) -> Section:
    entry = encoders[config.model.encoder]
    options: Section = entry.Options.model_validate(config.model.encoder_options)  # type: ignore[attr-defined]
    return options


def precision_needed(config: Config) -> str:
    """bfloat16 where training or the embedding of texts multiplies in it: the processor keeps its instructions then."""
    options = encoder_options(config)
    parts = getattr(options, "part_options", {"": options}).values()
    embedding = [part.embedding_precision for part in parts if isinstance(part, BagOptions) and part.embeddings]
    found = {config.training.precision, *map(embedding_precision, embedding)}
    return BFLOAT16 if BFLOAT16 in found else FLOAT32


def featurizer_class(config: Config) -> type[Featurizer]:
    return kinds()[input_kind(config)]


def input_kind(config: Config) -> str:
    """What the encoder is fed; where that depends on its options, they say it."""
    kind: str = encoders[config.model.encoder].input_kind  # type: ignore[attr-defined]
    return getattr(encoder_options(config), "input_kind", kind)


def build_network(config: Config, input_size: InputSize, num_labels: int) -> OrderFreeModel:
    settings = config.model
    encoder = encoders[settings.encoder](encoder_options(config), input_size, settings.dropout, num_labels)
    sizes = (settings, num_labels, encoder.output_size)
    sequence, br = config.objective.sequence is not None, config.objective.br_weight > 0
    label_decoder: Any = label_decoders[settings.label_decoder or "lstm"].from_config(*sizes) if sequence else None
    br_decoder = br_decoders[settings.br_decoder or "mlp"].from_config(*sizes) if br else None
    return OrderFreeModel(encoder, label_decoder, br_decoder, num_labels)


def build_criterion(config: Config, labels: Sized) -> Criterion:
    """What training minimises; `labels` are numbered from frequent to rare."""
    settings, rank = config.objective, torch.arange(len(labels) + 1)  # (L + 1,)
    return Criterion(
        _objective(settings.sequence, settings.sequence_options, rank),
        _objective(settings.second, settings.second_options, rank),
        settings,
    )


def _objective(name: str | None, options: dict[str, Any], rank: Tensor) -> SequenceObjective | None:
    if name is None:
        return None
    entry = objectives[name]
    objective: SequenceObjective = entry(entry.Options.model_validate(options), rank)  # type: ignore[attr-defined]
    return objective


def search_limits(config: Config, labels: LabelVocabulary) -> Limits:
    fewest = config.decoding.min_labels
    if fewest is None:
        fewest = 0 if labels.empty_share >= REAL_SHARE else 1
    fewest = min(fewest, len(labels))
    most = min(config.decoding.max_labels or labels.longest_set + 2, len(labels))
    decoding = config.decoding
    return Limits(decoding.beam_width, fewest, max(most, fewest), decoding.renormalise, decoding.br_power)
