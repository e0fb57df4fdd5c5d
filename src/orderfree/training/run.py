"""One run from files to a finished model directory: new, resumed or overwriting an old one."""

from __future__ import annotations

import json
import logging
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from ..build import as_config, build_network, complete_config, precision_needed
from ..checkpoint import FILES, TRAINING, TrainedModel, load_model, save_model, versions
from ..config import Config
from ..data.featurizers import kinds
from ..data.inputs import Input
from ..data.readers import resolve
from ..decisions.records import default_decoder
from ..errors import DataError, ModelDirectoryError, OrderfreeError
from ..evaluation import decide
from ..evaluation.probabilities import repair_probabilities
from ..inference import Predictor, default_threads
from ..nn.graphs import GRAPHS
from ..nn.model import OrderFreeModel
from ..system.files import (
    explained,
    fingerprint,
    locked,
    making_directory,
    remove_leftovers,
    sync_directory,
    write_json,
    writing_directory,
)
from ..system.precision import chosen_precision, refuse_unable
from ..system.processor import use_processor
from .card import model_card
from .distributed.processes import Team
from .listeners import History, ProgressLines, TensorBoard
from .loop import Listener, Stop, Trainer
from .prepare import PRETRAINED, Data, Prepared, as_data, fingerprints, prepare
from .request import Request
from .solve import solve_again, start_encoder
from .warm import WARM, adopt_weights, copy_model
from .weights import label_balance

RECORD = "run.json"
REPLACED = ".replaced.part"  # where --overwrite keeps an unfinished run until the new run has started
FINISHED = "finished"  # in the training state: a complete model that will replace an earlier one
CURVES = ("history.jsonl", "tensorboard")
# The files of a run in its directory; --overwrite removes only these.
OWN_FILES = (
    *FILES,
    *GRAPHS,
    *sorted({name for featurizer in kinds().values() for name in getattr(featurizer, "files")}),  # noqa: B009
    *("manifest.json", *CURVES, TRAINING),
)


def _log(line: str) -> None:
    logging.getLogger("orderfree").info(line)


class Interrupted(Exception):
    """Training was stopped on request; its state is saved."""


def train(
    config: Config | Mapping[str, Any],
    train_data: Data | Iterable[Input],
    valid_data: Data | Iterable[Input] | None,
    out: Path | str,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] | None = None,
    stop: Stop | None = None,
    progress: bool = False,
    warm_start: Path | str | None = None,
    listeners: Sequence[Listener] = (),
) -> TrainedModel:
    """Trains a model on files, or on examples (dicts, `Example`s) in memory, and writes it to `out`. `config`: the
    result of `load_config`, or its sections as a dict. `resume` continues the run in `out` exactly. Without
    `valid_data`, the share `data.valid_fraction` of the training data is held out.

    Messages are logged (logger `orderfree`, level INFO), or passed to `say`. `progress`: a bar on a terminal.

    `warm_start` is the directory of an earlier model with the same settings under `model`: training starts from its
    vocabulary, labels and weights, and adds labels that it does not have.

    `stop` lets the caller end the training from another thread, as Ctrl-C does from the keyboard; `listeners` receive
    every update and validation."""
    config = as_config(config)
    train_data, valid_data = as_data(train_data, config), None if valid_data is None else as_data(valid_data, config)
    request = Request(
        train_data=train_data,
        valid_data=valid_data,
        out=Path(out),
        resume=resume,
        overwrite=overwrite,
        warm_start=None if warm_start is None else Path(warm_start),
        say=say or _log,
        stop=stop or Stop(),
        progress=progress,
        listeners=listeners,
        team=Team.join(),
    )
    if not request.team.leads:
        return _assist(train_data, valid_data, request.out, request.stop, request.team)
    request.refuse_contradictions()
    data = None if resume else request.fingerprints(config)  # read errors are raised before anything is written
    if isinstance(train_data, str | Path) and not resume:
        config = _with_columns(config, train_data, request.say)
    with ExitStack() as stack:
        with explained(request.out):
            stack.enter_context(making_directory(request.out))
            stack.enter_context(locked(request.out))
        return _train(config, request, data)


