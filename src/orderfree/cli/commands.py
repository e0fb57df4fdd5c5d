"""The commands. Each is thin: options in, one call, output out."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import OrderfreeError
from ..system.wording import counted
from .closing import expectation, next_command, warn_of_unseen_labels
from .common import (
    AsJson,
    ConfigFile,
    Decode,
    Format,
    HierarchyFile,
    LabelsColumn,
    OptimizeFor,
    Preset,
    RunDirectory,
    Separator,
    Settings,
    SkipBad,
    TextColumns,
    Thresholds,
    comma_separated,
    data_config,
    judged_decoders,
    model_files,
    open_run,
    print_at_k,
    print_ranking,
    print_scores,
    print_validation,
    read_hierarchy,
    reading,
    refuse_own_input,
    say,
    table_settings,
    warn_of_own_examples,
    write_run_report,
)

if TYPE_CHECKING:
    from ..config import Config
    from ..decisions.records import Decision


def train(
    train_file: Annotated[Path, typer.Argument(metavar="TRAIN", help="Texts, features or sounds with labels.")],
    out: Annotated[Path, typer.Option("--out", help="Directory to write the run to.")],
    valid: Annotated[
        Path | None, typer.Option("--valid", help="Validation file; by default a tenth of TRAIN is held out.")
    ] = None,
    text: TextColumns = None,
    labels: LabelsColumn = None,
    separator: Separator = None,
    config: ConfigFile = None,
    preset: Preset = None,
    settings: Settings = None,
    format: Format = None,
    warm_start: Annotated[
        Path | None,
        typer.Option("--warm-start", metavar="RUN", help="Start from an earlier model; new labels are allowed."),
    ] = None,
    skip_bad: SkipBad = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the interrupted run in --out exactly.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on a file of texts and labels, on features, or on a folder of sounds."""
    from ..training.distributed.processes import Team
    from ..training.run import Interrupted
    from ..training.run import train as train_run

    if str(train_file) == "-":
        raise OrderfreeError("training reads its file several times; give a file instead of standard input.")
    settings = [*(settings or []), *table_settings(text, labels, separator)]
    settings += [f"data.format={format}"] if format else []
    settings += ["data.skip_bad=true"] * skip_bad
    if resume and (config or settings or preset):
        say("--resume continues with the settings of the interrupted run; the settings given now are ignored")
    chosen = _config(config, settings, preset, warm_start)
    before = None if resume else warm_start
    try:
        trained = train_run(chosen, train_file, valid, out, resume, overwrite, before, say=say, progress=True)
    except Interrupted as stopped:
        if Team.join().leads:
            again = ["orderfree", "train", train_file, "--out", out, *(["--valid", valid] if valid else []), "--resume"]
            say(f"orderfree: {stopped}. Continue with: {shlex.join(map(str, again))}")
        raise typer.Exit(130) from None
    if not Team.join().leads:  # one process speaks for all
        return
    if as_json:
        print(json.dumps({"out": str(out), **trained.metrics, **trained.decisions.to_json()}))
        return
    print("Scores of the best checkpoint on the validation examples:")
    print_validation(trained.metrics)
    print(f"Model written to {out}")
    print(expectation(trained))
    print(next_command(out, train_file))


def _config(config: Path | None, settings: list[str], preset: str | None, warm_start: Path | None) -> Config:
    from ..build import load_config

    if warm_start is None:
        return load_config(config, settings, preset)
    if config or preset:
        raise OrderfreeError("--warm-start uses the config of the earlier model; change it with --set only.")
    from ..checkpoint import load_model
    from ..training.warm import warm_config

    return warm_config(load_model(warm_start).config, settings)


