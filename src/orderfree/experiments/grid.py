"""The runner: one cell is one method on one corpus with one seed, trained, tested and written down as a result file.

Finished cells are skipped, a cell that was cut is resumed, a cell that fails is said and the others go on.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..build import load_config
from ..checkpoint import TRAINING, TrainedModel, versions
from ..config import DataConfig
from ..data.corpora import data_root, load_parts
from ..data.corpora.catalogue import limited
from ..data.readers import read_examples
from ..data.writers import natural_file, write_examples
from ..decoding.search import searches
from ..errors import OrderfreeError, nearest
from ..evaluation import judge
from ..inference import Prediction, Predictor
from ..training.listeners import read_history
from ..training.loop import Stop, after
from ..training.run import Interrupted, train
from .analyses import example_f1_by_frequency
from .results import FORMAT, USUAL, Result, result_path, write_result

EXAMPLES_KEPT = 50
CONFIGS = Path(__file__).parents[1] / "configs"  # of the package: those of the paper's tables


@dataclass(frozen=True)
class Plan:
    """What is to be run, and where things are."""

    corpus: str
    variant: str
    methods: Sequence[str]
    seeds: Sequence[int]
    configs: Path
    results: Path
    work: Path  # prepared corpora and unfinished runs
    data: Path | None = None
    limit_train: int | None = None
    budget_seconds: float | None = None  # of the whole call: what is running then is saved and resumed next time
    cell_seconds: float | None = None  # of one cell: ended for good with the best so far, marked as cut short

    @property
    def name(self) -> str:
        """The variant under which results are kept: a smaller training part makes another one."""
        return self.variant + (f"-train{self.limit_train}" if self.limit_train else "")


def usual_variant(configs: Path, corpus: str) -> str:
    """paper-small, except for a corpus that is small enough to be run at the paper's size."""
    return USUAL if (configs / corpus / USUAL).is_dir() or not (configs / corpus).is_dir() else "paper"


def _folder(plan: Plan) -> Path:
    """configs/<corpus>/<variant>; the paper's own size stands in configs/<corpus> itself."""
    return plan.configs / plan.corpus / ("" if plan.variant == "paper" else plan.variant)


def known_rows(plan: Plan) -> list[str]:
    found = sorted(file.stem for file in _folder(plan).glob("*.yaml"))
    if not found:
        raise OrderfreeError(f"{_folder(plan)}: holds no configs to run; give another --configs or --variant.")
    return found


def config_file(plan: Plan, method: str) -> Path:
    path = _folder(plan) / f"{method}.yaml"
    if not path.is_file():
        known = known_rows(plan)
        raise OrderfreeError(
            f"unknown row {method!r} of {plan.corpus} ({plan.variant}); known: {', '.join(known) or 'none'}."
            + nearest(method, known)
        )
    return path


def run_grid(plan: Plan, say: Callable[[str], None]) -> list[str]:
    """Runs every missing cell; the names of those that failed."""
    for method in plan.methods:
        config_file(plan, method)  # an unknown row is said before anything is trained
    began = time.monotonic()
    failed = []
    for seed in plan.seeds:
        for method in plan.methods:
            cell = f"{plan.corpus} {method} seed {seed}"
            if result_path(plan.results, plan.corpus, method, seed, plan.name).exists():
                say(f"{cell}: done before")
                continue
            left = None if plan.budget_seconds is None else plan.budget_seconds - (time.monotonic() - began)
            if left is not None and left <= 0:
                say(f"{cell}: left for next time, the budget is used up")
                continue
            try:
                path = run_cell(plan, method, seed, left, say)
                say(f"{cell}: written to {path}")
            except Interrupted as stopped:
                say(f"{cell}: {stopped}; goes on next time")
                spent = time.monotonic() - began
                if plan.budget_seconds is None or spent < plan.budget_seconds:  # a person, not the budget
                    raise
            except (OrderfreeError, RuntimeError, OSError) as error:
                say(f"{cell}: failed ({error}); going on with the others")
                failed.append(cell)
    return failed


def run_cell(plan: Plan, method: str, seed: int, left: float | None, say: Callable[[str], None]) -> Path:
    config_path = config_file(plan, method)
    config = load_config(config_path, [f"seed={seed}"])
    files = prepared_files(plan, seed, say)
    run = plan.work / plan.corpus / plan.name / method / f"seed{seed}"
    spent = _spent(run)
    resume = (run / TRAINING).exists()
    began = time.monotonic()
    if not (run / "manifest.json").exists():
        stop = Stop()
        cell_left = None if plan.cell_seconds is None else max(plan.cell_seconds - spent, 0.0)
        pause = after(left, lambda: setattr(stop, "requested", True))
        finish = after(cell_left, lambda: setattr(stop, "finish", True))
        try:
            with pause, finish:
                train(config, files["train"], files["valid"], run, resume, say=say, stop=stop)
        finally:
            _note_spent(run, spent + time.monotonic() - began)
    predictor = Predictor.load(run)
    began_test = time.monotonic()
    decoders = [d for d in predictor.decoders if d != "greedy" and not searches[d].over_sets]  # those of the paper
    test = list(read_examples(files["test"], DataConfig(), labelled=True))
    predictions = list(predictor.predict(test, decoders, marginals=True))
    result = _result(plan, method, seed, config_path, predictor, predictions, decoders, run)
    for part in sorted(files.keys() - {"train", "valid", "test"}):
        result["parts"][part] = _part_scores(predictor, files[part], predictions, decoders)
    result["seconds"] = {"train": round(_spent(run), 1), "test": round(time.monotonic() - began_test, 1)}
    return write_result(plan.results, Result.model_validate(result))