def _with_columns(config: Config, path: str | Path, say: Callable[[str], None]) -> Config:
    """The config with the columns of this table, which are stored with the model."""
    columns, told = resolve(path, config.data)
    if told is not None:
        say(told)
    return config.model_copy(update={"data": columns})


def _train(config: Config, request: Request, data: dict[str, str] | None) -> TrainedModel:
    out, resume, say = request.out, request.resume, request.say
    if not resume:
        _put_back(out)
    present = _present(out, resume, request.overwrite)
    replaces = fingerprint(out / "manifest.json") if "manifest.json" in present else None
    threads, before = config.training.threads or default_threads(), None
    if resume:
        config, threads, before, replaces = _reopen(out)
    config = _with_precision(config, say)
    data = request.fingerprints(config) if data is None else data
    if before is not None:
        _check_same_data(out, before, data)
    with explained(out) if resume else _starting(out, present):
        if not resume:
            _record_start(config, request, {"data": data, "threads": threads, "replaces": replaces})
        use_processor(threads, precision_needed(config))
        cache = out / TRAINING / "data"
        cache.mkdir(parents=True, exist_ok=True)
        prepared, earlier = _prepared(config, request.train_data, request.valid_data, out, cache, say)
        if request.fingerprints(config) != data:
            changed = request.train_data if isinstance(request.train_data, str | Path) else None
            raise DataError("was changed while it was read; start again when nobody writes to it.", changed)
        network = _network(config, prepared, earlier, cache, say)
    request.team.wait()  # the other processes read settings and solved encoders from the directory
    provenance = {"data": data, **prepared.provenance, "seed": config.seed, "versions": versions()}
    trained = TrainedModel(config, prepared.labels, prepared.featurizer, network, provenance=provenance)
    say(f"{network.parameter_count():,} parameters, {threads} CPU thread(s)")
    trainer = Trainer(trained, prepared, out / TRAINING, stop=request.stop, say=say, team=request.team)
    curves = out if replaces is None else out / TRAINING
    shown = _listeners(config, curves, trainer.select_decoder, request.progress, say is _log)
    trainer.listeners = [*shown, *request.listeners]
    with _stopping_cleanly(trainer.stop):
        if not trainer.fit():
            raise Interrupted(f"stopped at update {trainer.progress.update:,} of {trainer.total_updates:,}; saved")
    finish(trainer, out)
    return trained


def _record_start(config: Config, request: Request, started: dict[str, Any]) -> None:
    """Writes what a resumed run needs. `replaces`: the model that stays in place until this one is complete."""
    parts = {"train": request.train_data, "valid": request.valid_data}
    files = {part: str(path) if isinstance(path, str | Path) else None for part, path in parts.items()}
    with writing_directory(request.out / TRAINING) as aside:
        write_json(aside / RECORD, {"config": config.model_dump(), "files": files, **started})
        if request.warm_start is not None:
            copy_model(request.warm_start, aside / WARM)


def _with_precision(config: Config, say: Callable[[str], None]) -> Config:
    """The config with `auto` resolved to a precision, so that a resumed run keeps it."""
    precision = chosen_precision(config.training.precision)
    if slow := refuse_unable(precision):
        say(slow)
    return config.model_copy(update={"training": config.training.model_copy(update={"precision": precision})})


def _prepared(
    config: Config, train_data: Data, valid_data: Data | None, out: Path, cache: Path, say: Callable[[str], None]
) -> tuple[Prepared, TrainedModel | None]:
    """The corpora, encoded into `cache`, and the model to start from, if any."""
    earlier = load_model(out / TRAINING / WARM) if (out / TRAINING / WARM).exists() else None
    return prepare(config, train_data, valid_data, cache, say, earlier), earlier