def evaluate(
    run: RunDirectory,
    test_file: Annotated[Path, typer.Argument(metavar="TEST", help="Labelled examples.")],
    text: TextColumns = None,
    labels: LabelsColumn = None,
    separator: Separator = None,
    decode: Decode = None,
    optimize_for: OptimizeFor = None,
    thresholds: Thresholds = None,
    hierarchy: HierarchyFile = None,
    settings: Settings = None,
    format: Format = None,
    skip_bad: SkipBad = False,
    report: Annotated[Path | None, typer.Option("--report", help="Write a self-contained HTML report here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score a model on labelled data, for every decoder and for the decision chosen for each metric."""
    from ..report.examples import evaluate_with_examples

    predictor, data = open_run(run, [*(settings or []), *table_settings(text, labels, separator)], format, skip_bad)
    decoders = judged_decoders(predictor, decode, optimize_for, thresholds)
    refuse_own_input(report, test_file, data, hierarchy, *model_files(run, predictor))
    examples = reading(test_file, data, labelled=True, noun="texts to evaluate", predictor=predictor)
    judged = evaluate_with_examples(predictor, examples, decoders, read_hierarchy(hierarchy, predictor))
    found = {"model": str(run), "data": str(test_file), **judged}
    if report is not None:
        write_run_report(report, run, found, predictor, f"orderfree evaluate {run} {found['data']} --report {report}")
    warn_of_own_examples(run, predictor, test_file)
    warn_of_unseen_labels(found["unseen_labels"], predictor.labels.names)
    if found["truncated"]:
        cut = counted(found["truncated"], "text was", "texts were")
        say(f"{cut} truncated to {predictor.trained.config.data.max_words:,} words")
    if found["shift"] is not None:
        say(("warning: " if found["shift"]["shifted"] else "") + found["shift"]["sentence"])
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
        return
    print(f"{found['examples']:,} examples, {found['labels']:,} labels")
    print_scores(found["decoders"], predictor.default_decoder)
    print_ranking(found["ranking"])
    print_at_k(found["at_k"])
    if report is not None:
        print(f"Report written to {report}")


def inspect(run: RunDirectory, as_json: AsJson = False) -> None:
    """Show what a model is: labels, sizes, thresholds, config, data fingerprint, versions."""
    from ..checkpoint import load_model
    from ..data.featurizers import feature_count

    trained = load_model(run)
    content: dict[str, Any] = {
        "labels": dict(zip(trained.labels.names, trained.labels.counts, strict=True)),
        "training_label_sets": len(trained.labels.combinations),
        "parameters": trained.network.parameter_count(),
        "input_features": feature_count(trained.featurizer),
        **trained.decisions.to_json(),
        "named_thresholds": trained.decisions.stored_later()["thresholds"],
        "promises": {name: promise.sentence for name, promise in trained.decisions.promises.items()},
        "metrics": trained.metrics,
        "provenance": {key: _without_sample(value) for key, value in trained.provenance.items()},
        "config": trained.config.model_dump(),
    }
    if as_json:
        print(json.dumps(content, ensure_ascii=False))
        return
    import yaml

    names = list(content["labels"].items())
    shown = ", ".join(f"{name} ({count:,})" for name, count in names[:20])
    print(
        f"{len(names):,} labels, in {content['training_label_sets']:,} different sets: {shown}"
        + " …" * (len(names) > 20)
    )
    print(f"{content['parameters']:,} parameters, {content['input_features']:,} input features")
    for metric, decision in trained.decisions.best.items():
        print(f"best for {metric}: {decision.search}{_tuned(decision)}")
    for name, found in trained.decisions.named.items():
        print(f"thresholds {name}: {found.decoder} for {found.goal}, found on {found.examples:,} examples")
    for name, sentence in content["promises"].items():
        print(f"promise {name}: {sentence}")
    print("\nValidation scores:")
    print_validation(trained.metrics)
    print("\n" + yaml.safe_dump({"provenance": content["provenance"], "config": content["config"]}, sort_keys=False))


def split(
    input_file: Annotated[Path, typer.Argument(metavar="INPUT", help="Labelled examples.")],
    out: Annotated[list[Path], typer.Option("--out", help="A file to write; give one per part.")],
    fraction: Annotated[list[float], typer.Option("--fraction", help="Share of each part, in the order of --out.")],
    seed: Annotated[int, typer.Option("--seed", help="Seed of the split.")] = 1,
    text: TextColumns = None,
    labels: LabelsColumn = None,
    separator: Separator = None,
    format: Format = None,
    settings: Settings = None,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
) -> None:
    """Split labelled data into parts in which every label has its share (stratified)."""
    from .split import split_file

    settings = [*(settings or []), *table_settings(text, labels, separator), *["data.skip_bad=true"] * skip_bad]
    sizes = split_file(input_file, out, fraction, seed, data_config(settings, format), say)
    if as_json:
        print(json.dumps({str(path): size for path, size in zip(out, sizes, strict=True)}))
        return
    for path, size in zip(out, sizes, strict=True):
        print(f"{path}: {size:,} examples")


def config(settings: Settings = None, config: ConfigFile = None, preset: Preset = None) -> None:
    """Print every config key with its meaning and default (or, with --config/--preset/--set, a resolved config)."""
    import yaml

    from ..build import load_config
    from ..config import Config, describe
    from ..nn.encoders import encoders
    from ..objectives import objectives

    if settings or config or preset:
        print(yaml.safe_dump(load_config(config, settings, preset).model_dump(), sort_keys=False), end="")
        return
    print(
        "# Defaults of keys that a --config file does not set. Without such a file, `train` starts from --preset fast."
    )
    print(describe(Config))
    for key, registry in (("model.encoder_options", encoders), ("objective.sequence_options", objectives)):
        for name in registry:
            options = registry[name].Options  # type: ignore[attr-defined]
            print(f"\n# {key} of {name}: {options.__doc__}")
            print("\n".join(f"#   {line}" for line in describe(options).splitlines()))


def explain_ocd(
    labels: Annotated[str, typer.Option("--labels", help="All labels, separated by commas.")],
    targets: Annotated[str, typer.Option("--targets", help="The labels that are right.")],
    predictions: Annotated[str, typer.Option("--predictions", help="The sequence the model sampled.")],
    temperature: Annotated[float, typer.Option("--temperature", help="tau of Eq. 9; 0 is the hard limit.")] = 0.0,
    reward: Annotated[str, typer.Option("--reward", help="hamming (Eq. 7) or example_f1.")] = "hamming",
    as_json: AsJson = False,
) -> None:
    """Show OCD's targets, Q*, optimal policy and reward at every step of a sampled sequence."""
    from .explain import explain, print_explanation

    explanation = explain(
        comma_separated(labels), comma_separated(targets), comma_separated(predictions), temperature, reward
    )
    if as_json:
        print(json.dumps(explanation))
        return
    print_explanation(explanation)


def toy(
    out: Annotated[Path, typer.Option("--out", help="Directory to write train, valid, test and new JSONL files to.")],
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the documents.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of these names there.")] = False,
) -> None:
    """Write the built-in toy corpus: short reports with 36 labels that depend on one another."""
    from .demo import write_toy

    for path in write_toy(out, seed, overwrite):
        print(path)


def demo(
    out: Annotated[Path, typer.Option("--out", help="Directory to write corpus, run and report to.")] = Path("demo"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier demo there.")] = False,
) -> None:
    """Train on the toy corpus, evaluate every decoder, predict three new texts, write a report."""
    from .demo import run_demo

    run_demo(out, overwrite)


def _without_sample(value: Any) -> Any:
    """What is known of texts without their hashes, which are of no use to a reader."""
    return {key: part for key, part in value.items() if key != "sample"} if isinstance(value, dict) else value


def _tuned(decision: Decision) -> str:
    """What validation chose besides the search."""
    if decision.br_power is not None:
        return f" with br_power {decision.br_power:g}"
    if decision.thresholds is None:
        return ""
    each = isinstance(decision.thresholds, list)
    return " with a threshold for each label" if each else f" at {decision.thresholds:.4f}"


ALL = (train, evaluate, inspect, split, config, explain_ocd, toy, demo)
