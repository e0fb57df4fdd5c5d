"""The runner. A cell is one method on one corpus with one seed: it is trained, tested and written to a result file.

Finished cells are skipped, interrupted cells are resumed, and a cell that fails is reported and does not stop the rest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..build import load_config
from ..checkpoint import TRAINING
from ..config import Config, DataConfig
from ..data.corpora import data_root, load_parts
from ..data.corpora.catalogue import limited
from ..data.writers import natural_file, write_examples
from ..errors import OrderfreeError
from ..inference import Predictor
from ..system.files import write_json
from ..system.processor import default_threads, use_processor
from ..training.loop import Stop, after
from ..training.run import Interrupted, train
from .cell_result import decode_test, measured, trained_how
from .cells import Cell, Plan, config_file
from .result_files import Result, write_result


@dataclass(frozen=True)
class Spent:
    """The record of an unfinished cell, stored beside its run."""

    seconds: float = 0.0  # of training, summed over all parts of a resumed run
    threads: int = 0
    commits: tuple[str, ...] = ()  # of the code it was trained with, the latest last

    @classmethod
    def read(cls, path: Path) -> Spent:
        if not path.exists():
            return cls()
        content = json.loads(path.read_text(encoding="utf-8"))
        return cls(content["seconds"], content["threads"], tuple(content["commits"]))

    def write(self, path: Path) -> None:
        write_json(path, {"seconds": round(self.seconds, 3), "threads": self.threads, "commits": list(self.commits)})


def run_cells(
    cells: Sequence[Cell], plan: Plan, say: Callable[[str], None], budget_seconds: float | None = None
) -> list[str]:
    """Runs every missing cell in this process; returns the names of cells that failed. When the budget is used up, the
    state of the running cell is saved, to be resumed next time."""
    for cell in cells:
        config_file(plan, cell)  # an unknown row is an error before anything is trained
    began = time.monotonic()
    failed = []
    for cell in cells:
        if plan.result_path(cell).exists():
            say(f"{cell}: done before")
            continue
        left = None if budget_seconds is None else budget_seconds - (time.monotonic() - began)
        if left is not None and left <= 0:
            say(f"{cell}: left for next time, the budget is used up")
            continue
        try:
            say(f"{cell}: written to {run_cell(plan, cell, left, say)}")
        except Interrupted as stopped:
            say(f"{cell}: {stopped}; goes on next time")
            if budget_seconds is None or time.monotonic() - began < budget_seconds:  # a person, not the budget
                raise
        except (OrderfreeError, RuntimeError, OSError) as error:
            say(f"{cell}: failed ({error}); going on with the others")
            failed.append(str(cell))
    return failed


def run_cell(plan: Plan, cell: Cell, left: float | None, say: Callable[[str], None]) -> Path:
    config = load_config(config_file(plan, cell), [f"seed={cell.seed}"])
    files = prepared_files(plan, cell, say)
    run = plan.run(cell)
    noted = run.with_suffix(".cell.json")
    spent = Spent.read(noted)
    threads = spent.threads or config.training.threads or default_threads()  # exact resuming needs the same
    if not (run / "manifest.json").exists():
        commits = tuple(dict.fromkeys([*spent.commits, plan.commit]))
        began = time.monotonic()
        Spent(spent.seconds, threads, commits).write(noted)
        try:
            _train(plan, config, files, run, (left, spent.seconds), say)
        finally:
            spent = Spent(spent.seconds + time.monotonic() - began, threads, commits)
            spent.write(noted)
    use_processor(threads)
    predictor = Predictor.load(run)
    began = time.monotonic()
    tested = decode_test(predictor, files["test"])
    result = {
        **_identity(plan, cell, spent),
        **trained_how(predictor, run),
        **measured(tested, files),
        "seconds": {"train": round(spent.seconds, 1), "test": round(time.monotonic() - began, 1)},
    }
    return write_result(plan.results, Result.model_validate(result))


def _train(
    plan: Plan,
    config: Config,
    files: dict[str, Path],
    run: Path,
    times: tuple[float | None, float],
    say: Callable[[str], None],
) -> None:
    """Trains until the config or the time limit of the cell ends it; paused when the time of the whole call is over."""
    left, spent = times
    stop = Stop()
    cell_left = None if plan.cell_seconds is None else max(plan.cell_seconds - spent, 0.0)
    pause = after(left, lambda: setattr(stop, "requested", True))
    finish = after(cell_left, lambda: setattr(stop, "finish", True))
    with pause, finish:
        resume = (run / TRAINING).exists()
        train(config, files["train"], files["valid"], run, resume, say=say, stop=stop)


def prepared_files(plan: Plan, cell: Cell, say: Callable[[str], None]) -> dict[str, Path]:
    """The parts of the corpus as files in the work folder, written once."""
    size = f"train{plan.limit_train}" if plan.limit_train else "all"
    folder = plan.work / cell.corpus / f"data-seed{cell.seed}" / size
    parts = load_parts(cell.corpus, data_root(plan.data), cell.seed)
    suffix, format = natural_file(next(parts["train"]()))
    files = {part: folder / f"{part}{suffix}" for part in parts}
    for part, path in files.items():
        if not path.exists():
            say(f"{cell.corpus}: writing {path}")
            examples = parts[part]
            if part == "train" and plan.limit_train:
                examples = limited(examples, plan.limit_train, cell.seed)
            write_examples(examples(), path, format, DataConfig())
    return files


def _identity(plan: Plan, cell: Cell, spent: Spent) -> dict[str, Any]:
    several = {"commits": list(spent.commits)} if len(spent.commits) > 1 else {}
    return {
        "corpus": cell.corpus,
        "method": cell.method,
        "variant": plan.variant_name(cell),
        "seed": cell.seed,
        "commit": spent.commits[-1] if spent.commits else plan.commit,
        **several,
        "command": f"OMP_NUM_THREADS={spent.threads} orderfree {' '.join(plan.arguments(cell))}",
        "config_file": (Path("configs") / config_file(plan, cell).relative_to(plan.configs)).as_posix(),
    }
