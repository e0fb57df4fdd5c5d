"""What the details of OCD are worth on the preset `fast`: each is changed alone, from OCD with sampled prefixes as in
the paper, and judged on the validation part.

    python benchmarks/quality/details.py reuters --train train.jsonl.gz --valid valid.jsonl.gz [--seeds 1 2]

The linear classifiers under the decoders are solved once for each seed. A result is written to
benchmarks/quality/results/details/<corpus>.json as soon as it is there, and what is there is not run again; --table
prints them. No test part is read. Two of the details are no options of the package: whole labels dropped from what the
decoder is fed, and weights averaged over updates.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from layout import METRICS, RESULTS, WORK
from torch import Tensor, nn

import orderfree.training.run as training
from orderfree.build import load_config
from orderfree.data.readers import read_examples
from orderfree.evaluation import evaluate
from orderfree.inference import Predictor
from orderfree.system.files import write_json
from orderfree.system.processor import use_processor

OCD = "objective.sequence_options."
SAMPLED = OCD + "prefix=sampled"
VARIANTS: dict[str, list[str]] = {
    "sampled prefixes": [SAMPLED],
    "τ = 0.1": [SAMPLED, OCD + "temperature=0.1"],
    "τ = 0.5": [SAMPLED, OCD + "temperature=0.5"],
    "example-F1 reward, τ = 0.1": [SAMPLED, OCD + "temperature=0.1", OCD + "reward=example_f1"],
    "correct prefixes": [OCD + "prefix=correct"],
    "sampled and correct prefixes": [
        SAMPLED,
        *("objective.second=ocd", 'objective.second_options={"prefix": "correct"}', "objective.second_weight=0.5"),
    ],
    "stop at the number of targets": [SAMPLED, "objective.extra_steps=0"],
    "no limit but max_steps": [SAMPLED, "objective.extra_steps=null"],
    "maximum likelihood instead": ["objective.sequence=mle"],
    "a tenth of the labels dropped": [SAMPLED],
    "a third of the labels dropped": [SAMPLED],
    "weights averaged": [SAMPLED],
}
DROPPED = {"a tenth of the labels dropped": 0.1, "a third of the labels dropped": 0.33}
DECODERS = ("br", "beam", "joint", "marginal")
DECAY = 0.99  # of the average of weights, each update


@dataclass
class Averaging:
    """A listener of training that keeps the average of weights."""

    network: nn.Module | None = None
    average: dict[str, Tensor] = field(default_factory=dict)

    def started(self, progress: Any, total_updates: int) -> None:
        pass

    def updated(self, progress: Any, loss: float) -> None:
        assert self.network is not None
        for name, weights in self.network.state_dict().items():
            kept = self.average.setdefault(name, weights.clone())
            kept.lerp_(weights, 1 - DECAY)

    def validated(self, progress: Any, row: dict[str, Any]) -> None:
        pass

    def ended(self, progress: Any) -> None:
        pass


def dropping(share: float) -> Callable[[nn.Module, Any, Tensor], Tensor]:
    """Hook of the embedding of labels: in training, some of them are not told to the decoder."""

    def hook(module: nn.Module, inputs: Any, embedded: Tensor) -> Tensor:
        if not module.training:
            return embedded
        return embedded * (torch.rand(*embedded.shape[:-1], 1) >= share)

    return hook


def measured(name: str, seed: int, train: Path, valid: Path, solved: Path) -> dict[str, dict[str, float]]:
    """decoder -> metric -> value on the validation part."""
    averaging = Averaging()
    build, start = training._network, training.start_encoder

    def network(*arguments: Any) -> Any:
        averaging.network = made = build(*arguments)
        if name in DROPPED:
            made.label_decoder.embed.register_forward_hook(dropping(DROPPED[name]))
        return made

    def once(net: Any, corpus: Any, cache: Path, *rest: Any) -> None:
        if solved.exists():
            shutil.copytree(solved, cache / solved.name)
        start(net, corpus, cache, *rest)
        if not solved.exists():
            shutil.copytree(cache / solved.name, solved)

    # refit: the validation part is what this is judged on
    usual = [f"seed={seed}", "training.tensorboard=false", "model.encoder_options.refit=false"]
    config = load_config(preset="fast", settings=[*VARIANTS[name], *usual])
    training._network, training.start_encoder = network, once
    try:
        with tempfile.TemporaryDirectory() as folder:
            listeners = [averaging] if name == "weights averaged" else []
            trained = training.train(config, train, valid, Path(folder) / "run", listeners=listeners)
    finally:
        training._network, training.start_encoder = build, start
    found = trained.metrics["validation"]
    if name == "weights averaged":
        trained.network.load_state_dict(averaging.average)
        examples = list(read_examples(valid, config.data, labelled=True))
        found = evaluate(Predictor(trained), examples, list(DECODERS))["decoders"]
    return {decoder: {metric: found[decoder][metric] for metric in METRICS} for decoder in DECODERS}


def table(content: dict[str, Any]) -> str:
    """Means over seeds: of the five metrics for each decoder, then each metric under the decoder best for it."""
    names = [metric.replace("_", " ") for metric in METRICS]
    lines = [f"| | seeds | {' | '.join((*DECODERS, *names))} |", "| --- " * (2 + len(DECODERS) + len(names)) + "|"]
    for name in VARIANTS:
        runs = list(content.get(name, {}).values())
        if not runs:
            continue
        five = [sum(sum(run[d].values()) / len(METRICS) for run in runs) / len(runs) for d in DECODERS]
        best = [sum(max(run[d][metric] for d in DECODERS) for run in runs) / len(runs) for metric in METRICS]
        lines.append(f"| {name} | {len(runs)} | " + " | ".join(f"{value:.4f}" for value in (*five, *best)) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="what the results are called")
    parser.add_argument("--train", type=Path)
    parser.add_argument("--valid", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME")
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    parser.add_argument("--results", type=Path, default=RESULTS / "details")
    parser.add_argument("--work", type=Path, default=WORK / "details")
    arguments = parser.parse_args()
    path = arguments.results / f"{arguments.corpus}.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not arguments.table:
        if arguments.train is None or arguments.valid is None:
            parser.error("--train and --valid are needed to run anything")
        use_processor(1)
        for seed in arguments.seeds:
            for name in arguments.only:
                if str(seed) in content.get(name, {}):
                    continue
                solved = arguments.work / f"{arguments.corpus}-seed{seed}" / "solved"
                solved.parent.mkdir(parents=True, exist_ok=True)
                found = measured(name, seed, arguments.train, arguments.valid, solved)
                content.setdefault(name, {})[str(seed)] = found
                path.parent.mkdir(parents=True, exist_ok=True)
                write_json(path, content)
    print(table(content))


if __name__ == "__main__":
    main()
