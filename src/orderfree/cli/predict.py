"""`orderfree predict`: labels for new examples, for a few texts on the command line, or into the table they came in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import OrderfreeError
from ..system.wording import counted
from .bulk import PART_ROWS, Engine, PartRows, Workers, predict_in_parts
from .closing import PredictedCounts, refuse_more
from .common import (
    Decode,
    Format,
    HierarchyFile,
    OptimizeFor,
    RunDirectory,
    Separator,
    Settings,
    SkipBad,
    Thresholds,
    chosen_decoder,
    model_files,
    open_run,
    read_hierarchy,
    reading,
    refuse_own_input,
    say,
    table_settings,
)

if TYPE_CHECKING:
    from ..inference import Prediction, Predictor

SUGGESTED = 5  # labels that are shown with their probabilities for a text of the command line


def predict(
    run: RunDirectory,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT", help="Examples, labelled or not; - reads standard input; several with --engine."
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="Without INPUT: a text to label. With INPUT: the column or field of the text."),
    ] = None,
    out: Annotated[str, typer.Option("--out", help="File to write; - writes to standard output.")] = "-",
    out_format: Annotated[
        str | None, typer.Option("--out-format", help="jsonl, csv or parquet; by default told from the name of --out.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file given by --out.")] = False,
    keep_columns: Annotated[
        bool, typer.Option("--keep-columns", help="Write all columns of INPUT and add one for the labels.")
    ] = False,
    labels: Annotated[
        str | None, typer.Option("--labels", metavar="COLUMN", help="With --keep-columns: name of the added column.")
    ] = None,
    separator: Separator = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", min=1, help="Also write this many labels, the most probable first.")
    ] = None,
    decode: Decode = None,
    optimize_for: OptimizeFor = None,
    thresholds: Thresholds = None,
    hierarchy: HierarchyFile = None,
    probs: Annotated[
        str, typer.Option("--probs", help="Binary-relevance probabilities to write: all, predicted or none.")
    ] = "predicted",
    alternatives: Annotated[
        bool, typer.Option("--alternatives", help="Also write other label sets of the beam.")
    ] = False,
    candidates: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Also write a list of label sets that contains the true one with this probability."
        ),
    ] = None,
    abstain_below: Annotated[
        float | None, typer.Option(metavar="P", help="Withhold label sets that are less probable than this.")
    ] = None,
    settings: Settings = None,
    format: Format = None,
    skip_bad: SkipBad = False,
    engine: Engine = None,
    workers: Workers = None,
    part_rows: PartRows = None,
) -> None:
    """Predict the label sets of new examples, or of a text given with --text."""
    if probs not in ("all", "predicted", "none"):
        raise OrderfreeError(f"--probs {probs!r}: expected all, predicted or none.")
    if abstain_below is not None and not 0 <= abstain_below <= 1:
        raise OrderfreeError(f"--abstain-below {abstain_below:g}: expected a probability between 0 and 1.")
    if not inputs and not text:
        raise OrderfreeError("there is nothing to predict; give a file, or a text with --text.")
    settings = [*(settings or []), *table_settings(text if inputs else None, labels, separator)]
    predictor, data = open_run(run, settings, format, skip_bad)
    decoder = chosen_decoder(predictor, decode, optimize_for, thresholds)
    promise = predictor.decision(decoder).promise
    if hierarchy is not None and promise is not None and promise.kind == "precision":
        raise OrderfreeError("--hierarchy adds labels that the promise of a precision does not count; leave one out.")
    if engine is not None:
        refuse_more(alternatives, candidates, abstain_below, "parquet")
        if keep_columns or top_k or out_format not in (None, "parquet"):
            raise OrderfreeError(
                "--engine writes Parquet without --keep-columns, --top-k or --out-format; leave these options out."
            )
        if format not in (None, "parquet"):
            raise OrderfreeError(
                f"--format {format}: --engine reads Parquet files; convert them with `orderfree convert`."
            )
        predict_in_parts(
            engine, run, inputs or [], out, predictor, decoder, hierarchy, probs, workers, part_rows or PART_ROWS
        )
        return
    if workers is not None or part_rows is not None:
        raise OrderfreeError("--workers and --part-rows need --engine ray; add it, or leave them out.")
    if inputs and len(inputs) > 1:
        raise OrderfreeError(f"{len(inputs)} inputs are given, expected one; for many Parquet files give --engine ray.")
    if not inputs and keep_columns:
        raise OrderfreeError("--keep-columns needs a table as INPUT; give one, or leave the option out.")
    parents = read_hierarchy(hierarchy, predictor)
    answers = _Answers(predictor, decoder, parents, probs, alternatives, top_k, candidates, abstain_below)
    if not inputs and out == "-" and out_format is None:
        answers.top_k = top_k or SUGGESTED
        _print_answers(answers, text or [])
        return
    refuse_own_input(out, inputs[0] if inputs else "-", data, hierarchy, *model_files(run, predictor))
    _refuse_existing(out, overwrite)
    if keep_columns:
        _into_the_table(answers, inputs[0] if inputs else "-", data, out, out_format)
    else:
        examples = reading(inputs[0], data, labelled=False, noun="inputs") if inputs else _examples(text or [])
        _into_a_file(answers, examples, data, out, out_format)
    answers.say()


@dataclass
class _Answers:
    """What is written of each prediction, and what is said of all of them."""

    predictor: Predictor
    decoder: str
    parents: Any
    probs: str
    alternatives: bool
    top_k: int | None
    candidates: float | None
    abstain_below: float | None
    truncated: int = 0
    written: PredictedCounts = field(default_factory=PredictedCounts)

    def refuse_more(self, kind: str) -> None:
        refuse_more(self.alternatives, self.candidates, self.abstain_below, kind)

    def records(self, examples: Any) -> Iterator[dict[str, Any]]:
        from ..tools.prediction_records import abstaining, prediction_record

        predictions = self.predictor.predict(
            examples, [self.decoder], marginals=self.top_k is not None, candidates=self.candidates
        )
        for prediction in predictions:
            record = prediction_record(self.predictor, prediction, self.decoder, self.parents, self.probs)
            if self.abstain_below is not None:
                prob = self.predictor.set_prob(self.decoder, prediction.label_sets[self.decoder])
                record = abstaining(record, prob, self.abstain_below)
                self.written.withheld += record["abstained"]
            if self.alternatives:
                others = prediction.label_sets[self.decoder].alternatives
                record["alternatives"] = [{"labels": list(a), "log_prob": p} for a, p in others]
            if self.top_k is not None:
                record["suggestions"] = self._suggestions(prediction, self.top_k)
            if prediction.candidates is not None:
                self.written.candidates += len(prediction.candidates.sets)
                self.written.outside += prediction.candidates.outside
            self.written.add(len(record["labels"]))
            self.truncated += prediction.truncated
            yield record

    def _suggestions(self, prediction: Prediction, most: int) -> dict[str, float]:
        """Labels with their probabilities, the most probable first: binary relevance, or the label decoder's share."""
        values = prediction.probs if prediction.probs is not None else prediction.marginals
        if values is None:
            return {}
        names = self.predictor.labels.names
        return {names[place]: round(float(values[place]), 6) for place in (-values).argsort(kind="stable")[:most]}

    def say(self) -> None:
        say(self.written.sentence())
        if self.truncated:
            cut = counted(self.truncated, "text was", "texts were")
            say(f"{cut} truncated to {self.predictor.trained.config.data.max_words:,} words")


