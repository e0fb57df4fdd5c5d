"""One run from files to a finished model directory: new, resumed or overwriting an old one."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import torch

from ..build import build_network, complete_config
from ..checkpoint import FILES, TRAINING, TrainedModel, load_model, save_model, versions
from ..config import Config
from ..data.featurizers import kinds
from ..errors import DataError, ModelDirectoryError, OrderfreeError
from ..evaluation import decide
from ..files import explained, locked, making_directory, remove_leftovers, write_json, writing_directory
from ..inference import Predictor, default_threads
from ..machine import use_processor
from ..nn.graphs import GRAPHS
from ..nn.model import OrderFreeModel
from ..team import Team
from .card import model_card
from .listeners import History, ProgressLines, TensorBoard
from .loop import Listener, Stop, Trainer
from .prepare import PRETRAINED, Data, Prepared, fingerprints, prepare
from .solve import solve_again, start_encoder
from .warm import WARM, adopt_weights, copy_model
from .weights import label_balance

RECORD = "run.json"
REPLACED = ".replaced.part"  # where --overwrite keeps the old run until the new one has started
# What a run may have left in its directory; --overwrite removes these and nothing else.
OWN_FILES = (
    *FILES,
    *GRAPHS,
    *sorted({name for featurizer in kinds().values() for name in getattr(featurizer, "files")}),  # noqa: B009
    *("manifest.json", "history.jsonl", "tensorboard", TRAINING),
)


class Interrupted(Exception):
    """Training was asked to stop; its state is saved."""


def train(
    config: Config,
    train_data: Data,
    valid_data: Data | None,
    out: Path | str,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda _: None,
    stop: Stop | None = None,
    progress: bool = True,
    warm_start: Path | str | None = None,
    listeners: Sequence[Listener] = (),
) -> TrainedModel:
    """Trains a model on files, or on examples in memory, and writes it to `out`. With `resume`, goes on with the run in
    `out`, exactly. Without `valid_data`, the share `data.valid_fraction` of the training data is held out. `progress`:
    shows a bar, or a line per validation, on standard error.

    `warm_start` is the directory of an earlier model to start from: made with the same settings under `model`, it lends
    its vocabulary, labels and weights, and labels it does not have are added.

    `stop` lets the caller end the training from another thread, as Ctrl-C does from the keyboard; `listeners` are told
    of every update and validation."""
    out = Path(out)
    warm_start = None if warm_start is None else Path(warm_start)
    team = Team.join()
    if not team.leads:
        return _assist(train_data, valid_data, out, stop or Stop(), team)
    if warm_start is not None and warm_start.resolve() == out.resolve():
        raise OrderfreeError(f"{out}: is the earlier model itself; write the new one to another directory.")
    if resume and overwrite:
        raise OrderfreeError("--resume goes on with the run in --out and --overwrite replaces it; give one of them.")
    if out.exists() and not out.is_dir():
        raise OrderfreeError(f"{out}: is a file, expected a directory to write the run to.")
    data = None if resume else fingerprints(config, train_data, valid_data)  # what cannot be read leaves no trace
    folder = Path(train_data).resolve() if isinstance(train_data, str | Path) else None
    if folder is not None and folder.is_dir() and out.resolve().is_relative_to(folder):
        raise OrderfreeError(f"{out}: lies inside the folder of training data; choose another place for the run.")
    with ExitStack() as stack:
        with explained(out):
            stack.enter_context(making_directory(out))
            stack.enter_context(locked(out))
        return _train(
            config,
            train_data,
            valid_data,
            out,
            data,
            resume,
            overwrite,
            say,
            stop,
            progress,
            warm_start,
            listeners,
            team,
        )


def _train(
    config: Config,
    train_data: Data,
    valid_data: Data | None,
    out: Path,
    data: dict[str, str] | None,
    resume: bool,
    overwrite: bool,
    say: Callable[[str], None],
    stop: Stop | None,
    progress: bool,
    warm_start: Path | None,
    listeners: Sequence[Listener],
    team: Team,
) -> TrainedModel:
    if not resume:
        _put_back(out)
    present = _present(out, resume, overwrite)
    config, threads, before = _reopen(out) if resume else (config, config.training.threads or default_threads(), None)
    data = fingerprints(config, train_data, valid_data) if data is None else data
    if before is not None:
        _check_same_data(out, before, data)
    with explained(out) if resume else _starting(out, present):
        if not resume:
            parts = {"train": train_data, "valid": valid_data}
            files = {part: str(path) if isinstance(path, str | Path) else None for part, path in parts.items()}
            record = {"config": config.model_dump(), "files": files, "data": data, "threads": threads}
            with writing_directory(out / TRAINING) as aside:
                write_json(aside / RECORD, record)
                if warm_start is not None:
                    copy_model(warm_start, aside / WARM)
        use_processor(threads)
        cache = out / TRAINING / "data"
        cache.mkdir(parents=True, exist_ok=True)
        prepared, earlier = _prepared(config, train_data, valid_data, out, cache, say)
        if fingerprints(config, train_data, valid_data) != data:
            changed = train_data if isinstance(train_data, str | Path) else None
            raise DataError("was changed while it was read; start again when nobody writes to it.", changed)
        network = _network(config, prepared, earlier, cache, say)
    team.wait()  # the others find everything in the directory
    provenance = {"data": data, **prepared.provenance, "seed": config.seed, "versions": versions()}
    trained = TrainedModel(config, prepared.labels, prepared.featurizer, network, provenance=provenance)
    say(f"{network.parameter_count():,} parameters, {threads} CPU thread(s)")
    trainer = Trainer(trained, prepared, out / TRAINING, stop=stop or Stop(), say=say, team=team)
    trainer.listeners = [*_listeners(config, out, trainer.select_decoder, progress), *listeners]
    with _stopping_cleanly(trainer.stop):
        if not trainer.fit():
            raise Interrupted(f"stopped at update {trainer.progress.update:,} of {trainer.total_updates:,}; saved")
    finish(trainer, out)
    return trained


def _prepared(
    config: Config, train_data: Data, valid_data: Data | None, out: Path, cache: Path, say: Callable[[str], None]
) -> tuple[Prepared, TrainedModel | None]:
    """The corpora, encoded into `cache`, and the model to start from, where there is one."""
    earlier = load_model(out / TRAINING / WARM) if (out / TRAINING / WARM).exists() else None
    return prepare(config, train_data, valid_data, cache, say, earlier), earlier


def _network(
    config: Config, prepared: Prepared, earlier: TrainedModel | None, cache: Path, say: Callable[[str], None]
) -> OrderFreeModel:
    """As it is before the first update."""
    torch.manual_seed(config.seed)
    network = build_network(config, prepared.featurizer.input_size, len(prepared.labels))
    balance = label_balance(config, prepared.labels, len(prepared.train))
    start_encoder(network, prepared.train, cache, config.seed, say, balance, prepared.valid)
    if earlier is not None:
        adopt_weights(network, earlier)
    return network


def _assist(train_data: Data, valid_data: Data | None, out: Path, stop: Stop, team: Team) -> TrainedModel:
    """What every process but the first does: waits until that one has started the run, takes settings and solved
    encoders from its directory, encodes the data for itself, and trains along. It writes nothing there."""
    team.wait()
    started = out / TRAINING / RECORD
    if not started.exists():
        raise OrderfreeError(f"{out}: holds no run of the first process; all of them need the same directory.")
    record = json.loads(started.read_text(encoding="utf-8"))
    config = complete_config(record["config"], str(started))
    _check_same_data(out, record["data"], fingerprints(config, train_data, valid_data))
    use_processor(int(record["threads"]))

    def silent(line: str) -> None:
        pass

    with tempfile.TemporaryDirectory() as own:
        prepared, earlier = _prepared(config, train_data, valid_data, out, Path(own), silent)
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
    found = decide(predictor, trainer.data.valid, predictor.decoders, trainer.data.train)
    trained.thresholds, trained.decisions, trained.powers = found.thresholds, found.decoders, found.powers
    trained.metrics = {
        "update": trainer.progress.best_update,
        "updates": trainer.progress.update,
        "selected_by": f"{trainer.select_decoder} {trained.config.training.select_metric}",
        "validation": found.scores,
        "decided": found.values,
    }
    data = trainer.data
    refitted = solve_again(trained.network, data.train, data.valid, trained.config.seed, trainer.say, trainer.balance)
    trained.provenance["solved_with_validation"] = refitted
    save_model(trained, out, model_card(trained))
    shutil.rmtree(out / TRAINING)  # holds encoded training texts: a finished model is shared without them


def _present(out: Path, resume: bool, overwrite: bool) -> list[str]:
    """What a run has left in `out`; refuses to touch it unless told to."""
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
    with explained(out):
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
        what = changed[0] if changed[0].startswith(PRETRAINED) else f"{changed[0].replace('_', ' ')} data"
        raise OrderfreeError(
            f"{out}: the {what} is not what this run was started with; give the same file, or --overwrite."
        )


def _listeners(config: Config, out: Path, decoder: str, progress: bool) -> list[Listener]:
    listeners: list[Listener] = [History(out / "history.jsonl")]
    if progress:
        listeners.append(ProgressLines(config.training.select_metric, decoder))
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
