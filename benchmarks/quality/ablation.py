"""What each mechanism of `fast` is worth, removed alone, and what each part adds, on folds of the training part.

    python benchmarks/quality/ablation.py [reuters rcv1-subset toy aapd] [--seeds 21 22 23] [--only NAME …]
                                          [--examples 10000] [--data FOLDER]

For every seed a fifth of the training part is held out (of the toy corpus, made anew for every seed, its test part is).
Models are trained on the rest, choose on the validation part as always, and are judged on what was held out, by the
decision for each metric. No test part of a corpus is read. Of a corpus with more than `--examples` training documents
so many are drawn, and of the validation part the same share. Models that differ in their decoders only share their
solved linear classifiers, whose seconds are added to each. How to decide is varied on the outputs of one model.

Each seed has a file benchmarks/quality/results/ablation/<corpus>/seed<k>.json, written after every training; trainings
that are in it are not run again as long as the work folder holds their predictions. `ablation_page.py` makes
docs/results/ablation.md of these files.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from decisions import outputs, parts_of
from judge import load_sets, save_sets
from layout import METRICS, RESULTS, WORK
from run import commit
from scipy import sparse

import orderfree.evaluation as evaluation
import orderfree.training.run as training
from orderfree.build import load_config
from orderfree.checkpoint import TrainedModel, versions
from orderfree.data.corpus import Corpus
from orderfree.decisions import finding
from orderfree.decisions.finding import DecisionReport, Decoded
from orderfree.decisions.records import BEST, Decisions
from orderfree.decoding.search import POWERED
from orderfree.inference import Predictor
from orderfree.metrics.counts import count
from orderfree.metrics.resampling import paired
from orderfree.metrics.scores import scores, to_matrix
from orderfree.nn.br_decoder import Calibration
from orderfree.nn.encoders.linear import LinearEncoder
from orderfree.system.files import write_json
from orderfree.system.processor import use_processor
from orderfree.types import Example

FULL, ONCE_MORE = "fast", "solved once more with validation"
LINEAR, NEIGHBOURS, BR, MLE = "linear", "linear + neighbours", "+ BR decoder", "+ label decoder, maximum likelihood"
LADDER = (LINEAR, NEIGHBOURS, BR, MLE, FULL)  # FULL: with the label decoder by OCD instead of maximum likelihood
RULE = "leave-out rule of leading words"
SOLVED_ALIKE = "correct prefixes", "calibrated start of BR", BR, MLE
OPTION, PREFIX = "model.encoder_options.", "objective.sequence_options."
TRAINED: dict[str, list[str]] = {  # what is trained without each mechanism
    FULL: [],
    BR: ["objective.sequence=null"],
    MLE: ["objective.sequence=mle"],
    "neighbours": [OPTION + "neighbours=0"],
    "correct prefixes": [PREFIX + "prefix=sampled"],
    "leading words": [OPTION + "leads=[]"],
    "rare labels weigh more": [OPTION + "rare=0"],
    "calibrated start of BR": [],
    RULE: [],
}
MANY = 10**9
Targets = sparse.csr_array


@dataclass
class Scored:
    """What decisions need of the training corpus, which is gone when the model is finished."""

    scores: np.ndarray | None
    truth: np.ndarray

    def unknown(self) -> None:
        return None

    def targets(self) -> np.ndarray:
        return self.truth


@dataclass
class Run:
    """One training: outputs on the validation part, and on what was held out."""

    valid: list[Decoded] = field(default_factory=list)
    train: Scored | None = None
    before: Decoded | None = None  # held out, by the model before it was solved once more
    after: Decoded | None = None
    left_out: bool = False  # whether leading words were
    solve_seconds: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    def decisions(self, change: Callable[[Decoded], Decoded] = lambda same: same, seen: bool = True) -> Decisions:
        """How it decides, with outputs changed, and with or without out-of-fold scores."""
        train: Any = self.train if seen else None
        return finding.find_decisions([change(each) for each in self.valid], None, train).decisions

    def only(self, decoder: str) -> Decisions:
        return self.decisions(lambda d: replace(d, outputs={decoder: d.outputs[decoder]}, at_powers={}))


def without_decoder(*names: str) -> Callable[[Run], Decisions]:
    def decide(run: Run) -> Decisions:
        return run.decisions(
            lambda d: replace(d, outputs={name: out for name, out in d.outputs.items() if name not in names})
        )

    return decide


def with_constant(name: str, value: Any) -> Callable[[Run], Decisions]:
    def decide(run: Run) -> Decisions:
        with patch.object(finding, name, value):
            return run.decisions()

    return decide


def one_threshold(run: Run) -> Decisions:
    def shared(log_odds: Any, targets: np.ndarray, one: float, limits: Any) -> tuple[list[float], float]:
        return [one] * targets.shape[1], -1.0

    with patch.object(finding, "thresholds_for_each_label", shared):
        return run.decisions(seen=False)


DECIDED: dict[str, Callable[[Run], Decisions]] = {  # how the same model decides without each mechanism
    "grid of br_power": lambda run: run.decisions(lambda decoded: replace(decoded, at_powers={})),
    **{f"decoder {name}": without_decoder(name) for name in ("greedy", "beam", "br", "rescore", "joint")},
    **{f"decoder {name}": without_decoder(name) for name in ("marginal", "linear", "expected_f1")},
    "thresholds for each label": one_threshold,
    "three strengths of drawing": with_constant("STRENGTHS", (20.0,)),
    "out-of-fold thresholds": lambda run: run.decisions(seen=False),
    "out-of-fold thresholds decide for rare labels": with_constant("FEWEST", 0),
    "… decide always": with_constant("FEWEST", MANY),
}


def drawn_parts(corpus: str, seed: int, data: Path | None, most: int) -> dict[str, list[Example]]:
    """At most so many documents to train on and to hold out; the validation part shrinks as the training part does."""
    parts = parts_of(corpus, seed, data)
    share = min(most / len(parts["train"]), 1.0)
    generator = np.random.default_rng(seed)
    for part, size in (
        ("train", round(share * len(parts["train"]))),
        ("valid", round(share * len(parts["valid"]))),
        ("held_out", min(most, len(parts["held_out"]))),
    ):
        kept = np.sort(generator.choice(len(parts[part]), size, replace=False))
        parts[part] = [parts[part][position] for position in kept]
    return parts


@contextmanager
def observed(name: str, run: Run, held_out: list[Example], solved: Path) -> Iterator[None]:
    """Training with the solved classifiers of another, and with what `run` has to remember."""
    start, find, repair, solve = (
        training.start_encoder,
        evaluation.find_decisions,
        training.repair_probabilities,
        LinearEncoder.solve,
    )

    def start_once(network: Any, corpus: Corpus, cache: Path, *rest: Any) -> None:
        seconds = solved / "seconds.json"
        if name in SOLVED_ALIKE:
            shutil.copytree(solved / "solved", cache / "solved")
            run.solve_seconds = float(json.loads(seconds.read_text(encoding="utf-8")))
        began = time.process_time()
        start(network, corpus, cache, *rest)
        if name == FULL:
            shutil.copytree(cache / "solved", solved / "solved")
            write_json(seconds, time.process_time() - began)

    def find_observed(decoded: list[Decoded], fixed: float | None, train: Corpus) -> DecisionReport:
        run.valid, run.train = list(decoded), Scored(train.scores, train.targets())
        return find(decoded, fixed, train)

    def repair_observed(trained: TrainedModel, corpus: Corpus) -> dict[str, Any]:
        if name == FULL:
            spent = time.process_time()
            run.before = decode(Predictor(trained), held_out)
            run.solve_seconds -= time.process_time() - spent  # is no part of fitting
        return repair(trained, corpus)

    def solve_with_all(encoder: Any, *some: Any, **more: Any) -> Any:
        return solve(encoder, *some[:5], **{key: value for key, value in more.items() if key != "optional"})

    with ExitStack() as stack:
        stack.enter_context(patch.object(training, "start_encoder", start_once))
        stack.enter_context(patch.object(evaluation, "find_decisions", find_observed))
        stack.enter_context(patch.object(training, "repair_probabilities", repair_observed))
        if name == "calibrated start of BR":
            stack.enter_context(patch.object(Calibration, "fit", lambda *_: None))
        if name == RULE:
            stack.enter_context(patch.object(LinearEncoder, "solve", solve_with_all))
        yield


def decode(predictor: Predictor, examples: list[Example]) -> Decoded:
    """Every decoder, and joint decoding at every power."""
    found = outputs(predictor, examples)
    names = predictor.labels.names
    known = [[label for label in example.labels or () if label in predictor.labels.ids] for example in examples]
    usual = predictor.limits.br_power
    return Decoded(
        predictor.limits,
        to_matrix(known, list(names)).toarray().astype(bool),
        {decoder: output for (decoder, power), output in found.items() if power == usual},
        {power: output for (decoder, power), output in found.items() if decoder == POWERED and power != usual},
    )


def trained_without(name: str, seed: int, parts: dict[str, list[Example]], work: Path) -> Run:
    run, said = Run(), list[str]()
    config = load_config(None, [f"seed={seed}", "training.tensorboard=false", *TRAINED[name]], "fast")
    folder = work / "model"
    shutil.rmtree(folder, ignore_errors=True)
    began = time.process_time()
    with observed(name, run, parts["held_out"], work):
        trained = training.train(config, parts["train"], parts["valid"], folder, say=said.append)
    fit = time.process_time() - began + run.solve_seconds
    predictor = Predictor(trained)
    began = time.process_time()
    list(predictor.predict(parts["held_out"], [BEST + "micro_f1"]))
    run.seconds = {"fit": fit, "predict": time.process_time() - began}
    run.after = decode(predictor, parts["held_out"])
    run.left_out = any("left out" in line for line in said)
    shutil.rmtree(folder)
    return run


def rows_of(name: str, run: Run) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """(row, metric -> sets (N, L)) of everything that this training tells."""
    assert run.after is not None
    usual = run.decisions()
    if name == "neighbours":
        yield LINEAR, chosen_sets(run.after, run.only("linear"))
    if name == FULL:
        assert run.before is not None
        yield NEIGHBOURS, chosen_sets(run.after, run.only("linear"))
        yield ONCE_MORE, chosen_sets(run.before, usual)
        for mechanism, decide in DECIDED.items():
            yield mechanism, chosen_sets(run.after, decide(run))
    yield name, chosen_sets(run.after, usual)


def chosen_sets(decoded: Decoded, decisions: Decisions) -> dict[str, np.ndarray]:
    return {metric: decoded.sets(decisions.best[metric]).numpy() for metric in METRICS}


def by_size(targets: Targets, ours: dict[str, Targets], theirs: dict[str, Targets]) -> dict[str, dict[str, float]]:
    """Gains of examples with 1, 2, … labels."""
    sizes = np.diff(targets.indptr)
    found = {}
    for size in range(1, 6):
        rows = np.flatnonzero(sizes >= size if size == 5 else sizes == size)
        if len(rows):
            gains = {m: _mean(m, targets, ours[m], rows) - _mean(m, targets, theirs[m], rows) for m in BY_EXAMPLE}
            found[str(size)] = {"examples": len(rows), **gains}
    return found


BY_EXAMPLE = ("subset_accuracy", "example_f1")


def _mean(metric: str, targets: Targets, sets: Targets, rows: np.ndarray) -> float:
    _, examples = count(targets[rows], sets[rows])
    right = (examples.fp + examples.fn) == 0 if metric == "subset_accuracy" else examples.f1(of_nothing=1)
    return float(np.mean(right))


def judged(work: Path, content: dict[str, Any]) -> dict[str, Any]:
    """The content with scores and paired tests of all rows whose predictions are there."""
    targets = load_sets(work / "targets.npz")
    sets = {
        row: {metric: load_sets(file(work, row, metric)) for metric in METRICS}
        for row in content["rows"]
        if file(work, row, METRICS[-1]).exists()
    }
    for row, said in sets.items():
        content["rows"][row]["scores"] = {m: scores(targets, said[m])[m] for m in METRICS}
        before = LADDER[: LADDER.index(row)] if row in LADDER else ()
        others = [other for other in (FULL, *before) if other in sets and other != row]
        content["rows"][row]["less"] = {
            other: {m: paired(m, targets, [said[m]], sets[other][m]) for m in METRICS} for other in others
        }
        if row in LADDER and BR in sets:
            content["rows"][row]["by_size"] = by_size(targets, said, sets[BR])
    content["labels_per_example"] = targets.nnz / targets.shape[0]
    return content


def file(work: Path, row: str, metric: str) -> Path:
    known = [*TRAINED, *DECIDED, LINEAR, NEIGHBOURS, ONCE_MORE]
    return work / f"{known.index(row)}-{metric}.npz"


def run_seed(corpus: str, seed: int, arguments: argparse.Namespace) -> None:
    path = arguments.results / corpus / f"seed{seed}.json"
    work = arguments.work / corpus / f"seed{seed}"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": {}}
    missing = [name for name in arguments.only if not file(work, name, METRICS[-1]).exists()]
    if FULL not in arguments.only and not file(work, FULL, METRICS[-1]).exists():
        missing.insert(0, FULL)  # what all others are compared with
    if not missing:
        return
    parts = drawn_parts(corpus, seed, arguments.data, arguments.examples)
    work.mkdir(parents=True, exist_ok=True)
    for name in missing:
        if name == RULE and not content["rows"][FULL]["leading_words_left_out"]:
            continue  # the rule changed nothing
        run = trained_without(name, seed, parts, work)
        assert run.after is not None
        save_sets(work / "targets.npz", run.after.targets)
        for row, sets in rows_of(name, run):
            content["rows"][row] = {"of": name, "cpu_seconds": run.seconds, "leading_words_left_out": run.left_out}
            for metric, said in sets.items():
                save_sets(file(work, row, metric), said)
        content |= {"corpus": corpus, "seed": seed, "commit": commit(), "versions": versions()}
        content["examples"] = {part: len(examples) for part, examples in parts.items()}
        options = f"{corpus} --seeds {seed} --examples {arguments.examples}"
        content["command"] = f"python benchmarks/quality/ablation.py {options}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, judged(work, content))
        print(f"{corpus} seed {seed}: {name}", run.seconds, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="*", default=["reuters", "rcv1-subset", "toy", "aapd"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22, 23])
    parser.add_argument("--only", nargs="+", default=list(TRAINED), choices=list(TRAINED), metavar="NAME")
    parser.add_argument("--examples", type=int, default=10_000, help="most documents to train on, and to hold out")
    parser.add_argument("--data", type=Path, help="the folder of corpora, as of `orderfree data`")
    parser.add_argument("--results", type=Path, default=RESULTS / "ablation")
    parser.add_argument("--work", type=Path, default=WORK / "ablation")
    arguments = parser.parse_args()
    use_processor(1)
    for seed in arguments.seeds:
        for corpus in arguments.corpora:
            run_seed(corpus, seed, arguments)


if __name__ == "__main__":
    main()
