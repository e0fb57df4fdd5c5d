"""Prediction over large corpora on Ray: Parquet files in, a directory of Parquet files out, each row exactly once.

A part is a range of rows of one input file. It becomes one output file, written aside and renamed, so that every output
file is complete. A job that was stopped continues with the missing parts; a part whose worker died is predicted again.
`job.json` describes the job, so that no other job can write into its directory.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..build import check_decoder, complete_config
from ..checkpoint import load_model
from ..data.hierarchy import Hierarchy
from ..data.readers import read_examples
from ..data.writers import open_prediction_writer
from ..errors import DataError, OrderfreeError
from ..inference import Predictor
from ..system.files import explained, fingerprint, locked, remove_leftovers, write_json
from ..system.processor import use_processor
from .prediction_records import prediction_record

JOB, COMPLETE = "job.json", "complete.json"
SOURCE = "source"  # column: the input file a row comes from
STORE = 200 << 20  # bytes of Ray's object store: only names of parts and counts pass through it
MOST_BLOCKS = 10_000  # maximum number of blocks in which parts are distributed
FOOTER = 8  # bytes at the end of a Parquet file: length of its metadata, and four magic bytes


class Part(NamedTuple):
    number: int
    path: str
    first: int  # row, counted from 0
    stop: int

    def file(self, directory: Path) -> Path:
        return directory / f"part-{self.number:07d}.parquet"


def plan(
    run: Path, inputs: list[str], predictor: Predictor, decoder: str, hierarchy: Path | None, probs: str, part_rows: int
) -> dict[str, Any]:
    """Everything that the result depends on, as JSON; workers on other machines need nothing else."""
    check_decoder(predictor.decoders, predictor.decision(decoder).search)
    if hierarchy is not None:
        Hierarchy.read(hierarchy, predictor.labels.ids)
    if len({Path(path).resolve() for path in inputs}) < len(inputs):
        raise OrderfreeError("an input is given twice; each row is predicted once, so name each file once.")
    return {
        "run": str(run.resolve()),
        "model": fingerprint(run / "manifest.json"),  # the manifest holds the checksums of all other files
        "decoder": decoder,
        "min_labels": predictor.own_min_labels,
        "hierarchy": None if hierarchy is None else [str(hierarchy.resolve()), fingerprint(hierarchy)],
        "probs": probs,
        "part_rows": part_rows,
        "config": predictor.trained.config.model_dump(mode="json"),
        "inputs": [_described(path) for path in inputs],
    }


def _described(path: str) -> dict[str, Any]:
    """An input file, with a checksum of its metadata, which holds position, length and statistics of every column."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - FOOTER, 0))
            length = int.from_bytes(file.read(FOOTER)[:4], "little")
            file.seek(max(size - FOOTER - length, 0))
            footer = hashlib.sha256(file.read(length)).hexdigest()
            rows = pq.ParquetFile(file).metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"is not a readable Parquet file ({reason}); --engine ray reads no others.", path) from None
    return {"path": path, "absolute": str(Path(path).resolve()), "bytes": size, "rows": rows, "footer": footer}


def parts_of(job: dict[str, Any]) -> Iterator[Part]:
    number = 0
    for one in job["inputs"]:
        for first in range(0, one["rows"], job["part_rows"]):
            yield Part(number, one["path"], first, min(first + job["part_rows"], one["rows"]))
            number += 1