def _network(
    config: Config, prepared: Prepared, earlier: TrainedModel | None, cache: Path, say: Callable[[str], None]
) -> OrderFreeModel:
    """The network before the first update."""
    torch.manual_seed(config.seed)
    network = build_network(config, prepared.featurizer.input_size, len(prepared.labels))
    balance = label_balance(config, prepared.labels, len(prepared.train))
    start_encoder(network, prepared.train, cache, config.seed, say, balance, prepared.valid)
    if earlier is not None:
        adopt_weights(network, earlier)
    return network


def _assist(train_data: Data, valid_data: Data | None, out: Path, stop: Stop, team: Team) -> TrainedModel:
    """The part of every process but the first: it waits until the first has started the run, reads settings and solved
    encoders from its directory, encodes the data itself, and takes part in training. It writes nothing there."""
    team.wait()
    started = out / TRAINING / RECORD
    if not started.exists():
        raise OrderfreeError(f"{out}: holds no run of the first process; all of them need the same directory.")
    record = json.loads(started.read_text(encoding="utf-8"))
    config = complete_config(record["config"], str(started))
    _check_same_data(out, record["data"], fingerprints(config, train_data, valid_data))
    use_processor(int(record["threads"]), precision_needed(config))

    def silent(line: str) -> None:
        pass

    with tempfile.TemporaryDirectory() as folder:
        prepared, earlier = _prepared(config, train_data, valid_data, out, Path(folder), silent)
        network = _network(config, prepared, earlier, out / TRAINING / "data", silent)
        trained = TrainedModel(config, prepared.labels, prepared.featurizer, network)
        trainer = Trainer(trained, prepared, out / TRAINING, stop=stop, team=team)
        with _stopping_cleanly(trainer.stop):
            if not trainer.fit():
                raise Interrupted("stopped with the other processes")
    return trained


def finish(trainer: Trainer, out: Path) -> None:
    """Scores the best weights with every decoder, writes the model directory, removes the training state."""
    trained = trainer.trained
    predictor = Predictor(trained)
    decided = decide(predictor, trainer.data.valid, predictor.decoders, trainer.data.train)
    trained.decisions = decided.decisions
    calibrated = repair_probabilities(trained, trainer.data.valid)
    trained.metrics = {
        "update": trainer.progress.best_update,
        "updates": trainer.progress.update,
        "selected_by": f"{trainer.select_decoder} {trained.config.training.select_metric}",
        "validation": decided.scores,
        "decided": decided.values,
        "calibration": calibrated,
    }
    default = default_decoder(trained.config, decided.decisions)
    trained.metrics["default"] = {
        "decoder": default,
        "search": decided.decisions.look_up(default).search,
        "scores": decided.scores_of(default),
    }
    data = trainer.data
    refitted = solve_again(trained.network, data.train, data.valid, trained.config.seed, trainer.say, trainer.balance)
    trained.provenance["solved_with_validation"] = refitted
    whole = out
    if (out / "manifest.json").exists():  # of the model that this one replaces, usable until now
        whole = out / TRAINING / FINISHED
        whole.mkdir(exist_ok=True)
    save_model(trained, whole, model_card(trained))
    _move_in(out, whole)
    shutil.rmtree(out / TRAINING)  # holds encoded training texts, which must not be shared with the finished model


def _move_in(out: Path, whole: Path) -> None:
    """Replaces the earlier model by a complete one. Without a manifest `out` counts as unfinished: if this is
    interrupted, --resume writes the model again."""
    if whole != out:
        (out / "manifest.json").unlink()
        for name in (name for name in OWN_FILES if name not in (TRAINING, "manifest.json")):
            _remove(out / name)
        files = sorted(whole.iterdir(), key=lambda file: file.name == "manifest.json")  # the manifest last
        for file in files:
            file.replace(out / file.name)
        sync_directory(out)
    for name in CURVES:
        if (out / TRAINING / name).exists():
            _remove(out / name)
            (out / TRAINING / name).replace(out / name)


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def _present(out: Path, resume: bool, overwrite: bool) -> list[str]:
    """The files of a run in `out`; refuses to replace them without `overwrite`."""
    present = [name for name in OWN_FILES if (out / name).exists()]
    if not present or resume:
        return present
    unfinished = (out / TRAINING / RECORD).exists()
    if not unfinished and "manifest.json" not in present:  # for example somebody's README.md
        raise OrderfreeError(f"{out}: holds {present[0]} but no run; choose a new or empty directory.")
    if not overwrite:
        advice = "go on with it (--resume) or replace it (--overwrite)" if unfinished else "replace it with --overwrite"
        raise OrderfreeError(f"{out}: already holds a run ({present[0]}); {advice}.")
    return present


