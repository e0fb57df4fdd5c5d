"""One update of the trainer against the same update in plain PyTorch, written out one example and step at a time."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from orderfree.build import build_network, complete_config
from orderfree.checkpoint import TrainedModel
from orderfree.training.loop import Trainer
from orderfree.training.prepare import prepare
from orderfree.training.step import forward
from orderfree.types import Example

L, ROWS = 4, 7
RATE, DECAY, CLIP, BR_WEIGHT = 0.01, 0.1, 0.5, 0.7
CONFIG = {
    "data": {"valid_fraction": 0.3},
    "model": {
        "encoder": "dense",
        "encoder_options": {"hidden": 6, "layers": 1},
        "label_embedding": 5,
        "decoder_hidden": 7,
        "decoder_layers": 1,
        "br_hidden": 8,
        "br_layers": 1,
        "dropout": 0.0,
    },
    "objective": {"sequence": "ocd", "br_weight": BR_WEIGHT},
    "training": {"learning_rate": RATE, "weight_decay": DECAY, "clip_norm": CLIP, "batch_size": ROWS},
}


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    random = np.random.default_rng(2)
    names = [("a", "b"), ("c",), (), ("d", "a", "c"), ("b",), ("a",), ("a", "d"), ("c", "b")] * 2
    examples = [
        Example(str(i), features=random.normal(size=(1 + i % 3, 3)).astype(np.float32), labels=labels)
        for i, labels in enumerate(names)
    ]
    config = complete_config(CONFIG, "the test")
    data = prepare(config, examples, None, tmp_path)
    torch.manual_seed(4)
    network = build_network(config, data.featurizer.input_size, len(data.labels))
    for weights in network.parameters():  # larger than usual: every part has a visible effect
        torch.nn.init.normal_(weights, std=0.5)
    return Trainer(TrainedModel(config, data.labels, data.featurizer, network), data, tmp_path)


def attended(weights: dict[str, Tensor], part: str, query: Tensor, states: Tensor) -> Tensor:
    projected = torch.tanh(F.linear(query, weights[f"{part}.project.weight"], weights[f"{part}.project.bias"]))  # (H,)
    return (states @ projected).softmax(dim=0) @ states  # (H,)


def linear(weights: dict[str, Tensor], part: str, values: Tensor) -> Tensor:
    return F.linear(values, weights[f"{part}.weight"], weights[f"{part}.bias"])


def br_loss(weights: dict[str, Tensor], states: Tensor, targets: set[int]) -> Tensor:
    """Eq. 6 and 11."""
    query = F.leaky_relu(linear(weights, "br_decoder.mlp.1", states.mean(dim=0)))  # (8,)
    context = attended(weights, "br_decoder.attention", query, states)
    probs = linear(weights, "br_decoder.output", torch.cat([query, context])).sigmoid()  # (L,)
    return -sum(((p if i in targets else 1 - p).log() for i, p in enumerate(probs)), torch.zeros(()))


def lstm_cell(weights: dict[str, Tensor], label: int, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    part = {name.rsplit(".", 1)[1]: w for name, w in weights.items() if name.startswith("label_decoder.recurrent.")}
    fed = weights["label_decoder.embed.weight"][label]  # (5,)
    gates = F.linear(fed, part["weight_ih_l0"], part["bias_ih_l0"])
    gates = gates + F.linear(hidden, part["weight_hh_l0"], part["bias_hh_l0"])  # (4 * 7,)
    write, keep, content, show = gates.chunk(4)
    cell = keep.sigmoid() * cell + write.sigmoid() * content.tanh()
    return show.sigmoid() * cell.tanh(), cell


def ocd_loss(weights: dict[str, Tensor], states: Tensor, targets: set[int], sequence: list[int]) -> Tensor:
    """Eq. 2-3 and 10 at temperature 0: all missing labels, equally; <eos> once none is missing."""
    hidden, cell = linear(weights, "label_decoder.bridge", states.mean(dim=0)), torch.zeros(7)
    total, previous = torch.zeros(()), L
    for t, label in enumerate(sequence):
        hidden, cell = lstm_cell(weights, previous, hidden, cell)
        context = attended(weights, "label_decoder.attention", hidden, states)
        combined = torch.tanh(linear(weights, "label_decoder.combine", torch.cat([context, hidden])))
        log_probs = linear(weights, "label_decoder.output", combined).log_softmax(dim=0)  # (L + 1,)
        best = sorted(targets - set(sequence[:t])) or [L]
        for action in best:
            total = total + (1 / len(best)) * (-np.log(len(best)) - log_probs[action])
        previous = label
    return total


def test_one_update_is_what_plain_pytorch_makes_of_it(trainer: Trainer) -> None:
    rows = np.arange(ROWS)
    batch = trainer.data.train.batch(rows)
    torch.manual_seed(9)
    sampled = forward(trainer.network.train(), trainer.criterion, batch).sequence.rollout
    assert len({len(set(row) - {L}) for row in sampled.sequence.tolist()}) > 1  # sets of several sizes are sampled

    weights = {name: w.detach().clone().requires_grad_() for name, w in trainer.network.named_parameters()}
    total = torch.zeros(())
    for b in range(ROWS):
        frames = batch.inputs.frames[b, : batch.inputs.lengths[b]]  # (T, 3)
        states = F.leaky_relu(linear(weights, "encoder.stack.0", frames))  # (T, 6)
        targets = set(batch.targets[b].nonzero()[:, 0].tolist())
        sequence = sampled.sequence[b][sampled.active[b]].tolist()
        total = total + ocd_loss(weights, states, targets, sequence) + BR_WEIGHT * br_loss(weights, states, targets)
    (total / ROWS).backward()
    norm = torch.cat([w.grad.flatten() for w in weights.values()]).norm()
    assert norm > CLIP
    gradients = {name: w.grad * CLIP / norm for name, w in weights.items()}

    before = copy.deepcopy(dict(trainer.network.named_parameters()))
    torch.manual_seed(9)
    assert trainer.train_step(rows) == pytest.approx(total.item() / ROWS, rel=1e-5)
    for name, after in trainer.network.named_parameters():
        gradient = gradients[name]
        assert torch.allclose(after.grad, gradient, atol=1e-6), name
        # the first step of AdamW: a decay, then the rate in the direction of each entry of the gradient
        expected = before[name] * (1 - RATE * DECAY) - RATE * gradient / (gradient.abs() + 1e-8)
        clear = (gradient.abs() > 1e-6) | (gradient == 0)
        assert clear.any()
        assert torch.allclose(after[clear], expected[clear], atol=1e-5), name
