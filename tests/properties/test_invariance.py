"""Names of labels carry nothing: permuting label ids permutes the loss and nothing else. Neither do padding and the
order of a batch."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from orderfree.build import build_network, complete_config
from orderfree.decoding.beam import Limits
from orderfree.decoding.rollout import RolloutTask
from orderfree.decoding.search import searches
from orderfree.decoding.sets import set_log_prob_br
from orderfree.nn.model import OrderFreeModel
from orderfree.objectives import objectives
from orderfree.objectives.multitask import Criterion, multitask, step_losses
from orderfree.training.step import score_rollout
from orderfree.types import DecodeInput, ModelOutput, RolloutPlan, TokenInput

LABELS, WORDS = 5, 20
quick = settings(max_examples=15, deadline=None, derandomize=True)


def small_model(seed: int = 0, layers: int = 2) -> OrderFreeModel:
    torch.manual_seed(seed)
    raw = {
        "model": {
            "encoder": "bilstm",
            "encoder_options": {"embedding": 8, "hidden": 6, "layers": 2},
            "label_embedding": 7,
            "decoder_hidden": 9,
            "decoder_layers": layers,
            "br_hidden": 8,
            "br_batch_norm": True,
        }
    }
    network = build_network(complete_config(raw, "the test"), WORDS, LABELS)
    for parameter in network.parameters():  # larger weights than usual: all outputs differ visibly
        torch.nn.init.normal_(parameter, std=0.6)
    return network.eval()


def relabelled(network: OrderFreeModel, new_id: Tensor) -> OrderFreeModel:
    """The same model where label i is called new_id[i]."""
    twin = copy.deepcopy(network)
    assert twin.label_decoder is not None
    assert twin.br_decoder is not None
    old = new_id.argsort()  # (L + 1,) which old label a new row holds
    with torch.no_grad():
        for layer in (twin.label_decoder.embed, twin.label_decoder.output):
            layer.weight.copy_(layer.weight[old])
        twin.label_decoder.output.bias.copy_(twin.label_decoder.output.bias[old])
        twin.br_decoder.output.weight.copy_(twin.br_decoder.output.weight[old[:-1]])
        twin.br_decoder.output.bias.copy_(twin.br_decoder.output.bias[old[:-1]])
    return twin


def random_inputs(seed: int, rows: int = 6) -> tuple[TokenInput, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (rows,), generator=generator)
    ids = torch.randint(0, WORDS, (rows, int(lengths.max())), generator=generator)
    return TokenInput(ids, lengths), torch.rand(rows, LABELS, generator=generator) < 0.4


def forward(network: OrderFreeModel, inputs: TokenInput, targets: Tensor, rank: Tensor) -> ModelOutput:
    """Both decoders on the model's own greedy sequences."""
    encoded, task = network.encoder(inputs), RolloutTask(targets, rank, torch.full((len(targets),), LABELS + 1))
    scored = score_rollout(network.label_decoder, encoded, RolloutPlan("best"), task)
    return ModelOutput(network.br_decoder(encoded), scored)


permutations = st.permutations(range(LABELS)).map(lambda ids: torch.tensor([*ids, LABELS]))


@quick
@given(permutations, st.integers(0, 1000), st.sampled_from(objectives.names()))
def test_permuting_label_ids_permutes_everything_and_leaves_the_loss(new_id: Tensor, seed: int, name: str) -> None:
    network = small_model()
    twin = relabelled(network, new_id)
    inputs, targets = random_inputs(seed)
    old = new_id.argsort()
    new_targets, rank = targets[:, old[:-1]], torch.arange(LABELS + 1)
    entry = objectives[name]
    before, after = forward(network, inputs, targets, rank), forward(twin, inputs, new_targets, rank[old])
    first, second = before.sequence, after.sequence
    assert torch.equal(new_id[first.rollout.sequence], second.rollout.sequence)
    assert torch.equal(first.rollout.active, second.rollout.active)
    assert torch.allclose(before.br_logits[:, old[:-1]], after.br_logits, atol=1e-5)
    assert torch.allclose(first.logits[..., old], second.logits, atol=1e-5)

    objective, renamed = entry(entry.Options(), rank), entry(entry.Options(), rank[old])
    assert torch.allclose(step_losses(objective, first, targets), step_losses(renamed, second, new_targets), atol=1e-4)
    totals = [
        multitask(Criterion(own), output, wanted).total
        for output, wanted, own in ((before, targets, objective), (after, new_targets, renamed))
    ]
    assert totals[0].item() == pytest.approx(totals[1].item(), abs=1e-4)