def _into_a_file(answers: _Answers, examples: Any, data: Any, out: str, out_format: str | None) -> None:
    from ..data.writers import open_prediction_writer

    kind = out_format or {".csv": "csv", ".parquet": "parquet"}.get(Path(out).suffix, "jsonl")
    answers.refuse_more(kind)
    more = ("suggestions",) if answers.top_k is not None and kind != "jsonl" else ()
    with open_prediction_writer(out, kind, more=more, separator=data.label_separator) as writer:
        for record in answers.records(examples):
            writer.write(record)


def _into_the_table(answers: _Answers, path: str, data: Any, out: str, out_format: str | None) -> None:
    from ..data.kept_rows import write_kept_rows
    from ..data.readers import KeptRows

    answers.refuse_more("a table of --keep-columns")
    kept = KeptRows()
    examples = reading(path, data, labelled=False, noun="inputs", kept=kept)
    write_kept_rows(answers.records(examples), kept, out, out_format, data.labels_field, data.label_separator)


def _print_answers(answers: _Answers, texts: list[str]) -> None:
    """A quick try is read by a person: the set, the most probable labels, and why they may mean little."""
    from ..serve.familiar import caveat

    for text, record in zip(texts, answers.records(_examples(texts)), strict=True):
        if (doubt := caveat(answers.predictor, text)) is not None:
            say(doubt)
        print(", ".join(record["labels"]) or "(no label)")
        width = max((len(name) for name in record["suggestions"]), default=0)
        for name, probability in record["suggestions"].items():
            print(f"  {name:{width}}  {probability:.3f}")


def _examples(texts: list[str]) -> Iterator[Any]:
    from ..types import Example

    return (Example(str(number), text=text) for number, text in enumerate(texts))


def _refuse_existing(out: str, overwrite: bool) -> None:
    from ..system.files import is_stream

    if not overwrite and not is_stream(out) and os.path.isfile(out):
        raise OrderfreeError(f"{out}already exists; choose another --out, or replace it with --overwrite.")


ALL = (predict,)
