"""The files of a search: `study.json` with every trial, and the best model so far."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from ...checkpoint import TrainedModel, save_model
from ...errors import ModelDirectoryError, OrderfreeError
from ...system.files import remove_leftovers, write_json, write_text
from ...training.card import model_card

RECORD, TRIALS, BEST = "study.json", "trials", "best.yaml"
FORMAT = 1


def open_record(out: Path, about: dict[str, Any]) -> dict[str, Any]:
    """The record of the search in `out`, which must have the same settings; a new record if there is none."""
    about = json.loads(json.dumps({"format": FORMAT, **about}))  # as read back from the file
    path = out / RECORD
    remove_leftovers(out)
    if not path.exists():
        if others := sorted(file.name for file in out.iterdir() if not file.name.startswith(".")):
            raise OrderfreeError(f"{out}: holds {others[0]} and no {RECORD}; choose a new directory for the search.")
        return {**about, "trials": []}
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        trials = [(trial["number"], trial["state"], trial["suggested"]) for trial in record["trials"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelDirectoryError(f"{path}: is damaged ({error}); choose a new directory for the search.") from None
    if [number for number, _, _ in trials] != list(range(len(trials))):
        raise ModelDirectoryError(f"{path}: is damaged (trials are missing); choose a new directory for the search.")
    if changed := next((key for key in about if record.get(key) != about[key]), None):
        raise OrderfreeError(
            f"{out}: was searched with another {changed}; give the same settings and files, or choose a new directory."
        )
    return record


def write_record(out: Path, record: dict[str, Any]) -> None:
    write_json(out / RECORD, record)


def ended(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Trials that have ended; at most one other trial is unfinished."""
    return [trial for trial in record["trials"] if trial["state"] != "running"]


def best_trial(record: dict[str, Any]) -> dict[str, Any] | None:
    """The first trial with the highest score; a pruned trial also has a score and a model."""
    scored = [trial for trial in record["trials"] if trial.get("score") is not None]
    return max(scored, key=lambda trial: (trial["score"], -trial["number"]), default=None)


def publish(trained: TrainedModel, run: Path, out: Path) -> None:
    """Writes the model of a trial to `out`, in place of the previous one, and its config."""
    manifest = out / "manifest.json"
    before = json.loads(manifest.read_text(encoding="utf-8"))["files"] if manifest.exists() else {}
    manifest.unlink(missing_ok=True)
    for name in before:
        (out / name).unlink(missing_ok=True)
    shutil.copyfile(run / "history.jsonl", out / "history.jsonl")
    write_text(out / BEST, yaml.safe_dump(trained.config.model_dump(), sort_keys=False, allow_unicode=True))
    save_model(trained, out, model_card(trained))
