"""`orderfree report`: a run or a results folder as one HTML page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import OrderfreeError
from ..system.files import refuse_overwriting
from .common import (
    Decode,
    Format,
    Settings,
    judged_decoders,
    model_files,
    open_run,
    reading,
    refuse_own_input,
    say,
    write_run_report,
)

if TYPE_CHECKING:
    from ..inference import Predictor

RESULT_FILES = "seed*.json"


def report(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A run of `train`, or results of `reproduce`.")],
    out: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path("report.html"),
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", help="Labelled examples to evaluate the run on; without them, the report shows validation scores."
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Also write the figures of a run to this folder, as SVG and PNG.")
    ] = None,
    decode: Decode = None,
    settings: Settings = None,
    format: Format = None,
) -> None:
    """Turn a run or a results folder into one self-contained HTML page."""
    if data is None and (decode or settings or format):
        raise OrderfreeError("--decode, --set and --format apply to --data; add --data, or leave them out.")
    options = [("--data", data), ("--decode", decode), ("--format", format), ("--out", out), ("--figures", figures)]
    options += [("--set", setting) for setting in settings or []]
    given = [word for option, value in options if value is not None for word in (option, value)]
    command = shlex.join(map(str, ["orderfree", "report", path, *given]))
    if _is_run(path):
        _report_run(path, data, decode, settings, format, out, command, figures)
    elif data is not None:
        raise OrderfreeError(f"{path}: is a folder of results, which are already evaluated; leave out --data.")
    elif figures is not None:
        raise OrderfreeError(f"{path}: is a folder of results; draw its figures with `orderfree figures`.")
    else:
        _report_results(path, out, command)
    print(f"Report written to {out}" + (f", figures to {figures}" if figures is not None else ""))


ALL = (report,)


def _is_run(path: Path) -> bool:
    """A run, or else a folder of results; everything else is refused."""
    try:
        if not path.exists():
            raise OrderfreeError(f"{path}: no such run or folder of results.")
        if not path.is_dir():
            raise OrderfreeError(f"{path}: is a file, expected a run of `orderfree train` or a folder of results.")
        if (path / "manifest.json").exists():
            return True
        if any(path.rglob(RESULT_FILES)):
            return False
        if (path / "training").is_dir():
            return True  # unfinished: loading it says how to go on
        if not any(path.iterdir()):
            raise OrderfreeError(f"{path}: is empty; fill it with `orderfree train` or `orderfree reproduce`.")
    except OSError as error:
        raise OrderfreeError(f"{path}: cannot be read ({error.strerror}); check its permissions.") from None
    raise OrderfreeError(
        f"{path}: is neither a run (it has no manifest.json) nor a folder of results (it has no seed<k>.json)."
    )


def _report_run(
    run: Path,
    data: Path | None,
    decode: str | None,
    settings: list[str] | None,
    format: str | None,
    out: Path,
    command: str,
    figures: Path | None,
) -> None:
    from ..report.examples import evaluate_with_examples

    predictor, data_config = open_run(run, settings, format)
    refuse_own_input(out, data or run / "manifest.json", data_config, *model_files(run, predictor))
    if data is None:
        found = _validation(run, predictor)
    else:
        examples = reading(data, data_config, labelled=True, noun="texts to evaluate", predictor=predictor)
        decoders = judged_decoders(predictor, decode)
        found = {"model": str(run), "data": str(data), **evaluate_with_examples(predictor, examples, decoders)}
    write_run_report(out, run, found, predictor, command, figures)


def _validation(run: Path, predictor: Predictor) -> dict[str, Any]:
    """What a run knows of itself, in the shape of an evaluation."""
    trained = predictor.trained
    default = trained.metrics.get("default")
    decoders = {**trained.metrics.get("validation", {}), **({default["decoder"]: default["scores"]} if default else {})}
    return {
        "model": str(run),
        "part": "validation",
        "labels": len(trained.labels),
        "decoders": decoders,
        "default_decoder": predictor.default_decoder,
        "decisions": {predictor.default_decoder: predictor.decision(predictor.default_decoder).search},
        "threshold": trained.decisions.thresholds.get("br", {}).get("micro_f1"),
        "notes": [
            "Checkpoint and thresholds were chosen on these validation examples, so scores on new data are lower. For "
            "scores on other data, results by label, confused labels and examples, make this page with "
            f"`orderfree report {shlex.quote(str(run))} --data test.jsonl`."
        ],
    }


def _report_results(folder: Path, out: Path, command: str) -> None:
    from .._version import __version__
    from ..experiments.overview import overview
    from ..experiments.result_files import load_results
    from ..report.results import write_results_report

    refuse_overwriting([out], folder.rglob(RESULT_FILES))
    results = load_results(folder, say)
    if not results:
        raise OrderfreeError(f"{folder}: none of its result files can be used; the lines above say why.")
    write_results_report(out, overview(results), {"folder": str(folder), "version": __version__, "command": command})