@quick
@given(permutations, st.integers(0, 1000), st.sampled_from(searches.names()))
def test_permuting_label_ids_permutes_predictions(new_id: Tensor, seed: int, name: str) -> None:
    network = small_model()
    inputs, _ = random_inputs(seed)
    before, after = (
        searches[name](decode_input(own, inputs), Limits()) for own in (network, relabelled(network, new_id))
    )
    assert torch.equal(new_id[before.sequences[:, 0]], after.sequences[:, 0])
    assert torch.allclose(before.scores[:, 0], after.scores[:, 0], atol=1e-4)


@torch.no_grad()
def decode_input(network: OrderFreeModel, inputs: TokenInput) -> DecodeInput:
    encoded = network.encoder(inputs)
    assert network.label_decoder is not None
    assert network.br_decoder is not None
    state = network.label_decoder.start(encoded)

    @torch.no_grad()
    def step(previous, state):
        return network.label_decoder.step(previous, state)

    br_logits = network.br_decoder(encoded)
    sets = br_logits[:, None] > torch.tensor([-0.5, 0.0, 0.5])[:, None]  # (B, 3, L)
    of_sets = set_log_prob_br(br_logits[:, None], sets)  # (B, 3)
    # this encoder has neither scores nor candidate sets of its own
    return DecodeInput(LABELS, step, state, br_logits, scores=br_logits, sets=sets, set_log_probs=of_sets)


@quick
@given(st.integers(0, 1000), st.sampled_from(searches.names()), st.integers(0, 5), st.randoms(use_true_random=False))
def test_padding_and_batch_order_change_no_prediction(seed: int, name: str, padding: int, random) -> None:
    network = small_model(layers=3)
    inputs, _ = random_inputs(seed)
    expected = searches[name](decode_input(network, inputs), Limits())
    order = list(range(len(inputs.ids)))
    random.shuffle(order)
    more = torch.full((len(order), padding), 7)
    shuffled = TokenInput(torch.cat([inputs.ids, more], dim=1)[order], inputs.lengths[order])
    found = searches[name](decode_input(network, shuffled), Limits())
    assert torch.equal(found.sequences[:, 0], expected.sequences[order][:, 0])
    assert torch.allclose(found.scores[:, 0], expected.scores[order][:, 0], atol=1e-4)
    for place in range(2):
        length = int(inputs.lengths[place])
        alone = TokenInput(inputs.ids[place : place + 1, :length], inputs.lengths[place : place + 1])
        own = searches[name](decode_input(network, alone), Limits())
        steps = own.sequences.shape[2]
        assert own.sequences[0, 0].tolist() == expected.sequences[place, 0, :steps].tolist()


@quick
@given(st.integers(0, 1000))
def test_padding_and_batch_order_change_no_loss(seed: int) -> None:
    network = small_model()
    inputs, targets = random_inputs(seed)
    rank = torch.arange(LABELS + 1)
    entry = objectives["ocd"]
    objective = entry(entry.Options(), rank)
    scored = forward(network, inputs, targets, rank).sequence
    expected = step_losses(objective, scored, targets)
    order = torch.arange(len(targets)).flip(0)
    padded = torch.cat([inputs.ids, torch.full((len(targets), 4), 3)], dim=1)
    again = forward(network, TokenInput(padded[order], inputs.lengths[order]), targets[order], rank).sequence
    assert torch.equal(again.rollout.sequence, scored.rollout.sequence[order])
    assert torch.allclose(step_losses(objective, again, targets[order]), expected[order], atol=1e-4)
