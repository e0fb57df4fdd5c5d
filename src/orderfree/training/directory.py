"""The run directory: the files of a run, its start, its resumption and its replacement by a finished model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..build import stored_config
from ..checkpoint import FILES, TRAINING
from ..config import Config
from ..data.featurizers import kinds
from ..errors import ModelDirectoryError, OrderfreeError
from ..nn.graphs import GRAPHS
from ..system.files import explained, fingerprint, remove_leftovers, sync_directory, write_json, writing_directory
from .prepare import PRETRAINED
from .request import Request
from .warm import WARM, copy_model

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


def record_start(config: Config, request: Request, started: dict[str, Any]) -> None:
    """Writes what a resumed run needs. `replaces`: the model that stays in place until this one is complete."""
    parts = {"train": request.train_data, "valid": request.valid_data}
    files = {part: str(path) if isinstance(path, str | Path) else None for part, path in parts.items()}
    with writing_directory(request.out / TRAINING) as aside:
        write_json(aside / RECORD, {"config": config.model_dump(), "files": files, **started})
        if request.warm_start is not None:
            copy_model(request.warm_start, aside / WARM)


def move_in(out: Path, whole: Path) -> None:
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


def present_files(out: Path, resume: bool, overwrite: bool) -> list[str]:
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


def put_back(out: Path) -> None:
    """Restores the run that --overwrite had moved aside, if it was killed before the new run had started."""
    replaced = out / REPLACED
    if not replaced.is_dir():
        return
    shutil.rmtree(out / TRAINING, ignore_errors=True)
    for path in replaced.iterdir():
        path.rename(out / path.name)
    replaced.rmdir()


@contextmanager
def starting(out: Path, present: list[str]) -> Iterator[None]:
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
            put_back(out)
            raise
        shutil.rmtree(replaced)


def reopen(out: Path) -> tuple[Config, int, dict[str, str], str | None]:
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
        config, threads = stored_config(content["config"], str(record)), int(content["threads"])
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


def check_same_data(out: Path, before: dict[str, str], data: dict[str, str]) -> None:
    changed = sorted(part for part in before.keys() | data.keys() if before.get(part) != data.get(part))
    if changed:
        what = changed[0] if changed[0].startswith(PRETRAINED) else f"{changed[0].replace('_', ' ')} data"
        raise OrderfreeError(
            f"{out}: the {what} is not what this run was started with; give the same file, or --overwrite."
        )
