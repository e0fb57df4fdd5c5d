"""What several commands share: options, opening a model, reading with a counter, printing tables."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import OrderfreeError

if TYPE_CHECKING:
    from ..config import DataConfig
    from ..data.hierarchy import Hierarchy
    from ..data.readers import KeptRows
    from ..inference import Predictor
    from ..types import Example

Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set one config key, e.g. model.encoder=bilstm.")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A YAML file of config keys; see `orderfree config`.")
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", help="fast (linear scores and corrections), best, audio (sounds, features) or paper."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Format = Annotated[
    str | None, typer.Option("--format", help="Format of the input; by default told from the file name.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip damaged records, sounds and features, and count them.")]
TextColumns = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="COLUMN", help="Column or field of the text; repeat it to join several."),
]
LabelsColumn = Annotated[str | None, typer.Option("--labels", metavar="COLUMN", help="Column or field of the labels.")]
Separator = Annotated[
    str | None, typer.Option("--separator", help="Separator between the labels in one cell, e.g. ';' or '|'.")
]
OptimizeFor = Annotated[
    str | None,
    typer.Option(
        "--optimize-for",
        help="Decode for a metric: micro_f1, macro_f1, example_f1, subset_accuracy, hamming_accuracy or average.",
    ),
]
Decode = Annotated[
    str | None,
    typer.Option(
        "--decode",
        metavar="DECODER",
        help="greedy, beam, br, rescore, joint, marginal, linear, expected_f1 or, with thousands of labels, "
        "neighbour_sets.",
    ),
]
Thresholds = Annotated[
    str | None,
    typer.Option("--thresholds", metavar="NAME", help="Use thresholds stored by `orderfree thresholds`."),
]
HierarchyFile = Annotated[
    Path | None,
    typer.Option(
        "--hierarchy",
        metavar="FILE",
        help="Parents of labels (JSON or CSV): a predicted label brings its parents with it.",
    ),
]
RunDirectory = Annotated[Path, typer.Argument(metavar="RUN", help="A model directory written by `orderfree train`.")]

# what a trained model has learned with, or has no use for any more
FIXED = {f"data.{key}" for key in ("max_words", "vocabulary_size", "min_count", "lowercase", "valid_fraction")} | {
    f"data.{key}" for key in ("sample_rate", "mel_bands", "sound_window")
}


TABLE_WIDTH = 100  # columns, where the output is no terminal
SCORES_SHOWN = {
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "example_f1": "example F1",
    "subset_accuracy": "exact sets",
    "hamming_accuracy": "Hamming acc.",
    "average": "average",
}


def comma_separated(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def whole_numbers(text: str) -> list[int]:
    if not all(name.isdigit() for name in comma_separated(text)) or not comma_separated(text):
        raise OrderfreeError(f"--seeds {text!r}: expected whole numbers separated by commas.")
    return [int(name) for name in comma_separated(text)]


def seconds(text: str | None, option: str) -> float | None:
    """`90s`, `45m` and `2h` in seconds."""
    if text is None:
        return None
    units = {"s": 1, "m": 60, "h": 3600}
    try:
        return float(text[:-1]) * units[text[-1]]
    except (ValueError, KeyError, IndexError):
        raise OrderfreeError(f"{option} {text!r}: expected a number with s, m or h, for example 45m.") from None


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def table_settings(text: list[str] | None, labels: str | None, separator: str | None) -> list[str]:
    """--text, --labels and --separator as settings of the config."""
    written = {"\\t": "\t", "\\n": "\n"}  # as one types them in a shell
    settings = []
    if text:
        settings = [f"data.text_field={text[0]}", f"data.more_text_fields={json.dumps(text[1:], ensure_ascii=False)}"]
    if labels is not None:
        settings += [f"data.labels_field={labels}"]
    if separator is not None:
        quoted = json.dumps(written.get(separator, separator), ensure_ascii=False)  # keeps the blanks of " / "
        settings += [f"data.label_separator={quoted}"]
    return settings


def data_config(settings: list[str] | None, format: str | None) -> DataConfig:
    from ..build import load_config

    return load_config(None, [*(settings or []), *([f"data.format={format}"] if format else [])]).data


def open_run(
    run: Path, settings: list[str] | None, format: str | None, skip_bad: bool = False
) -> tuple[Predictor, DataConfig]:
    """The model, with `decoding` and `data` keys of --set over those it was trained with."""
    from ..build import complete_config, precision_needed
    from ..checkpoint import load_model
    from ..inference import Predictor
    from ..system.processor import default_threads, use_processor
    from ..system.raw_config import apply_setting

    trained = load_model(run)
    use_processor(default_threads(), precision_needed(trained.config))
    raw = trained.config.model_dump()
    # the training file's format says nothing about this one
    raw["data"] |= {"format": format or "auto", "encoding": None, "delimiter": None}
    raw["data"]["skip_bad"] = skip_bad
    for setting in settings or []:
        key = setting.partition("=")[0].strip()
        if not key.startswith(("decoding.", "data.")) or key in FIXED:
            raise OrderfreeError(
                f"--set {setting!r}: only decoding.* and the formats and field names under data.* can be changed on "
                "a trained model."
            )
        apply_setting(raw, setting)
    trained.config = complete_config(raw, "the configuration")
    asked = any(setting.partition("=")[0].strip() == "decoding.min_labels" for setting in settings or [])
    predictor = Predictor(trained)
    return predictor.adjusted(
        min_labels=trained.config.decoding.min_labels
    ) if asked else predictor, trained.config.data


def chosen_decoder(
    predictor: Predictor, decode: str | None, optimize_for: str | None, thresholds: str | None = None
) -> str:
    """The decoder to use: the one named, the best for the metric named, stored thresholds, or the model's own."""
    from ..decisions.records import BEST, NAMED

    if decode and optimize_for:
        raise OrderfreeError(
            "--decode names a decoder and --optimize-for chooses one by validation; give only one of them."
        )
    if thresholds and (decode or optimize_for):
        raise OrderfreeError("--thresholds determines the decoder; leave out --decode and --optimize-for.")
    if thresholds:
        return NAMED + thresholds
    return decode or (BEST + optimize_for if optimize_for else predictor.default_decoder)


