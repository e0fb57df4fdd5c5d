"""What training and search cost as labels, words, documents and beam width grow, on generated inputs; a plot of each.

    python benchmarks/speed/scaling.py [--largest 1000000] [--rounds 3] [--out benchmarks/results/scaling.json]

Every cost is CPU time over that of the smallest size, taken by turns.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from turns import alternate, ratio

from orderfree.build import build_network, complete_config, load_config
from orderfree.checkpoint import versions
from orderfree.config import DataConfig
from orderfree.data.writers import write_examples
from orderfree.decoding.beam import Limits, beam_search
from orderfree.decoding.rollout import RolloutTask
from orderfree.nn.label_decoder import LabelDecoder
from orderfree.nn.narrow import narrowed
from orderfree.objectives.multitask import Criterion, multitask
from orderfree.objectives.ocd import OCD, OCDOptions
from orderfree.testing.toy import generated_documents
from orderfree.training.candidates import draw_candidates
from orderfree.training.prepare import prepare
from orderfree.training.step import score_rollout
from orderfree.types import EncoderOutput, ModelOutput, RolloutPlan, TokenInput

ROOT = Path(__file__).resolve().parents[2]
ROWS, HIDDEN, TARGETS = 32, 128, 3
ASKED = 4.0  # times the cost at most, for ten times the labels: an exact softmax is linear in them and misses it
SAMPLED = 1_000  # objective.sampled_labels

LABELS = (100, 1_000, 10_000, 100_000)
WORDS = (50, 500, 5_000)
WIDTHS = (1, 4, 16, 64)
DOCUMENTS = (1_000, 10_000, 100_000, 1_000_000)


def encoded() -> EncoderOutput:
    states = torch.randn(ROWS, 4, HIDDEN)
    return EncoderOutput(states, torch.ones(ROWS, 4, dtype=torch.bool), states[:, 0][None])


def decoder_update(labels: int, sampled: int | None = None) -> Callable[[], Any]:
    """A sequence is sampled, scored and learned from: the whole of the label decoder's training."""
    decoder = LabelDecoder(labels, HIDDEN, 64, HIDDEN, 1, 0.0)
    given, targets = encoded(), torch.zeros(ROWS, labels, dtype=torch.bool)
    targets.scatter_(1, torch.randint(0, labels, (ROWS, TARGETS)), True)
    criterion = Criterion(OCD(OCDOptions(), torch.arange(labels + 1)))
    limits = torch.full((ROWS,), TARGETS + 3)

    def update() -> None:
        now, wanted, few = narrow(decoder, targets, sampled)
        task = RolloutTask(wanted, torch.arange(now.num_labels + 1), limits, labels=few)
        scored = score_rollout(now, given, RolloutPlan("sample"), task)
        multitask(criterion, ModelOutput(None, scored), targets).total.backward()
        decoder.zero_grad()

    return update


def output_layer(labels: int, sampled: int | None = None) -> Callable[[], Any]:
    """The last layer of the decoder and the loss on it, for sequences of as many steps as targets, and <eos>."""
    decoder = LabelDecoder(labels, 512, 64, 512, 1, 0.0)
    inputs = torch.randn(ROWS * (TARGETS + 1), 512, requires_grad=True)
    targets = torch.zeros(len(inputs), labels, dtype=torch.bool)
    targets.scatter_(1, torch.randint(0, labels, (len(inputs), 1)), True)

    def update() -> None:
        now, wanted, _ = narrow(decoder, targets, sampled)
        torch.nn.functional.cross_entropy(now.output(inputs), wanted.int().argmax(dim=1)).backward()
        decoder.zero_grad()

    return update


def narrow(
    decoder: LabelDecoder, targets: torch.Tensor, sampled: int | None
) -> tuple[LabelDecoder, torch.Tensor, torch.Tensor | None]:
    """The decoder, the targets (B, L) and the labels they are numbered by, as `sampled` makes them."""
    few = None if sampled is None else draw_candidates(targets, sampled)
    return (decoder, targets, None) if few is None else (narrowed(decoder, few), targets[:, few.labels], few.labels)


def encoder_update(words: int) -> Callable[[], Any]:
    config = complete_config(
        {"model": {"encoder": "bilstm", "encoder_options": {"embedding": 32, "hidden": 32}}}, "here"
    )
    network = build_network(config, 1000, 20)
    inputs = TokenInput(torch.randint(0, 1000, (8, words)), torch.full((8,), words))

    def update() -> None:
        found = network.encoder(inputs)
        (found.states.sum() + found.summary.sum()).backward()
        network.zero_grad()

    return update


def search(width: int) -> Callable[[], Any]:
    torch.manual_seed(1)
    decoder = LabelDecoder(200, HIDDEN, 64, HIDDEN, 1, 0.0).eval()
    state = decoder.start(encoded())
    limits = Limits(width, min_labels=TARGETS, max_labels=TARGETS)  # as many steps, whatever the width
    return torch.no_grad()(lambda: beam_search(decoder.step, state, 200, limits, None))


def reading(documents: int) -> Callable[[], Any]:
    """From a file to encoded corpora: everything that is done once for each document."""

    def read() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "corpus.jsonl"
            write_examples(generated_documents(documents), path, "jsonl", DataConfig())
            prepare(load_config(None, ["model.encoder=sparse"]), path, None, Path(folder))

    return read


SERIES: dict[str, tuple[str, tuple[int, ...], Callable[[int], Callable[[], Any]]]] = {
    "labels": ("labels, update of the label decoder", LABELS, decoder_update),
    "labels_sampled": ("labels, the same, 1,000 sampled", LABELS, partial(decoder_update, sampled=SAMPLED)),
    "output": ("labels, output layer", LABELS, output_layer),
    "output_sampled": ("labels, output layer, 1,000 sampled", LABELS, partial(output_layer, sampled=SAMPLED)),
    "words": ("words a document, update of a BiLSTM", WORDS, encoder_update),
    "width": ("width of the beam", WIDTHS, search),
    "documents": ("documents, reading and encoding", DOCUMENTS, reading),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=1_000_000, help="leave out larger sizes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "scaling.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    for key, (title, sizes, make) in SERIES.items():
        kept = [size for size in sizes if size <= arguments.largest]
        rounds = 1 if key == "documents" else arguments.rounds  # a million takes minutes
        seconds = alternate({str(size): make(size) for size in kept}, rounds)
        costs = {str(size): ratio(seconds[str(size)], seconds[str(kept[0])]) for size in kept}
        found[key] = {"title": title, "costs": costs}
        print(f"{title}: " + ", ".join(f"{int(size):,}: {cost['median']:.3g} x" for size, cost in costs.items()))
        if "10000" in costs and sizes is LABELS:
            growth = found[key]["ten_times_the_labels"] = ratio(seconds["10000"], seconds["1000"])["median"]
            print(f"  10,000 against 1,000: {growth:.2f} x (asked for: at most {ASKED:g})")
    result = {"versions": versions(), "rounds": arguments.rounds, "series": found}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    plot(found, arguments.out.with_suffix(".svg"))


def plot(found: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(4 * len(found), 3.4), layout="constrained")
    for axis, series in zip(np.atleast_1d(axes), found.values(), strict=True):
        sizes = [int(size) for size in series["costs"]]
        axis.plot(sizes, [cost["median"] for cost in series["costs"].values()], marker="o", label="measured")
        axis.plot(sizes, [size / sizes[0] for size in sizes], linestyle=":", color="grey", label="linear")
        axis.set(xscale="log", yscale="log", xlabel=series["title"], ylabel="cost, times the smallest")
    np.atleast_1d(axes)[0].legend()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
