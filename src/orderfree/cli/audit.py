"""`orderfree audit`: likely errors in the labels of a file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import OrderfreeError
from .common import AsJson, Format, Preset, Settings, model_files, open_run, print_table, refuse_own_input, say

if TYPE_CHECKING:
    from ..tools.audit import Suspect

SHOWN = 20  # rows of the table; --out holds all of them
FOLDS = 5
LEARNED = (
    "was trained on this very file and reproduces its label errors; leave out --model, and examples are "
    "judged by classifiers that have not seen them"
)
CELL = 40  # characters of a text in it


Model = Annotated[
    Path | None,
    typer.Option(
        "--model", metavar="RUN", help="Use this model, trained on other examples, instead of cross-validation."
    ),
]
Folds = Annotated[
    int | None, typer.Option("--folds", min=2, max=100, help="Number of cross-validation folds; default 5.")
]


def audit(
    data_file: Annotated[Path, typer.Argument(metavar="TRAIN", help="Labelled examples to audit.")],
    model: Model = None,
    folds: Folds = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the suspects to this .jsonl or .csv file.")] = None,
    top: Annotated[
        int, typer.Option("--top", min=1, help="Maximum number of suspects, the most suspicious first.")
    ] = 100,
    preset: Preset = None,
    settings: Settings = None,
    format: Format = None,
    as_json: AsJson = False,
) -> None:
    """List likely label errors: labels that are given but unlikely, and labels that are absent but likely."""
    from ..data.writers import write_records
    from ..tools.audit import FEWEST, audit_config, contradictions, of_model, out_of_fold, rare_labels, suspects

    if out is not None and out.suffix not in (".jsonl", ".csv"):
        raise OrderfreeError(f"--out {out}: expected a name that ends in .jsonl or .csv.")
    if model is not None and (preset is not None or folds is not None):
        raise OrderfreeError(
            "--folds and --preset are for classifiers of folds, and --model asks none; leave them out."
        )
    learned = False
    if model is not None:
        predictor, _ = open_run(model, settings, format)
        config = predictor.trained.config
        refuse_own_input(out, data_file, config.data, *model_files(model, predictor))
        learned = predictor.trained.learned_from(data_file)
        opinion = of_model(predictor, data_file)
    else:
        folds = folds or FOLDS
        config = audit_config([*(settings or []), *([f"data.format={format}"] if format else [])], preset, folds)
        refuse_own_input(out, data_file, config.data)
        opinion = out_of_fold(config, data_file, say)
    against = contradictions(opinion)
    found = suspects(opinion, against, data_file, config, top)
    if learned:
        say(f"warning: {model} {LEARNED}")
    if rare := rare_labels(opinion):
        say(f"{len(rare):,} labels have fewer than {FEWEST} examples and are not judged")
    if out is not None:
        write_records([asdict(suspect) for suspect in found], out)
    asked = {"data": str(data_file), "model": None if model is None else str(model), "folds": folds}
    facts = {
        **asked,
        "own_examples": learned,
        "examples": opinion.targets.shape[0],
        "contradicted": len(against.rows),
        "errors": int(against.errors.sum()),
        "labels_not_judged": rare,
    }
    if as_json:
        print(json.dumps({**facts, "suspects": [asdict(suspect) for suspect in found]}, ensure_ascii=False))
    else:
        _print_suspects(facts, found, out)


def _print_suspects(facts: dict[str, Any], found: list[Suspect], out: Path | None) -> None:
    print(
        f"{facts['contradicted']:,} of {facts['examples']:,} examples have labels that the classifiers doubt; "
        f"{facts['errors']:,} of them are likely errors (marked *)."
    )
    if found:
        print_table(("row", "id", "score", "wrong?", "missing?", "text"), [_row(one) for one in found[:SHOWN]])
    if out is not None:
        print(f"{len(found):,} suspects written to {out}")
    elif len(found) > SHOWN:
        print(f"The {SHOWN} worst are shown; --out suspects.jsonl writes {len(found):,}.")


def _row(suspect: Suspect) -> tuple[str, ...]:
    wrong, missing = (
        ", ".join(f"{label} {prob:.2f}" for label, prob in labels.items()) or "-"
        for labels in (suspect.wrong, suspect.missing)
    )
    return (
        str(suspect.position),
        suspect.id,
        f"{suspect.score:.3f}" + "*" * suspect.error,
        wrong,
        missing,
        suspect.text[:CELL],
    )


ALL = (audit,)