def _put_back(out: Path) -> None:
    """Restores the run that --overwrite had moved aside, if it was killed before the new run had started."""
    replaced = out / REPLACED
    if not replaced.is_dir():
        return
    shutil.rmtree(out / TRAINING, ignore_errors=True)
    for path in replaced.iterdir():
        path.rename(out / path.name)
    replaced.rmdir()


@contextmanager
def _starting(out: Path, present: list[str]) -> Iterator[None]:
    """Moves an unfinished run aside; a finished model stays until the new one is complete. If the new run cannot start,
    for example because of its data, everything is restored."""
    with explained(out):
        remove_leftovers(out)
        replaced = out / REPLACED
        replaced.mkdir()
        for name in present if "manifest.json" not in present else [TRAINING] * (TRAINING in present):
            (out / name).rename(replaced / name)
        try:
            yield
        except BaseException:
            _put_back(out)
            raise
        shutil.rmtree(replaced)


def _reopen(out: Path) -> tuple[Config, int, dict[str, str], str | None]:
    """Config, number of threads and data fingerprints of the unfinished run in `out`, and the model it replaces."""
    record = out / TRAINING / RECORD
    if (out / "manifest.json").exists() and not _is_replaced(out):
        shutil.rmtree(out / TRAINING, ignore_errors=True)  # the run was killed while it removed its state
        raise OrderfreeError(f"{out}: this run is finished, there is nothing to resume; --overwrite starts it anew.")
    if not record.exists():
        raise OrderfreeError(f"{out}: holds no unfinished run to resume; leave out --resume to start one.")
    for directory in (out, out / TRAINING):
        remove_leftovers(directory)
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
        config, threads = complete_config(content["config"], str(record)), int(content["threads"])
        before, replaces = dict(content["data"]), content.get("replaces")
    except (ValueError, KeyError, TypeError) as error:
        raise ModelDirectoryError(f"{record}: is damaged ({error}); start again with --overwrite.") from None
    return config, threads, before, replaces


def _is_replaced(out: Path) -> bool:
    """Whether the unfinished run in `out` was to replace the finished model there."""
    try:
        content = json.loads((out / TRAINING / RECORD).read_text(encoding="utf-8"))
        return bool(content["replaces"] == fingerprint(out / "manifest.json"))
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _check_same_data(out: Path, before: dict[str, str], data: dict[str, str]) -> None:
    changed = sorted(part for part in before.keys() | data.keys() if before.get(part) != data.get(part))
    if changed:
        what = changed[0] if changed[0].startswith(PRETRAINED) else f"{changed[0].replace('_', ' ')} data"
        raise OrderfreeError(
            f"{out}: the {what} is not what this run was started with; give the same file, or --overwrite."
        )


def _listeners(config: Config, out: Path, decoder: str, progress: bool, logged: bool) -> list[Listener]:
    listeners: list[Listener] = [History(out / "history.jsonl")]
    if progress or logged:
        listeners.append(ProgressLines(config.training.select_metric, decoder, None if progress else _log))
    if config.training.tensorboard and TensorBoard.available():
        listeners.append(TensorBoard(out / "tensorboard"))
    return listeners


@contextmanager
def _stopping_cleanly(stop: Stop) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, finishes the step, saves and ends; a second signal ends at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    try:
        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: the caller handles signals
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