def prepared_files(plan: Plan, seed: int, say: Callable[[str], None]) -> dict[str, Path]:
    """The parts of the corpus as files in the work folder; written once."""
    folder = plan.work / plan.corpus / f"data-seed{seed}" / (f"train{plan.limit_train}" if plan.limit_train else "all")
    parts = load_parts(plan.corpus, data_root(plan.data), seed)
    suffix, format = natural_file(next(parts["train"]()))
    files = {part: folder / f"{part}{suffix}" for part in parts}
    for part, path in files.items():
        if not path.exists():
            say(f"{plan.corpus}: writing {path}")
            examples = parts[part]
            if part == "train" and plan.limit_train:
                examples = limited(examples, plan.limit_train, seed)
            write_examples(examples(), path, format, DataConfig())
    return files


def _result(
    plan: Plan,
    method: str,
    seed: int,
    config_path: Path,
    predictor: Predictor,
    predictions: Sequence[Prediction],
    decoders: Sequence[str],
    run: Path,
) -> dict[str, Any]:
    trained: TrainedModel = predictor.trained
    found = judge(predictor, predictions, decoders)
    targets = [prediction.example.labels or () for prediction in predictions]
    names = predictor.labels.names
    seen = Counter({frozenset(names[i] for i in ids): times for ids, times in predictor.labels.combinations.items()})
    history = read_history(run / "history.jsonl")
    updates, kept = trained.metrics["updates"], trained.metrics["update"]
    patience = trained.config.training.patience
    planned = history[-1].get("total_updates", updates) if history else updates
    worse = sum(row["update"] > kept for row in history)
    return {
        "format": FORMAT,
        "corpus": plan.corpus,
        "method": method,
        "variant": plan.name,
        "seed": seed,
        "config": trained.config.model_dump(),
        "versions": versions(),
        "commit": _commit(),
        "command": f"orderfree reproduce {plan.corpus} --variant {plan.variant} --rows {method} --seeds {seed}"
        + (f" --limit-train {plan.limit_train}" if plan.limit_train else ""),
        "config_file": f"configs/{config_path.relative_to(plan.configs).as_posix()}",
        "updates": updates,
        "kept_update": kept,
        # three validations in a row were no better than the one kept, or there was nothing to descend to
        "flattened": worse >= 3 or planned == 0,
        "cut_short": updates < planned and not (patience is not None and worse >= patience),
        "parameters": trained.network.parameter_count(),
        "train_examples": trained.provenance["train_examples"],
        "truncated": found["truncated"],
        "test": found["decoders"],
        "ranking": found["ranking"],
        "parts": {},
        "combinations": found["combinations"],
        "position_accuracy": found["position_accuracy"],
        "per_label": found["per_label"],
        "confused_pairs": found["confused_pairs"],
        "by_frequency": {
            decoder: example_f1_by_frequency(
                targets, [prediction.label_sets[decoder].labels for prediction in predictions], seen
            )
            for decoder in decoders
        },
        "curve": [{"update": row["update"], "validation": row["validation"]} for row in history],
        "examples": [
            {
                "id": prediction.example.id,
                "target": list(prediction.example.labels or ()),
                "predicted": {decoder: list(prediction.label_sets[decoder].labels) for decoder in decoders},
            }
            for prediction in predictions[:EXAMPLES_KEPT]
        ],
    }


def _part_scores(
    predictor: Predictor, path: Path, predictions: Sequence[Prediction], decoders: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Scores on a part of the test documents, or on others."""
    examples = list(read_examples(path, DataConfig(), labelled=True))
    made = {prediction.example.id: prediction for prediction in predictions}
    if all(example.id in made for example in examples):
        predicted = [made[example.id] for example in examples]
    else:
        predicted = list(predictor.predict(examples, decoders))
    scores: dict[str, dict[str, float]] = judge(predictor, predicted, decoders)["decoders"]
    return scores


def _spent(run: Path) -> float:
    """Seconds of training so far, all parts of a resumed run together."""
    path = run.with_suffix(".seconds")
    return float(path.read_text(encoding="utf-8")) if path.exists() else 0.0


def _note_spent(run: Path, seconds: float) -> None:
    path = run.with_suffix(".seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{seconds:.3f}", encoding="utf-8")


def _commit() -> str:
    """The commit of this very code, where it runs from a checkout."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
