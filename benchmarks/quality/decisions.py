"""Rules that choose a decoder and its threshold on a validation part, judged on examples held out of all else.

    python benchmarks/quality/decisions.py reuters toy rcv1-subset [--seeds 11 12] [--data FOLDER]

For every seed a fifth of the training part is held out (of the toy corpus, made anew for every seed, its test part is),
`fast` is trained on the rest, and every decoder says its sets of both parts, at every threshold. How many labels of
each example they get right is kept in runs/decisions; rules are compared on that, and means over seeds go to
benchmarks/quality/results/decisions.json. No test part of a corpus is read.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from layout import RESULTS, WORK

from orderfree.build import load_config
from orderfree.data.corpora import data_root, load_parts
from orderfree.data.featurizers import encode_all
from orderfree.data.splits import part_of_each
from orderfree.decisions.finding import POWERS
from orderfree.decoding.search import POWERED, at_threshold, searches
from orderfree.decoding.sets import membership
from orderfree.inference import Predictor
from orderfree.metrics.scores import to_matrix
from orderfree.metrics.thresholds import candidate_thresholds
from orderfree.system.files import write_json
from orderfree.testing.toy import toy_corpus
from orderfree.training.run import train
from orderfree.types import Example

HELD_OUT = 0.2
AT_ONCE = 256
PARTS = ("valid", "held_out")
METRICS = ("micro_f1", "example_f1", "subset_accuracy", "hamming_accuracy")
# those that listen to both decoders first: what is taken unless another is clearly better
FAVOURITES = ("joint", "marginal", "joint 0.5", "joint 2", "joint 0.25", "rescore", "expected_f1", "br", "linear")
DRAWS = 200


@dataclass(frozen=True)
class Said:
    """What C candidates, a decoder at a threshold each, say about N examples."""

    said: np.ndarray  # (C, N) labels
    right: np.ndarray  # (C, N) of them
    true: np.ndarray  # (N,)

    def value(self, metric: str, labels: int, counted: np.ndarray | None = None) -> np.ndarray:
        """Of every candidate (C,), or with `counted` (N, D), how often each example was drawn, of every draw (C, D)."""
        counted = np.ones((len(self.true), 1)) if counted is None else counted
        examples = counted.sum(axis=0)
        wrong = self.said + self.true - 2 * self.right
        if metric == "micro_f1":
            found = 2 * self.right @ counted / ((self.said + self.true) @ counted)
        elif metric == "example_f1":
            found = (1 - wrong / np.maximum(self.said + self.true, 1)) @ counted / examples
        elif metric == "subset_accuracy":
            found = (wrong == 0) @ counted / examples
        else:
            found = 1 - wrong @ counted / (examples * labels)
        return found[:, 0] if found.shape[1] == 1 else found


def highest(names: np.ndarray, said: Said, metric: str, labels: int) -> int:
    return int(np.argmax(said.value(metric, labels)))


def smoothed(names: np.ndarray, said: Said, metric: str, labels: int, reach: int) -> int:
    """The highest of means over neighbouring thresholds of a decoder."""
    values = said.value(metric, labels)
    means = values.copy()
    for name in np.unique(names):
        own = np.flatnonzero(names == name)
        for place, candidate in enumerate(own):
            means[candidate] = values[own[max(place - reach, 0) : place + reach + 1]].mean()
    return int(np.argmax(means))


def favourite(names: np.ndarray, said: Said, metric: str, labels: int, errors: float) -> int:
    """The first of FAVOURITES that is no more than so many standard errors of the difference behind the best."""
    values = said.value(metric, labels)
    draws = np.random.default_rng(0).multinomial(len(said.true), np.full(len(said.true), 1 / len(said.true)), DRAWS).T
    best = int(np.argmax(values))
    for name in FAVOURITES:
        own = np.flatnonzero(names == name)
        if len(own):
            other = int(own[np.argmax(values[own])])
            pair = replace(said, said=said.said[[best, other]], right=said.right[[best, other]])
            drawn = pair.value(metric, labels, draws)  # (2, D)
            if values[best] - values[other] <= errors * (drawn[0] - drawn[1]).std():
                return other
    return best


def always(names: np.ndarray, said: Said, metric: str, labels: int, decoder: str) -> int:
    own = np.flatnonzero(names == decoder)
    return int(own[np.argmax(said.value(metric, labels)[own])])


RULES: dict[str, Callable[[np.ndarray, Said, str, int], int]] = {
    "the highest on validation": highest,
    "… of means of three thresholds": partial(smoothed, reach=1),
    "… of means of nine": partial(smoothed, reach=4),
    "both decoders, unless another is better by an error": partial(favourite, errors=1.0),
    "… by two errors": partial(favourite, errors=2.0),
    **{f"always {name}": partial(always, decoder=name) for name in ("joint", "marginal", "br", "linear", "beam")},
}


def parts_of(corpus: str, seed: int, data: Path | None) -> dict[str, list[Example]]:
    if corpus == "toy":
        made = toy_corpus(seed)
        return {"train": made.train, "valid": made.valid, "held_out": made.test}
    read = load_parts(corpus, data_root(data), seed)
    examples = list(read["train"]())
    part_of = part_of_each((example.labels or () for example in examples), [1 - HELD_OUT, HELD_OUT], seed)
    trained, held_out = ([examples[place] for place in np.flatnonzero(part_of == part)] for part in (0, 1))
    return {"train": trained, "valid": list(read["valid"]()), "held_out": held_out}


def outputs(predictor: Predictor, examples: list[Example]) -> dict[tuple[str, float], torch.Tensor]:
    """Sets (N, L) bool, or log-odds (N, L), of every decoder; of joint decoding at every power."""
    featurizer, found = predictor.trained.featurizer, dict[tuple[str, float], list[torch.Tensor]]()
    for start in range(0, len(examples), AT_ONCE):
        rows = [encoded.arrays for encoded in encode_all(featurizer, examples[start : start + AT_ONCE])]
        given = predictor.start(featurizer.collate(rows))
        for decoder in predictor.decoders:
            for power in POWERS if decoder == POWERED else (predictor.limits.br_power,):
                limits = replace(predictor.limits, br_power=power)
                with torch.inference_mode():
                    if (log_odds := searches[decoder].log_odds) is not None:
                        said = log_odds(given, limits).float()
                    else:
                        said = membership(searches[decoder](given, limits).sequences[:, 0], len(predictor.labels))
                found.setdefault((decoder, power), []).append(said)
    return {name: torch.cat(some) for name, some in found.items()}


def collect(corpus: str, seed: int, data: Path | None) -> dict[str, np.ndarray]:
    """Of every candidate, on both parts, how many labels of each example it says, and how many of them are right."""
    parts = parts_of(corpus, seed, data)
    # as it decides: what is solved once more afterwards has seen the validation part
    config = load_config(None, [f"seed={seed}", "model.encoder_options.refit=false", "training.threads=1"], "fast")
    with tempfile.TemporaryDirectory() as folder:
        predictor = Predictor(train(config, parts["train"], parts["valid"], Path(folder) / "run", progress=False))
    known, labels = list(predictor.labels.names), len(predictor.labels)
    truth = {
        part: to_matrix([[label for label in e.labels or () if label in known] for e in parts[part]], known).toarray()
        for part in PARTS
    }
    said = {part: outputs(predictor, parts[part]) for part in PARTS}
    counts: dict[str, list[np.ndarray]] = {f"{kind}_{part}": [] for part in PARTS for kind in ("said", "right")}
    names = []
    for (decoder, power), output in said["valid"].items():
        scored = searches[decoder].log_odds is not None
        for threshold in candidate_thresholds(output.sigmoid().numpy(), truth["valid"] > 0) if scored else (None,):
            for part in PARTS:
                sets = said[part][decoder, power]
                if threshold is not None:
                    chosen = at_threshold(sets, torch.full((labels,), float(threshold)), predictor.limits)
                    sets = membership(chosen.sequences[:, 0], labels)
                counts[f"said_{part}"].append(sets.numpy().sum(axis=1))
                counts[f"right_{part}"].append((sets.numpy() & (truth[part] > 0)).sum(axis=1))
            names.append(decoder if decoder != POWERED or power == 1 else f"{decoder} {power:g}")
    return {
        **{name: np.stack(rows).astype(np.int32) for name, rows in counts.items()},
        **{f"true_{part}": np.array([len(e.labels or ()) for e in parts[part]]) for part in PARTS},
        "names": np.array(names),
        "labels": np.array(labels),
    }


def compared(runs: list[dict[str, np.ndarray]]) -> dict[str, dict[str, float]]:
    """Rule -> metric -> what its choices reach on the examples held out, mean over runs."""
    found: dict[str, dict[str, list[float]]] = {rule: {metric: [] for metric in METRICS} for rule in RULES}
    for run in runs:
        valid, held_out = (Said(run[f"said_{p}"], run[f"right_{p}"], run[f"true_{p}"]) for p in PARTS)
        labels = int(run["labels"])
        for metric in METRICS:
            reached = held_out.value(metric, labels)
            for rule, choose in RULES.items():
                found[rule][metric].append(float(reached[choose(run["names"], valid, metric, labels)]))
    return {rule: {metric: float(np.mean(v)) for metric, v in values.items()} for rule, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12])
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    folder = WORK.parent / "decisions"
    folder.mkdir(parents=True, exist_ok=True)
    path = RESULTS / "decisions.json"
    told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for corpus in arguments.corpora:
        kept = [folder / f"{corpus}-{seed}.npz" for seed in arguments.seeds]
        for seed, counts in zip(arguments.seeds, kept, strict=True):
            if not counts.exists():
                np.savez_compressed(counts, **collect(corpus, seed, arguments.data))
        told[corpus] = {"seeds": arguments.seeds, "rules": compared([dict(np.load(counts)) for counts in kept])}
        write_json(path, told)
        print(f"\n{corpus}, {len(kept)} seeds", *METRICS, sep=" | ")
        for rule, values in told[corpus]["rules"].items():
            print(rule, *(f"{values[metric]:.4f}" for metric in METRICS), sep=" | ")


if __name__ == "__main__":
    main()
