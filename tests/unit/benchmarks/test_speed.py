"""The speed benchmark: its count of operations against torch's own, its arithmetic of ratios, its regression check."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from orderfree.build import build_network, complete_config
from orderfree.types import TokenInput

SPEED = Path(__file__).parents[3] / "benchmarks" / "speed"
sys.path.insert(0, str(SPEED))  # its modules are scripts that lie side by side

import flops  # noqa: E402
import turns  # noqa: E402

B, T, K, L = 3, 7, 4, 11


@pytest.mark.parametrize("layers", [1, 2])
def test_operations_are_those_torch_counts(layers: int) -> None:
    raw = {
        "model": {
            "encoder": "bilstm", "encoder_options": {"embedding": 6, "hidden": 5, "layers": layers},
            "label_embedding": 8, "decoder_hidden": 9, "decoder_layers": layers, "br_hidden": 7, "br_layers": 2,
            "dropout": 0.0,
        }
    }  # fmt: skip
    config = complete_config(raw, "a test")
    network = build_network(config, 20, L)
    inputs = TokenInput(torch.randint(0, 20, (B, T)), torch.full((B,), T))  # nothing is padding: all of it is useful
    # fused kernels are not counted, the plain ones they stand for are; lengths of one size leave nothing else
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        encoded = network.encoder(inputs)
        start = network.label_decoder.start(encoded)
        before = counter.get_total_flops()
        logits, _ = network.label_decoder.unroll(torch.full((B, K), L), start)
        br = network.br_decoder(encoded)
        forward = counter.get_total_flops()
        (logits.sum() + br.sum()).backward()
        total = counter.get_total_flops()
    bridge = layers * flops.linear(B, 10, 9)  # the decoder's start, which the count leaves out
    options = config.model.encoder_options
    assert before - bridge == flops.bilstm_encoder([T] * B, options["embedding"], options["hidden"], layers)
    decoders = flops.label_decoder([K] * B, [T] * B, config.model, 10, L) + flops.br_decoder(
        [T] * B, config.model, 10, L
    )
    assert forward - before == decoders
    counted = flops.training_update([T] * B, [K] * B, config.model, L)
    assert counted == 3 * (forward - bridge)
    assert total == pytest.approx(counted + 3 * bridge, rel=0.02)  # the very first states have no gradient


def test_a_ratio_is_taken_turn_by_turn() -> None:
    found = turns.ratio([2.0, 4.0, 30.0], [1.0, 2.0, 10.0])
    assert found == {"median": 2.0, "lowest": 2.0, "highest": 3.0, "turns": [2.0, 2.0, 3.0]}


def test_turns_alternate_and_the_first_is_not_counted() -> None:
    ran: list[str] = []
    found = turns.alternate({"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, rounds=2)
    assert ran == ["a", "b"] * 3
    assert {name: len(seconds) for name, seconds in found.items()} == {"a": 2, "b": 2}


def test_what_got_worse_is_named() -> None:
    baseline = {
        "a": {"median": 10.0, "better": "higher"},
        "b": {"median": 2.0, "better": "lower"},
        "gone": {"median": 1},
    }
    now = {"a": {"median": 8.0, "better": "higher"}, "b": {"median": 2.2, "better": "lower"}, "new": {"median": 1}}
    assert turns.worse(now, baseline) == ["a: 8 instead of 10"]
    now["b"]["median"] = 2.4
    assert turns.worse(now, baseline) == ["a: 8 instead of 10", "b: 2.4 instead of 2"]
    assert turns.worse(baseline, baseline) == []