def judged_decoders(
    predictor: Predictor, decode: str | None, optimize_for: str | None = None, thresholds: str | None = None
) -> list[str]:
    """The decoder to use, if one is named; else all, and the best for every metric."""
    from ..decisions.records import BEST

    if decode or optimize_for or thresholds:
        return [chosen_decoder(predictor, decode, optimize_for, thresholds)]
    return [*predictor.decoders, *(BEST + metric for metric in predictor.trained.decisions.best)]


def warn_of_own_examples(run: Path, predictor: Predictor, path: Path) -> None:
    if not path.is_file() and not path.is_dir():  # a pipe is read once, and empty then
        return
    if predictor.trained.learned_from(path):
        say(f"warning: {run} was trained on {path}, so its scores on this file are too good")


def read_hierarchy(path: Path | None, predictor: Predictor) -> Hierarchy | None:
    from ..data.hierarchy import Hierarchy

    return None if path is None else Hierarchy.read(path, predictor.labels.ids)


def refuse_own_input(
    out: Path | str | None, path: Path | str, data: DataConfig | None = None, *others: Path | None
) -> None:
    """Refuses an output that is one of the files this command reads."""
    from ..data.readers import companions, detect_format
    from ..system.files import refuse_overwriting

    beside: list[Path | str | None] = [*others]
    if data is not None:
        beside += [data.classes, data.vggish, data.vggish_pca]
        with contextlib.suppress(OrderfreeError):  # whoever reads it says what is wrong with its name
            format = detect_format(str(path)) if data.format == "auto" else data.format
            beside += [file for files in companions(path, format).values() for file in files]
    refuse_overwriting([out], [path, *beside])


def model_files(run: Path, predictor: Predictor) -> list[Path]:
    """The files of a run that are its model; a report may lie beside them."""
    from ..checkpoint import FILES

    return [run / name for name in (*FILES, *predictor.trained.featurizer.files, "manifest.json", "history.jsonl")]


