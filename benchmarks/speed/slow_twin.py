"""Training speed of the paper's Reuters model against a straightforward implementation of the same model.

The slow twin does what comes first to mind: random batches padded to their longest row, a plain bidirectional LSTM over
the padding, 25 decoding steps for every batch, attention over all positions at every step, and a loss step by step.
Both train with the same optimiser, sizes and batch size, in turns in one run. Ours goes through a whole epoch, a share
of it each turn; the twin's cost does not change as it learns, so a few of its updates stand for all. Times are CPU
times unless `--wall` is given; memory is kept between updates for both, as the command line does (machine.py). The same
turns do products of large matrices: the useful operations of ours (flops.py) are given as a share of that speed.

    python benchmarks/speed/slow_twin.py [--updates 8] [--batches 24] [--wall] [--out benchmarks/results/slow_twin.json]
    python benchmarks/speed/slow_twin.py --config src/orderfree/configs/aapd/ocd-mtl.yaml --data FOLDER --out FILE
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from flops import training_update
from torch import Tensor, nn
from torch.nn import functional as F
from turns import ratio

from orderfree.build import build_network, load_config
from orderfree.checkpoint import TrainedModel, versions
from orderfree.config import Config
from orderfree.data.batching import length_bucketed
from orderfree.experiments.grid import CONFIGS
from orderfree.objectives.ocd import optimal_policy, optimal_q_values
from orderfree.system.processor import default_threads, keep_freed_memory
from orderfree.training.loop import Trainer
from orderfree.training.prepare import Prepared, prepare
from orderfree.types import TokenInput

ROOT = Path(__file__).resolve().parents[2]
STEPS = 25
PRODUCTS = 8  # of two 1024 x 1024 matrices, each turn


class SlowTwin(nn.Module):
    """The paper's model without a thought for speed or padding."""

    def __init__(self, config: Config, words: int, labels: int) -> None:
        super().__init__()
        settings, options = config.model, config.model.encoder_options
        states, hidden, dropout = 2 * options["hidden"], settings.decoder_hidden, settings.dropout
        self.labels = labels
        self.words = nn.Embedding(words, options["embedding"])
        self.encoder = nn.LSTM(
            options["embedding"],
            options["hidden"],
            options["layers"],
            bidirectional=True,
            batch_first=True,
            dropout=dropout,
        )
        self.label_embedding = nn.Embedding(labels + 1, settings.label_embedding)
        self.decoder = nn.LSTM(
            settings.label_embedding, hidden, settings.decoder_layers, batch_first=True, dropout=dropout
        )
        self.query = nn.Linear(hidden, states)
        self.combine = nn.Linear(states + hidden, hidden)
        self.output = nn.Linear(hidden, labels + 1)
        sizes = [states] + [settings.br_hidden] * settings.br_layers
        self.mlp = nn.Sequential(
            *(
                layer
                for before, after in pairwise(sizes)
                for layer in (nn.Linear(before, after), nn.BatchNorm1d(after), nn.LeakyReLU(), nn.Dropout(dropout))
            )
        )
        self.br_query = nn.Linear(settings.br_hidden, states)
        self.br_output = nn.Linear(settings.br_hidden + states, labels)
        self.dropout = nn.Dropout(dropout)

    def attend(self, query: Tensor, states: Tensor) -> Tensor:
        weights = torch.bmm(query[:, None], states.transpose(1, 2)).softmax(dim=-1)  # (B, 1, T)
        return torch.bmm(weights, states)[:, 0]  # (B, H)

    def loss(self, words: Tensor, targets: Tensor) -> Tensor:
        rows = len(words)
        states, (final, _) = self.encoder(self.dropout(self.words(words)))  # (B, T, H), (2 * layers, B, hidden)
        final = torch.cat([final[0::2], final[1::2]], dim=-1)  # (layers, B, H)
        hidden, cell = final.contiguous(), torch.zeros_like(final)
        previous = torch.full((rows,), self.labels)
        taken = torch.zeros(rows, self.labels + 1, dtype=torch.bool)
        ended = torch.zeros(rows, dtype=torch.bool)
        sequence, all_logits, active = [], [], []
        for _ in range(STEPS):
            embedded = self.dropout(self.label_embedding(previous))[:, None]
            out, (hidden, cell) = self.decoder(embedded, (hidden, cell))
            context = self.attend(torch.tanh(self.query(out[:, 0])), states)
            logits = self.output(self.dropout(torch.tanh(self.combine(torch.cat([context, out[:, 0]], dim=-1)))))
            probs = logits.detach().masked_fill(taken, float("-inf")).softmax(dim=-1)
            previous = torch.multinomial(probs, 1)[:, 0].masked_fill(ended, self.labels)
            active.append(~ended)
            ended = ended | (previous == self.labels)
            taken = taken.scatter(1, previous[:, None], True)
            taken[:, self.labels] = False
            sequence.append(previous)
            all_logits.append(logits)
        policy = optimal_policy(optimal_q_values(targets, torch.stack(sequence, dim=1)), 0.0)  # (B, K, L + 1)
        log_probs = torch.stack(all_logits, dim=1).log_softmax(dim=-1)
        steps = (torch.xlogy(policy, policy) - policy * log_probs).sum(dim=-1) * torch.stack(active, dim=1)
        mlp = self.mlp(final[-1])
        context = self.attend(torch.tanh(self.br_query(mlp)), states)
        br = self.br_output(torch.cat([mlp, context], dim=-1))
        return (steps.sum() + F.binary_cross_entropy_with_logits(br, targets.float(), reduction="sum")) / rows