class PartWorker:
    """Runs in its own process and loads the model once. Errors that a user can cause are returned, not raised."""

    def __init__(self, job: dict[str, Any], directory: str) -> None:
        self.job, self.directory = job, Path(directory)
        self.absolute_paths = {one["path"]: one["absolute"] for one in job["inputs"]}

    @cached_property
    def predictor(self) -> Predictor:
        use_processor(1)
        trained = load_model(self.job["run"])
        trained.config = complete_config(self.job["config"], "the configuration")
        return Predictor(trained).adjusted(min_labels=self.job["min_labels"])

    @cached_property
    def parents(self) -> Hierarchy | None:
        source = self.job["hierarchy"]
        return None if source is None else Hierarchy.read(Path(source[0]), self.predictor.labels.ids)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[Any]]:
        told: dict[str, list[Any]] = {"rows": [], "refusal": []}
        columns = zip(*(batch[name].tolist() for name in Part._fields), strict=True)
        for part in (Part(*values) for values in columns):
            refusal = ""
            try:
                if not part.file(self.directory).exists():  # a worker that died may have written it
                    self.predict(part)
            except OrderfreeError as error:
                refusal = str(error)
            told["rows"].append(part.stop - part.first)
            told["refusal"].append(refusal)
        return told

    def predict(self, part: Part) -> None:
        predictor, decoder = self.predictor, self.job["decoder"]
        options = predictor.trained.config.data.model_copy(update={"format": "parquet"})
        rows = range(part.first, part.stop)
        examples = read_examples(self.absolute_paths[part.path], options, labelled=False, part=rows)
        with open_prediction_writer(str(part.file(self.directory)), "parquet", more=(SOURCE,)) as writer:
            for prediction in predictor.predict(examples, [decoder]):
                record = prediction_record(predictor, prediction, decoder, self.parents, self.job["probs"])
                writer.write({**record, SOURCE: part.path})


def run_on_ray(
    job: dict[str, Any], directory: Path, workers: int | None, advance: Callable[[int], object] = lambda rows: None
) -> dict[str, int]:
    """Predicts the missing parts, passing the rows of each to `advance`. Returns counts of the whole job."""
    with explained(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        claim(job, directory)
        remove_leftovers(directory)
        parts = list(parts_of(job))
        missing = [part for part in parts if not part.file(directory).exists()]
        advance(sum(part.stop - part.first for part in parts) - sum(part.stop - part.first for part in missing))
        if missing:
            _predict_missing(job, directory, missing, workers, advance)
        rows = sum(pq.read_metadata(part.file(directory)).num_rows for part in parts)
        counts = {"parts": len(parts), "rows": rows, "left_out": sum(one["rows"] for one in job["inputs"]) - rows}
        write_json(directory / COMPLETE, counts)
    return {**counts, "kept": len(parts) - len(missing)}


def claim(job: dict[str, Any], directory: Path) -> None:
    """Assigns the directory to this job; refuses one with files of another job or of unknown origin."""
    try:
        earlier = json.loads((directory / JOB).read_text(encoding="utf-8"))
    except FileNotFoundError:
        if any(not file.name.startswith(".") for file in directory.iterdir()):
            raise OrderfreeError(f"{directory}: is not empty and holds no {JOB}; choose another --out.") from None
        write_json(directory / JOB, job)
        return
    except (OSError, ValueError):
        earlier = {}
    other = [key for key in job if not isinstance(earlier, dict) or earlier.get(key) != job[key]]
    if other:
        raise OrderfreeError(
            f"{directory}: holds predictions of another job, which differs in {', '.join(other)}; choose another --out."
        )


def _predict_missing(
    job: dict[str, Any], directory: Path, parts: list[Part], workers: int | None, advance: Callable[[int], object]
) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if not ray.is_initialized():
        local: dict[str, Any] = (
            {} if "RAY_ADDRESS" in os.environ else {"num_cpus": workers, "object_store_memory": STORE}
        )
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **local)
    size = min(workers or int(ray.cluster_resources()["CPU"]), len(parts))
    blocks = min(len(parts), max(MOST_BLOCKS, size))
    data = ray.data.from_items([part._asdict() for part in parts], override_num_blocks=blocks)
    done = data.map_batches(  # Ray replaces a worker that dies, and repeats its block
        PartWorker,
        fn_constructor_args=(job, str(directory.resolve())),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=size),
    )
    try:
        for told in done.iter_rows():
            if told["refusal"]:
                raise OrderfreeError(told["refusal"])
            advance(told["rows"])
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise OrderfreeError(f"a worker failed ({reason}); parts that are done are kept, run the same again.") from None
