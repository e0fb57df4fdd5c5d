"""One run from files to a finished model directory: new, resumed or overwriting an old one."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch

from ..build import build_network, complete_config
from ..checkpoint import FILES, TRAINING, TrainedModel, save_model, versions
from ..config import Config
from ..data.featurizers import kinds
from ..errors import ModelDirectoryError, OrderfreeError
from ..evaluation import decide
from ..files import explained, making_directory, remove_leftovers, write_json, writing_directory
from ..inference import Predictor, default_threads
from .card import model_card
from .listeners import History, ProgressLines, TensorBoard
from .loop import Listener, Stop, Trainer
from .prepare import fingerprints, prepare
from .solve import start_encoder

RECORD = "run.json"
REPLACED = ".replaced.part"  # where --overwrite keeps the old run until the new one has started
# What a run may have left in its directory; --overwrite removes these and nothing else.
OWN_FILES = (
    *FILES,
    *sorted({name for featurizer in kinds().values() for name in getattr(featurizer, "files")}),  # noqa: B009
    *("manifest.json", "history.jsonl", "tensorboard", TRAINING),
)


class Interrupted(Exception):
    """Training was asked to stop; its state is saved."""


def train(
    config: Config,
    train_file: Path,
    valid_file: Path | None,
    out: Path,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda _: None,
    stop: Stop | None = None,
) -> TrainedModel:
    """Trains a model and writes it to `out`. With `resume`, goes on with the run in `out`, exactly.

    `stop` lets the caller end the training from another thread, as Ctrl-C does from the keyboard."""
    if not resume:
        _put_back(out)
    present = _present(out, resume, overwrite)
    config, threads, before = _reopen(out) if resume else (config, config.training.threads or default_threads(), None)
    data = fingerprints(config, train_file, valid_file)
    if Path(train_file).is_dir() and out.resolve().is_relative_to(Path(train_file).resolve()):
        raise OrderfreeError(f"{out}: lies inside the folder of training data; choose another place for the run.")
    if before is not None:
        _check_same_data(out, before, data)
    with explained(out) if resume else _starting(out, present):
        if not resume:
            files = {"train": str(train_file), "valid": str(valid_file) if valid_file is not None else None}
            record = {"config": config.model_dump(), "files": files, "data": data, "threads": threads}
            with writing_directory(out / TRAINING) as aside:
                write_json(aside / RECORD, record)
        torch.set_num_threads(threads)
        cache = out / TRAINING / "data"
        cache.mkdir(parents=True, exist_ok=True)
        prepared = prepare(config, train_file, valid_file, cache, say)
        torch.manual_seed(config.seed)
        network = build_network(config, prepared.featurizer.input_size, len(prepared.labels))
        start_encoder(network, prepared.train, cache, config.seed, say)
    provenance = {"data": data, **prepared.provenance, "seed": config.seed, "versions": versions()}
    trained = TrainedModel(config, prepared.labels, prepared.featurizer, network, provenance=provenance)
    say(f"{network.parameter_count():,} parameters, {threads} CPU thread(s)")
    trainer = Trainer(trained, prepared, out / TRAINING, stop=stop or Stop())
    trainer.listeners = _listeners(config, out, trainer.select_decoder)
    with _stopping_cleanly(trainer.stop):
        if not trainer.fit():
            raise Interrupted(f"stopped at update {trainer.progress.update:,} of {trainer.total_updates:,}; saved")
    finish(trainer, out)
    return trained


def finish(trainer: Trainer, out: Path) -> None:
    """Scores the best weights with every decoder, writes the model directory, removes the training state."""
    trained = trainer.trained
    predictor = Predictor(trained)
    found = decide(predictor, trainer.data.valid, predictor.decoders)
    trained.thresholds, trained.decisions, trained.powers = found.thresholds, found.decoders, found.powers
    trained.metrics = {
        "update": trainer.progress.best_update,
        "updates": trainer.progress.update,
        "selected_by": f"{trainer.select_decoder} {trained.config.training.select_metric}",
        "validation": found.scores,
    }
    save_model(trained, out, model_card(trained))
    shutil.rmtree(out / TRAINING)  # holds encoded training texts: a finished model is shared without them


def _present(out: Path, resume: bool, overwrite: bool) -> list[str]:
    """What a run has left in `out`; refuses to touch it unless told to."""
    if resume and overwrite:
        raise OrderfreeError("--resume goes on with the run in --out and --overwrite replaces it; give one of them.")
    if out.exists() and not out.is_dir():
        raise OrderfreeError(f"{out}: is a file, expected a directory to write the run to.")
    present = [name for name in OWN_FILES if (out / name).exists()]
    if not present or resume:
        return present
    unfinished = (out / TRAINING / RECORD).exists()
    if not unfinished and "manifest.json" not in present:  # someone else's README.md, say
        raise OrderfreeError(f"{out}: holds {present[0]} but no run; choose a new or empty directory.")
    if not overwrite:
        advice = "go on with it (--resume) or replace it (--overwrite)" if unfinished else "replace it with --overwrite"
        raise OrderfreeError(f"{out}: already holds a run ({present[0]}); {advice}.")
    return present


def _put_back(out: Path) -> None:
    """Restores the run that a killed --overwrite had moved aside before its own run could start."""
    replaced = out / REPLACED
    if not replaced.is_dir():
        return
    shutil.rmtree(out / TRAINING, ignore_errors=True)
    for path in replaced.iterdir():
        path.rename(out / path.name)
    replaced.rmdir()


@contextmanager
def _starting(out: Path, present: list[str]) -> Iterator[None]:
    """Puts an earlier run aside. If the new one cannot start (its data is bad, say), all is as it was before."""
    with explained(out), making_directory(out):
        remove_leftovers(out)
        replaced = out / REPLACED
        replaced.mkdir()
        for name in present:
            (out / name).rename(replaced / name)
        try:
            yield
        except BaseException:
            _put_back(out)
            raise
        shutil.rmtree(replaced)


def _reopen(out: Path) -> tuple[Config, int, dict[str, str]]:
    """Config, number of threads and data fingerprints of the unfinished run in `out`."""
    record = out / TRAINING / RECORD
    if (out / "manifest.json").exists():
        shutil.rmtree(out / TRAINING, ignore_errors=True)  # where the run was killed while it tidied up
        raise OrderfreeError(f"{out}: this run is finished, there is nothing to resume; --overwrite starts it anew.")
    if not record.exists():
        raise OrderfreeError(f"{out}: holds no unfinished run to resume; leave out --resume to start one.")
    for directory in (out, out / TRAINING):
        remove_leftovers(directory)
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
        config, threads = complete_config(content["config"], str(record)), int(content["threads"])
        before = dict(content["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise ModelDirectoryError(f"{record}: is damaged ({error}); start again with --overwrite.") from None
    return config, threads, before


def _check_same_data(out: Path, before: dict[str, str], data: dict[str, str]) -> None:
    changed = sorted(part for part in before.keys() | data.keys() if before.get(part) != data.get(part))
    if changed:
        raise OrderfreeError(
            f"{out}: the {changed[0]} data is not what this run was started with; give the same file, or --overwrite."
        )


def _listeners(config: Config, out: Path, decoder: str) -> list[Listener]:
    listeners: list[Listener] = [
        History(out / "history.jsonl"),
        ProgressLines(config.training.select_metric, decoder),
    ]
    if config.training.tensorboard and TensorBoard.available():
        listeners.append(TensorBoard(out / "tensorboard"))
    return listeners


@contextmanager
def _stopping_cleanly(stop: Stop) -> Iterator[None]:
    """Ctrl-C and SIGTERM finish the step, save and end; a second one ends at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    try:
        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: whoever runs us there handles signals
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