def reading(
    path: Path | str,
    data: DataConfig,
    labelled: bool,
    noun: str,
    predictor: Predictor | None = None,
    kept: KeptRows | None = None,
) -> Iterator[Example]:
    """Examples with a counter on a terminal. Of a model that is given, it is said how many of them it has learned."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from ..data.readers import ReadCounts, read_examples
    from ..data.seen import SeenTexts

    counts, seen = ReadCounts(), SeenTexts({} if predictor is None else predictor.trained.provenance)

    def looked_at() -> Iterator[Example]:
        for example in read_examples(path, data, labelled=labelled, counts=counts, kept=kept):
            seen.look(example)
            yield example

    examples = looked_at()
    if not sys.stderr.isatty():
        yield from examples
    else:
        from rich.console import Console

        columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} " + noun), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield from bar.track(examples, total=None)
    for note in (*counts.notes(), seen.note()):
        if note is not None:
            say(note)


def open_closed_streams() -> None:
    """A standard stream that is closed leaves its number to the next file that is opened, which would then hold what is
    printed. What goes to a pipe or file is UTF-8, whatever the terminal is."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            terminal = stream.isatty()
            stream.reconfigure(encoding=stream.encoding if terminal else "utf-8", errors="backslashreplace")


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the process as an error does, so that what is half written goes."""

    def end(number: int, frame: Any) -> None:
        print(f"orderfree: ended by {signal.Signals(number).name}.", file=sys.stderr)
        sys.exit(128 + number)

    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def print_scores(decoders: dict[str, dict[str, float]], recommended: str | None = None) -> None:
    """One row per decoder; an arrow points at the recommended one."""
    header = ("  decoder", *SCORES_SHOWN.values())
    rows = []
    for name, scores in decoders.items():
        mark = "→" if name == recommended else " "
        rows.append((f"{mark} {name}", *(f"{scores.get(key, float('nan')):.4f}" for key in SCORES_SHOWN)))
    print_table(header, rows)
    if recommended in decoders:
        print("→ recommended: `orderfree predict` uses this decision by default.")


def print_validation(metrics: dict[str, Any]) -> None:
    """What a model reached on validation: every decoder, and the decision it uses by default."""
    default = metrics.get("default")
    chosen = {default["decoder"]: default["scores"]} if default else {}
    print_scores({**metrics.get("validation", {}), **chosen}, next(iter(chosen), None))


PROBABILITIES = {"br": "binary relevance", "sequence": "label decoder, marginals"}


def print_ranking(ranking: dict[str, dict[str, float | None]]) -> None:
    """How well the probabilities of both decoders rank the examples of each label."""
    shown = {"mean_average_precision": "mAP", "auc": "AUC", "d_prime": "d′", "labels": "labels judged"}

    def cell(key: str, value: float | None) -> str:
        return "-" if value is None else f"{value:,}" if key == "labels" else f"{value:.4f}"

    rows = [(PROBABILITIES[by], *(cell(key, found[key]) for key in shown)) for by, found in ranking.items()]
    print_table(("ranking by", *shown.values()), rows)


def print_at_k(found: dict[str, dict[str, float]]) -> None:
    """Scores of the first k labels, where labels are many."""
    if not found:
        return
    from ..metrics.at_k import PLACES, TITLES

    rows = [
        (PROBABILITIES[by], title, *(f"{scores[f'{name}@{k}']:.4f}" for k in PLACES))
        for by, scores in found.items()
        for name, title in TITLES.items()
    ]
    print_table(("first k labels by", "", *(f"k = {k}" for k in PLACES)), rows)


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*header, box=None)
    for row in rows:
        table.add_row(*map(Text, row))  # square brackets in a label or text are no style
    Console(width=None if sys.stdout.isatty() else TABLE_WIDTH).print(table)


def write_run_report(
    path: Path, run: Path, found: dict[str, Any], predictor: Predictor, command: str, figures: Path | None = None
) -> None:
    """The page of a run: what was found of it, how it was trained, its card and how to make all that again; and, where
    a folder is given, its figures as files."""
    from ..checkpoint import versions
    from ..report.figure_files import write_chart_files
    from ..report.page import run_charts, write_report
    from ..training.listeners import read_history

    trained = predictor.trained
    provenance = trained.provenance
    counts = {"Training examples": "train_examples", "Validation examples": "valid_examples"}
    facts = {name: f"{provenance[key]:,}" for name, key in counts.items() if key in provenance}
    prints = {f"SHA-256 of the {part} file": value for part, value in provenance.get("data", {}).items() if value}
    card = {
        "name": run.resolve().name,
        "version": versions()["orderfree"],
        "config": trained.config.model_dump(),
        "parameters": trained.network.parameter_count(),
        "seed": trained.config.seed,
        "versions": provenance.get("versions", {}),
        "facts": {**facts, **prints},
        "training_counts": dict(zip(trained.labels.names, trained.labels.counts, strict=True)),
        "command": command,
        "promises": {name: promise.sentence for name, promise in trained.decisions.promises.items()},
        "text": (run / "README.md").read_text(encoding="utf-8", errors="replace"),
    }
    history = read_history(run / "history.jsonl")
    if figures is not None:
        write_chart_files(run_charts(found, history, card), figures)
    write_report(path, found, history, card)
