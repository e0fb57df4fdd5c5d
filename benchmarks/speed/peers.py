"""The paper's network beside networks of other libraries, on the same inputs, by turns in one run.

    python benchmarks/speed/peers.py [--rounds 5] [--out benchmarks/results/peers.json]

Needs `pip install libmultilabel transformers`. All weights are random: only time is compared, CPU time of one thread.

- LibMultiLabel's KimCNN and BiGRU with label-wise attention, at their own default sizes, against our BiLSTM of the
  paper's size with binary relevance alone and with OCD beside it: updates on 32 documents of 100 words, 90 labels.
- Hugging Face's `generate` with beams against our beam search: a BART decoder as deep and wide as the paper's label
  decoder, over the same encoder states, the same number of steps. It keeps keys and values of earlier steps.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from libmultilabel.nn.networks import BiGRULWAN, KimCNN
from torch import nn
from torch.nn import functional as F
from transformers import BartConfig, BartForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput
from turns import alternate, ratio

from orderfree.build import build_criterion, build_network, load_config
from orderfree.checkpoint import versions
from orderfree.decoding.beam import Limits, beam_search
from orderfree.experiments.grid import CONFIGS
from orderfree.nn.label_decoder import LabelDecoder
from orderfree.training.step import losses
from orderfree.types import Batch, EncoderOutput, TokenInput

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS, WORDS, VOCABULARY, LABELS, TARGETS = 32, 100, 20_000, 90, 3
HIDDEN, LAYERS, WIDTH, STEPS = 512, 2, 6, 6  # the paper's label decoder and beam


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Words (B, T) and targets (B, L)."""
    targets = torch.zeros(DOCUMENTS, LABELS, dtype=torch.bool)
    targets.scatter_(1, torch.rand(DOCUMENTS, LABELS).topk(TARGETS).indices, True)
    return torch.randint(1, VOCABULARY, (DOCUMENTS, WORDS)), targets


def learning(network: nn.Module, loss: Callable[[], torch.Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.Adam(network.parameters())

    def update() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return update


def libmultilabel_update(network: nn.Module, words: torch.Tensor, targets: torch.Tensor) -> Callable[[], None]:
    given = {"text": words, "length": torch.full((DOCUMENTS,), WORDS)}
    return learning(
        network, lambda: F.binary_cross_entropy_with_logits(network(given)["logits"], targets.float(), reduction="sum")
    )


def our_update(row: str, words: torch.Tensor, targets: torch.Tensor) -> Callable[[], None]:
    config = load_config(CONFIGS / "reuters" / f"{row}.yaml")
    config.objective.max_steps, config.objective.extra_steps = STEPS, None
    network, criterion = build_network(config, VOCABULARY, LABELS), build_criterion(config, range(LABELS))
    inputs = TokenInput(words, torch.full((DOCUMENTS,), WORDS))
    batch = Batch(inputs, targets, torch.arange(DOCUMENTS))
    return learning(network, lambda: losses(network, criterion, batch).total)


def searching(states: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """Beams of WIDTH over the encoder's states (B, T, D), for STEPS labels each."""
    mask = torch.ones(states.shape[:2], dtype=torch.bool)
    decoder = LabelDecoder(LABELS, HIDDEN, HIDDEN, HIDDEN, LAYERS, 0.0).eval()
    limits = Limits(WIDTH, min_labels=STEPS, max_labels=STEPS)
    bart = BartForConditionalGeneration(
        BartConfig(
            vocab_size=LABELS + 3, d_model=HIDDEN, encoder_layers=1, decoder_layers=LAYERS, encoder_ffn_dim=HIDDEN,
            decoder_ffn_dim=4 * HIDDEN, encoder_attention_heads=8, decoder_attention_heads=8,
            max_position_embeddings=64, pad_token_id=LABELS,
            bos_token_id=LABELS + 1, eos_token_id=LABELS + 2, decoder_start_token_id=LABELS + 1,
            forced_eos_token_id=None,
        )
    ).eval()  # fmt: skip

    @torch.inference_mode()
    def ours() -> None:
        state = decoder.start(EncoderOutput(states, mask, states[:, -1][None]))
        beam_search(decoder.step, state, LABELS, limits, None)

    @torch.inference_mode()
    def generate() -> None:
        found = BaseModelOutput(last_hidden_state=states)  # a new one each time: generate repeats it in place
        bart.generate(
            encoder_outputs=found, attention_mask=mask.long(), num_beams=WIDTH, do_sample=False,
            min_new_tokens=STEPS, max_new_tokens=STEPS, num_return_sequences=1,
        )  # fmt: skip

    return {"ours": ours, "generate": generate}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "peers.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    words, targets = batch()
    vectors = torch.randn(VOCABULARY, 300)
    trained = alternate(
        {
            "KimCNN": libmultilabel_update(KimCNN(vectors, LABELS, filter_sizes=[2, 4, 8]), words, targets),
            "BiGRU": libmultilabel_update(BiGRULWAN(vectors, LABELS), words, targets),
            "br": our_update("br", words, targets),
            "ocd-mtl": our_update("ocd-mtl", words, targets),
        },
        arguments.rounds,
    )
    searched = alternate(searching(torch.randn(DOCUMENTS, WORDS, HIDDEN)), arguments.rounds)
    figures = {
        f"training, {row}: times the speed of LibMultiLabel's {peer}": ratio(trained[peer], trained[row])
        for row in ("br", "ocd-mtl")
        for peer in ("BiGRU", "KimCNN")
    }
    figures["beam search: times the speed of Hugging Face's generate"] = ratio(searched["generate"], searched["ours"])
    result = {"versions": versions(), "rounds": arguments.rounds, "figures": figures}
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, found in figures.items():
        print(f"{name}: {found['median']:.2f} ({found['lowest']:.2f} to {found['highest']:.2f})")


if __name__ == "__main__":
    main()
