"""Everything that is registered keeps its contract, without a list of names here; and the contracts can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from orderfree.config import DataConfig
from orderfree.data.readers import readers
from orderfree.data.readers.source import Source
from orderfree.data.writers import WRITERS, write_examples
from orderfree.decoding.search import searches
from orderfree.nn.br_decoder import SummaryOutput, br_decoders
from orderfree.nn.encoders import encoders
from orderfree.nn.encoders.dense import DenseEncoder, DenseOptions
from orderfree.nn.label_decoder import LabelDecoder, label_decoders
from orderfree.objectives import objectives
from orderfree.objectives.ocd import OCD, OCDOptions
from orderfree.system.registry import Registry
from orderfree.testing.contracts import check_encoder, check_objective, check_reader, check_search
from orderfree.testing.decoder_contracts import check_br_decoder, check_label_decoder
from orderfree.types import EncoderOutput, Example, Hypotheses, RolloutPlan


@pytest.mark.parametrize("name", encoders.names())
def test_encoders(name: str) -> None:
    check_encoder(name)


@pytest.mark.parametrize("name", label_decoders.names())
def test_label_decoders(name: str) -> None:
    check_label_decoder(name)


@pytest.mark.parametrize("name", br_decoders.names())
def test_br_decoders(name: str) -> None:
    check_br_decoder(name)


def test_a_label_decoder_whose_steps_disagree_is_refused(register) -> None:
    class Forgetful(LabelDecoder):
        def step(self, previous, state):
            logits, _ = super().step(previous, state)
            return logits, state

    with pytest.raises(AssertionError, match="`unroll` and repeated calls of `step` give other logits"):
        check_label_decoder(register(label_decoders, Forgetful))


def test_a_binary_relevance_decoder_that_reads_padding_is_refused(register) -> None:
    class Padded(SummaryOutput):
        def forward(self, encoded):
            return self.output(encoded.states.mean(dim=1))

    with pytest.raises(AssertionError, match="row 1 comes out differently alone"):
        check_br_decoder(register(br_decoders, Padded))


@pytest.mark.parametrize("name", objectives.names())
def test_objectives(name: str) -> None:
    check_objective(name)


def test_an_objective_may_use_the_rank_of_a_label(register) -> None:
    """A label that gets another id takes its rank with it."""

    class Ranked(OCD):
        def step_losses(self, logits, rollout, targets):
            return super().step_losses(logits, rollout, targets) * (1 + self.rank[rollout.sequence])

    check_objective(register(objectives, Ranked))


@pytest.mark.parametrize("name", searches.names())
def test_searches(name: str) -> None:
    check_search(name)


@pytest.mark.parametrize("name", [name for name in readers.names() if name in WRITERS])
def test_readers(name: str, tmp_path: Path) -> None:
    check_reader(name, tmp_path)


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch):
    """Registers for one test only."""

    def add(registry: Registry, entry: object) -> str:
        monkeypatch.setattr(registry, "_entries", {**registry._entries, "flawed": entry})
        return "flawed"

    return add


def test_an_encoder_that_sees_padding_is_caught(register) -> None:
    class Flawed(DenseEncoder):
        def forward(self, inputs):
            output = super().forward(inputs)
            return EncoderOutput(output.states, output.mask, output.states.mean(dim=1)[None])

    with pytest.raises(AssertionError, match="mask the padding"):
        check_encoder(register(encoders, Flawed))


def test_an_encoder_with_unmasked_states_is_caught(register) -> None:
    class Flawed(DenseEncoder):
        def forward(self, inputs):
            output = super().forward(inputs)
            return EncoderOutput(self.stack(inputs.frames), output.mask, output.final_hidden)

    with pytest.raises(AssertionError, match="zero where masked"):
        check_encoder(register(encoders, Flawed))


def test_an_encoder_with_a_dead_parameter_is_caught(register) -> None:
    class Flawed(DenseEncoder):
        def __init__(self, options: DenseOptions, input_size: int, dropout: float, num_labels: int) -> None:
            super().__init__(options, input_size, dropout, num_labels)
            self.unused = nn.Parameter(torch.zeros(1))

    with pytest.raises(AssertionError, match="no gradient reaches unused"):
        check_encoder(register(encoders, Flawed))


def test_an_encoder_whose_state_is_not_saved_is_caught(register) -> None:
    class Flawed(DenseEncoder):
        def __init__(self, options: DenseOptions, input_size: int, dropout: float, num_labels: int) -> None:
            super().__init__(options, input_size, dropout, num_labels)
            self.offset = torch.randn(1)

        def forward(self, inputs):
            output = super().forward(inputs)
            states = (output.states + self.offset) * output.mask[..., None]
            return EncoderOutput(states, output.mask, output.final_hidden)

    with pytest.raises(AssertionError, match="state_dict"):
        check_encoder(register(encoders, Flawed))


class _OwnRank(OCD):
    def __init__(self, options: OCDOptions, rank: torch.Tensor) -> None:
        super().__init__(options, rank.flip(0))


class _PrefersLabelOne(OCD):
    def step_losses(self, logits, rollout, targets):
        return super().step_losses(logits, rollout, targets) + logits[..., 1].square()


class _Averages(OCD):
    def step_losses(self, logits, rollout, targets):
        losses = super().step_losses(logits, rollout, targets)
        return losses - losses.mean(dim=0, keepdim=True).detach()


@pytest.mark.parametrize(
    ("flawed", "sentence"),
    [(_OwnRank, "come last in rank"), (_PrefersLabelOne, "other ids"), (_Averages, "other rows of its batch")],
)
def test_a_flawed_objective_is_caught(register, flawed: type, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_objective(register(objectives, flawed))


def test_an_unknown_policy_is_caught(register) -> None:
    class Flawed(OCD):
        def plan(self, done: float) -> RolloutPlan:
            return RolloutPlan("nobody")

    with pytest.raises(AssertionError, match="'nobody' is not registered"):
        check_objective(register(objectives, Flawed))


def _worst_first(given, limits) -> Hypotheses:
    found = searches["beam"](given, limits)
    return Hypotheses(found.sequences.flip(1), found.scores.flip(1), found.log_probs.flip(1))


def _repeats(given, limits) -> Hypotheses:
    found = searches["br"](given, limits)
    twice = torch.cat([found.sequences[..., :1], found.sequences], dim=-1)
    return Hypotheses(twice, found.scores, found.log_probs)


def _ignores_limits(given, limits) -> Hypotheses:
    return searches["br"](given, type(limits)())


def _first_input_only(given, limits) -> Hypotheses:
    found = searches["br"](given, limits)
    return Hypotheses(found.sequences[:1].expand_as(found.sequences), found.scores, found.log_probs)


@pytest.mark.parametrize(
    ("flawed", "sentence"),
    [
        (_worst_first, "best first"),
        (_repeats, "repeats a label"),
        (_ignores_limits, "min_labels or max_labels"),
        (_first_input_only, "in a batch and"),
    ],
)
def test_a_flawed_search_is_caught(register, flawed, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_search(register(searches, flawed))


def test_a_flawed_reader_is_caught(register, tmp_path: Path) -> None:
    def forgets_labels(source: Source, options):
        yield from (Example(str(n), text=line, labels=()) for n, line in enumerate(source.lines()))

    def crashes(source: Source, options):
        yield from readers["jsonl"](source, options)
        if source.line is None:
            raise KeyError("column")

    def write(examples: list[Example], path: Path) -> None:
        write_examples(examples, path, "jsonl", DataConfig())

    with pytest.raises(AssertionError, match="not what was written"):
        check_reader(register(readers, forgets_labels), tmp_path, write)
    with pytest.raises(AssertionError, match="KeyError"):
        check_reader(register(readers, crashes), tmp_path, write)
    with pytest.raises(AssertionError, match="pass `write`"):
        check_reader(register(readers, crashes), tmp_path)