def slow_update(twin: SlowTwin, optimizer: torch.optim.Optimizer, data: Prepared, rows: np.ndarray) -> None:
    batch = data.train.batch(rows)
    assert isinstance(batch.inputs, TokenInput)
    loss = twin.loss(batch.inputs.ids, batch.targets)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(twin.parameters(), 10.0)
    optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=8, help="timed updates of the slow twin")
    parser.add_argument("--batches", type=int, help="of ours, spread over the epoch; by default all of them")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "slow_twin.json")
    parser.add_argument("--wall", action="store_true", help="seconds of the clock, where nothing else runs")
    parser.add_argument("--config", type=Path, default=CONFIGS / "reuters" / "ocd-mtl.yaml")
    parser.add_argument(
        "--data", type=Path, help="folder of train.jsonl.gz; by default ORDERFREE_DATA or ../shared/data"
    )
    arguments = parser.parse_args()
    folder = arguments.data or Path(os.environ.get("ORDERFREE_DATA", ROOT.parent / "shared" / "data")) / "reuters21578"
    threads = default_threads()
    torch.set_num_threads(threads)
    keep_freed_memory()
    config = load_config(arguments.config)
    with tempfile.TemporaryDirectory() as cache:
        data = prepare(config, folder / "train.jsonl.gz", None, Path(cache))
        result = compare(config, data, Path(cache), arguments.updates, arguments.batches, arguments.wall)
    result |= {
        "clock": "wall" if arguments.wall else "cpu",
        "threads": threads,
        "versions": versions(),
        "config": "/".join(arguments.config.parts[-3:]),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name in ("slow", "ours"):
        print(f"{name:>5}: {result[name]['documents_per_second']:8.1f} documents/s")
    print(f"ratio: {result['ratio']:.2f} (single turns {result['lowest']:.2f} to {result['highest']:.2f})")
    print(f"useful operations: {result['share_of_peak']['median']:.0%} of the speed of large matrix products")


def compare(
    config: Config, data: Prepared, cache: Path, updates: int, batches: int | None, wall: bool
) -> dict[str, object]:
    clock = time.perf_counter if wall else time.process_time
    torch.manual_seed(config.seed)
    words, labels = data.featurizer.input_size, len(data.labels)
    assert isinstance(words, int), "the paper's model reads words"
    network = build_network(config, words, labels)
    trainer = Trainer(TrainedModel(config, data.labels, data.featurizer, network), data, cache)
    twin = SlowTwin(config, words, labels)
    optimizer = torch.optim.Adam(twin.parameters(), lr=config.training.learning_rate)
    size = config.training.batch_size
    order = np.random.default_rng(config.seed).permutation(len(data.train))
    epoch = length_bucketed(data.train.lengths, size, config.seed, epoch=0)
    mine = np.array_split(np.linspace(0, len(epoch) - 1, min(batches or len(epoch), len(epoch)), dtype=int), updates)
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    speeds: dict[str, list[float]] = {"slow": [], "ours": [], "share_of_peak": []}  # documents a second, by turn
    documents, spent = 0, 0.0
    slow_update(twin, optimizer, data, order[:size])  # a first update of each warms up
    trainer.train_step(epoch[0])
    for turn, places in enumerate(mine):
        rows = order[turn * size : (turn + 1) * size]
        slow = seconds(clock, lambda rows=rows: slow_update(twin, optimizer, data, rows))
        peak = PRODUCTS * 2 * 1024**3 / seconds(clock, lambda: [left @ right for _ in range(PRODUCTS)])
        batches_now = [epoch[place] for place in places]
        ours = seconds(clock, lambda given=batches_now: [trainer.train_step(rows) for rows in given])
        # of every sequence the steps that are needed: one a target, and <eos>
        useful = 0
        for batch in map(data.train.batch, batches_now):
            lengths = data.train.lengths[batch.rows].tolist()  # Python's integers do not overflow
            steps = (batch.targets.sum(dim=1) + 1).tolist()
            useful += training_update(lengths, steps, config.model, labels)
        done = sum(map(len, batches_now))
        documents, spent = documents + done, spent + ours
        speeds["slow"].append(len(rows) / slow)
        speeds["ours"].append(done / ours)
        speeds["share_of_peak"].append(useful / ours / peak)
    ratios = ratio(speeds["ours"], speeds["slow"])
    slowly = statistics.harmonic_mean(speeds["slow"])  # turns of as many documents each
    return {
        "slow": {"documents_per_second": slowly, "turns": speeds["slow"]},
        "ours": {"documents_per_second": documents / spent, "turns": speeds["ours"]},
        "ratio": documents / spent / slowly,
        **{name: ratios[name] for name in ("median", "lowest", "highest")},
        "share_of_peak": {"median": statistics.median(speeds["share_of_peak"]), "turns": speeds["share_of_peak"]},
        "batches": sum(map(len, mine)),
        "batches_of_an_epoch": len(epoch),
    }


def seconds(clock: Callable[[], float], work: Callable[[], object]) -> float:
    began = clock()
    work()
    return clock() - began


if __name__ == "__main__":
    main()
