"""`orderfree tune`: the trials of a search, one run each; the best one is kept as a model.

Optuna suggests settings and prunes trials. The trials are written to `study.json` atomically, and Optuna's study is
rebuilt from this file for every trial: a search that was killed continues with the same suggestions. (Optuna's journal
cannot be read after a kill has truncated a line of it.)"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...build import load_config
from ...checkpoint import TRAINING, TrainedModel, load_model
from ...config import Config
from ...errors import ConfigError, MissingLibraryError, TrainingError, out_of_memory
from ...system.files import explained, locked, making_directory
from ...training.listeners import read_history
from ...training.loop import Stop, after
from ...training.prepare import fingerprints
from ...training.run import Interrupted, train
from ...training.state import Progress
from .space import Dimension, Space, read_space, usual_space
from .study_file import TRIALS, best_trial, ended, open_record, publish, write_record

if TYPE_CHECKING:
    import optuna

RANDOM_TRIALS = 8  # before suggestions depend on earlier trials
UNPRUNED_TRIALS, UNPRUNED_EPOCHS = 5, 2  # no trial is pruned before there are so many trials, or in its first epochs


@dataclass(frozen=True)
class Plan:
    train: Path
    valid: Path | None
    out: Path
    trials: int
    metric: str  # one of `evaluation.TUNED`
    config: Path | None = None
    preset: str | None = None
    settings: tuple[str, ...] = ()
    space: Path | None = None
    budget_seconds: float | None = None  # of this call

    def with_values(self, values: dict[str, Any]) -> Config:
        """The config of a trial; its checkpoint is selected by the metric of the search."""
        varied = [f"{key}={json.dumps(value)}" for key, value in values.items()]
        return load_config(self.config, [*self.settings, f"training.select_metric={self.metric}", *varied], self.preset)


def tune(plan: Plan, say: Callable[[str], None], progress: bool = False) -> dict[str, Any]:
    """Runs the missing trials and returns the record. Raises Interrupted if a person stops the search."""
    _optuna()
    base = plan.with_values({})
    space = usual_space(base) if plan.space is None else read_space(plan.space, plan.with_values)
    about = {
        "metric": plan.metric,
        "config": base.model_dump(),
        "space": {key: dimension.model_dump(exclude_defaults=True) for key, dimension in space.items()},
        "data": fingerprints(base, plan.train, plan.valid),
    }
    with ExitStack() as stack:
        with explained(plan.out):
            stack.enter_context(making_directory(plan.out))
            stack.enter_context(locked(plan.out))
        record = open_record(plan.out, about)
        ends = None if plan.budget_seconds is None else time.monotonic() + plan.budget_seconds
        while len(ended(record)) < plan.trials:
            left = None if ends is None else ends - time.monotonic()
            if left is not None and left <= 0:
                say(f"the budget is used up after {len(ended(record))} trials; the same command goes on")
                break
            try:
                _run_trial(plan, space, record, left, say, progress)
            except Interrupted:
                if ends is None or time.monotonic() < ends:  # a person, not the budget
                    raise
        return record


def importances(record: dict[str, Any]) -> dict[str, float]:
    """The share of the variance of scores that each key explains; empty if too few trials have ended."""
    optuna = _optuna()
    whole = [trial for trial in record["trials"] if trial["state"] == "complete"]
    if len(whole) < 4 or len({trial["score"] for trial in whole}) < 2:
        return {}
    evaluator = optuna.importance.MeanDecreaseImpurityImportanceEvaluator(seed=record["config"]["seed"])
    space = {key: Dimension.model_validate(content) for key, content in record["space"].items()}
    shares = optuna.importance.get_param_importances(_study(record, space, 0), evaluator=evaluator)
    return {key: float(share) for key, share in shares.items()}


def _run_trial(
    plan: Plan, space: Space, record: dict[str, Any], left: float | None, say: Callable[[str], None], progress: bool
) -> None:
    asked, trial = _next_trial(plan, space, record)
    name = f"trial {trial['number'] + 1}"
    say(f"{name} of {plan.trials}: " + ", ".join(f"{key}={value}" for key, value in trial["values"].items()))
    run, pruning, trained = plan.out / TRIALS / str(trial["number"]), Pruning(asked, plan.metric, Stop()), None
    began = time.monotonic()
    try:
        with after(left, lambda: setattr(pruning.stop, "requested", True)):
            trained = _trained(plan, trial["values"], run, pruning, progress)
        trial |= {
            "state": "pruned" if pruning.pruned else "complete",
            "decoder": trained.decisions.best[plan.metric].search,
        }
        trial["score"] = trained.metrics["decided"][plan.metric]
    except (ConfigError, TrainingError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not out_of_memory(error):
            raise
        trial |= {"state": "failed", "problem": " ".join(str(error).split())}
    finally:
        trial["seconds"] = round(trial["seconds"] + time.monotonic() - began, 1)
        trial["curve"] = pruning.curve
        if trained is not None and best_trial(record) is trial:
            publish(trained, run, plan.out)
        write_record(plan.out, record)
    shutil.rmtree(run, ignore_errors=True)
    told = f"{plan.metric} {trial['score']:.4f}" if "score" in trial else trial["problem"]
    say(f"{name}: {trial['state']}, {told}")


def _next_trial(plan: Plan, space: Space, record: dict[str, Any]) -> tuple[optuna.Trial, dict[str, Any]]:
    """The unfinished trial, or a new one, which is recorded before it starts. The first trial has the settings of the
    base config, as far as the space includes them, so that the best trial is at least as good."""
    number = len(ended(record))
    study = _study(record, space, number)
    waiting = next((trial for trial in record["trials"] if trial["state"] == "running"), None)
    if waiting is not None:
        study.enqueue_trial(waiting["suggested"])
    elif number == 0:
        suggestions = {key: dimension.suggestion(_value(record["config"], key)) for key, dimension in space.items()}
        study.enqueue_trial({key: value for key, value in suggestions.items() if value is not None})
    asked = study.ask({key: dimension.distribution() for key, dimension in space.items()})
    if waiting is None:
        values = {key: dimension.value(asked.params[key]) for key, dimension in space.items()}
        waiting = {"number": number, "state": "running", "suggested": asked.params, "values": values, "seconds": 0.0}
        record["trials"].append(waiting)
        write_record(plan.out, record)
    return asked, waiting


def _value(config: dict[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _trained(plan: Plan, values: dict[str, Any], run: Path, pruning: Pruning, progress: bool) -> TrainedModel:
    """Trains a trial. A killed trial is resumed from its saved state, restarted without one, or loaded if finished."""
    finished, begun = (run / "manifest.json").exists(), (run / TRAINING).exists()
    if finished or begun:
        pruning.remember(read_history(run / "history.jsonl"))
    else:
        shutil.rmtree(run, ignore_errors=True)
    if finished:
        return load_model(run)
    config = plan.with_values(values)
    return train(
        config, plan.train, plan.valid, run, resume=begun, stop=pruning.stop, progress=progress, listeners=[pruning]
    )


class Pruning:
    """Reports every validation to Optuna and ends a trial that is below the median of the others at the same epoch."""

    def __init__(self, trial: optuna.Trial, metric: str, stop: Stop) -> None:
        self.trial, self.metric, self.stop = trial, metric, stop
        self.pruned = False
        self.curve: list[tuple[int, float]] = []  # (epoch, score) with the decoder that selects the checkpoint

    def remember(self, history: list[dict[str, Any]]) -> None:
        for row in history:
            self._report(row)

    def started(self, progress: Progress, total_updates: int) -> None:
        pass

    def updated(self, progress: Progress, loss: float) -> None:
        pass

    def validated(self, progress: Progress, row: dict[str, Any]) -> None:
        if self._report(row) and not progress.finished and self.trial.should_prune():
            self.pruned = self.stop.finish = True

    def ended(self, progress: Progress) -> None:
        pass

    def _report(self, row: dict[str, Any]) -> bool:
        """False: this epoch has been reported before, or the trial is being ended."""
        epoch, score = row["epoch"], max(scores[self.metric] for scores in row["validation"].values())
        if self.pruned or any(epoch == before for before, _ in self.curve):
            return False
        self.curve.append((epoch, score))
        self.trial.report(score, epoch)
        return True


def _study(record: dict[str, Any], space: Space, number: int) -> optuna.Study:
    """The study of the trials so far, ready to suggest trial `number`. The seed depends on this number only, so that a
    resumed search makes the same suggestions."""
    optuna = _optuna()
    seed = int(np.random.SeedSequence([record["config"]["seed"], number]).generate_state(1)[0])
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=RANDOM_TRIALS)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=UNPRUNED_TRIALS, n_warmup_steps=UNPRUNED_EPOCHS)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    states = optuna.trial.TrialState
    for trial in ended(record):
        study.add_trial(
            optuna.trial.create_trial(
                state={"complete": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}[trial["state"]],
                value=trial.get("score"),
                params=trial["suggested"],
                distributions={key: dimension.distribution() for key, dimension in space.items()},
                intermediate_values={int(epoch): score for epoch, score in trial["curve"] if math.isfinite(score)},
            )
        )
    return study


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        raise MissingLibraryError('a search for settings needs: pip install "orderfree[tune]".') from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
