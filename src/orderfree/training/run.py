"""One run from files to a finished model directory: new, resumed or overwriting an old one."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypedDict, Unpack

import torch

from ..build import as_config, build_network, complete_config, decoders_of, is_shortlisted, precision_needed
from ..checkpoint import TRAINING, TrainedModel, load_model, save_model, versions
from ..config import Config
from ..data.inputs import Input
from ..data.readers import resolve
from ..decisions.records import default_decoder
from ..errors import ConfigError, DataError, OrderfreeError
from ..evaluation import decide
from ..evaluation.probabilities import repair_probabilities
from ..inference import Predictor
from ..nn.model import OrderFreeModel
from ..system.files import (
    explained,
    fingerprint,
    locked,
    making_directory,
)
from ..system.precision import chosen_precision, refuse_unable
from ..system.processor import default_threads, use_processor
from ..system.wording import counted
from .card import model_card
from .directory import (
    FINISHED,
    RECORD,
    check_same_data,
    move_in,
    present_files,
    put_back,
    record_start,
    reopen,
    starting,
)
from .distributed.processes import Team
from .listeners import History, ProgressLines, TensorBoard
from .loop import Listener, Stop, Trainer
from .prepare import Data, Prepared, as_data, prepare
from .request import Request, log_line
from .solve import solve_again, start_encoder
from .warm import WARM, adopt_weights
from .weights import label_balance


class Interrupted(Exception):
    """Training was stopped on request; its state is saved."""


class Following(TypedDict, total=False):
    """How a training is followed and stopped from outside: keywords of `train`."""

    say: Callable[[str], None]
    progress: bool
    stop: Stop
    listeners: Sequence[Listener]


def train(
    config: Config | Mapping[str, Any],
    train_data: Data | Iterable[Input],
    valid_data: Data | Iterable[Input] | None,
    out: Path | str,
    resume: bool = False,
    overwrite: bool = False,
    warm_start: Path | str | None = None,
    **following: Unpack[Following],
) -> TrainedModel:
    """Trains a model on files, or on examples (dicts, `Example`s) in memory, and writes it to `out`. `config`: the
    result of `load_config`, or its sections as a dict. `resume` continues the run in `out` exactly. Without
    `valid_data`, the share `data.valid_fraction` of the training data is held out.

    `warm_start` is the directory of an earlier model with the same settings under `model`: training starts from its
    vocabulary, labels and weights, and adds labels that it does not have.

    Messages are logged (logger `orderfree`, level INFO), or passed to the function `say`. `progress=True` shows a bar
    on a terminal. `stop` lets the caller end the training from another thread, as Ctrl-C does from the keyboard;
    `listeners` receive every update and validation."""
    config = as_config(config)
    train_data, valid_data = as_data(train_data, config), None if valid_data is None else as_data(valid_data, config)
    request = Request(
        train_data=train_data,
        valid_data=valid_data,
        out=Path(out),
        resume=resume,
        overwrite=overwrite,
        warm_start=None if warm_start is None else Path(warm_start),
        team=Team.join(),
        **following,
    )
    if not request.team.leads:
        return _assist(request)
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
    columns, remark = resolve(path, config.data)
    if remark is not None:
        say(remark)
    return config.model_copy(update={"data": columns})


def _train(config: Config, request: Request, data: dict[str, str] | None) -> TrainedModel:
    out, resume, say = request.out, request.resume, request.say
    if not resume:
        put_back(out)
    present = present_files(out, resume, request.overwrite)
    replaces = fingerprint(out / "manifest.json") if "manifest.json" in present else None
    threads, before = config.training.threads or default_threads(), None
    if resume:
        config, threads, before, replaces = reopen(out)
    config = _with_precision(config, say)
    data = request.fingerprints(config) if data is None else data
    if before is not None:
        check_same_data(out, before, data)
    with explained(out) if resume else starting(out, present):
        if not resume:
            record_start(config, request, {"data": data, "threads": threads, "replaces": replaces})
        use_processor(threads, precision_needed(config))
        cache = out / TRAINING / "data"
        cache.mkdir(parents=True, exist_ok=True)
        prepared, earlier = _prepared(config, request, cache, say)
        if request.fingerprints(config) != data:
            changed = request.train_data if isinstance(request.train_data, str | Path) else None
            raise DataError("was changed while it was read; start again when no program writes to it.", changed)
        network = _network(config, prepared, earlier, cache, say)
    request.team.wait()  # the other processes read settings and solved encoders from the directory
    provenance = {"data": data, **prepared.provenance, "seed": config.seed, "versions": versions()}
    trained = TrainedModel(config, prepared.labels, prepared.featurizer, network, provenance=provenance)
    say(f"{network.parameter_count():,} parameters, {counted(threads, 'CPU thread')}")
    trainer = Trainer(trained, prepared, out / TRAINING, stop=request.stop, say=say, team=request.team)
    curves = out if replaces is None else out / TRAINING
    shown = _listeners(config, curves, trainer.select_decoder, request.progress, say is log_line)
    trainer.listeners = [*shown, *request.listeners]
    with _stopping_cleanly(trainer.stop):
        if not trainer.fit():
            raise Interrupted(f"stopped at update {trainer.progress.update:,} of {trainer.total_updates:,}; saved")
    finish(trainer, out)
    return trained


def _with_precision(config: Config, say: Callable[[str], None]) -> Config:
    """The config with `auto` resolved to a precision, so that a resumed run keeps it."""
    precision = chosen_precision(config.training.precision)
    if slow := refuse_unable(precision):
        say(slow)
    return config.model_copy(update={"training": config.training.model_copy(update={"precision": precision})})


def _prepared(
    config: Config, request: Request, cache: Path, say: Callable[[str], None]
) -> tuple[Prepared, TrainedModel | None]:
    """The corpora, encoded into `cache`, and the model to start from, if any."""
    before = request.out / TRAINING / WARM
    earlier = load_model(before) if before.exists() else None
    return prepare(config, request.train_data, request.valid_data, cache, say, earlier), earlier


def _network(
    config: Config, prepared: Prepared, earlier: TrainedModel | None, cache: Path, say: Callable[[str], None]
) -> OrderFreeModel:
    """The network before the first update."""
    torch.manual_seed(config.seed)
    network = build_network(config, prepared.featurizer.input_size, len(prepared.labels))
    _check_decoder(config, network)
    balance = label_balance(config, prepared.labels, len(prepared.train))
    start_encoder(network, prepared.train, cache, config.seed, say, balance, prepared.valid)
    if earlier is not None:
        adopt_weights(network, earlier)
    return network


def _check_decoder(config: Config, network: OrderFreeModel) -> None:
    """What the config alone could not tell: the number of labels decides, too."""
    name, available = config.decoding.decoder, decoders_of(config, is_shortlisted(network))
    if name is not None and name not in available:
        raise ConfigError(
            f"decoding.decoder: {name!r} needs shortlists, and {network.num_labels:,} labels are too few for them; "
            f"choose one of {', '.join(available)}, or lower model.encoder_options.shortlist."
        )


def _assist(request: Request) -> TrainedModel:
    """The part of every process but the first: it waits until the first has started the run, reads settings and solved
    encoders from its directory, encodes the data itself, and takes part in training. It writes nothing there."""
    out, team = request.out, request.team
    team.wait()
    started = out / TRAINING / RECORD
    if not started.exists():
        raise OrderfreeError(f"{out}: holds no run of the first process; all of them need the same directory.")
    record = json.loads(started.read_text(encoding="utf-8"))
    config = complete_config(record["config"], str(started))
    check_same_data(out, record["data"], request.fingerprints(config))
    use_processor(int(record["threads"]), precision_needed(config))

    def silent(line: str) -> None:
        pass

    with tempfile.TemporaryDirectory() as folder:
        prepared, earlier = _prepared(config, request, Path(folder), silent)
        network = _network(config, prepared, earlier, out / TRAINING / "data", silent)
        trained = TrainedModel(config, prepared.labels, prepared.featurizer, network)
        trainer = Trainer(trained, prepared, out / TRAINING, stop=request.stop, team=team)
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
    move_in(out, whole)
    shutil.rmtree(out / TRAINING)  # holds encoded training texts, which must not be shared with the finished model


def _listeners(config: Config, out: Path, decoder: str, progress: bool, logged: bool) -> list[Listener]:
    listeners: list[Listener] = [History(out / "history.jsonl")]
    if progress or logged:
        listeners.append(ProgressLines(config.training.select_metric, decoder, None if progress else log_line))
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
