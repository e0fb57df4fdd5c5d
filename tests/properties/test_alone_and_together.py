"""What is predicted for an input does not depend on what else is in its batch, with any decoder."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from orderfree.decoding.beam import Limits
from orderfree.decoding.search import searches
from orderfree.decoding.sets import set_log_prob, step_marginals
from orderfree.inference import Predictor
from orderfree.testing.contracts import decode_input, prefix_model, rows_of
from orderfree.types import DecodeInput, DecoderState, Example
from unit_models import made_model

quick = settings(max_examples=30, deadline=None, derandomize=True)
INPUTS = 12


@st.composite
def problems(draw: st.DrawFn) -> tuple[DecodeInput, Limits]:
    """Some inputs have small sets and some large ones, so that they have ended at different steps."""
    labels, seed = draw(st.sampled_from((2, 5, 16))), draw(st.integers(0, 10_000))
    plain_step, state = prefix_model(INPUTS, labels, seed, scale=draw(st.sampled_from((0.5, 1.5, 4.0))))
    made_up = decode_input(INPUTS, labels, seed)  # of which scores and candidate sets are taken
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(-1, 2, (INPUTS, 1, 1), generator=generator) * 6.0  # added to the logit of <eos>

    def step(previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        logits, state = plain_step(previous, state)
        rows = len(previous) // len(state.memory)
        logits[:, labels] += state.memory[:, 0, 0].repeat_interleave(rows)
        return logits, state

    state = replace(state, memory=ends)
    br_logits = 2 * torch.randn(INPUTS, labels, generator=generator)
    fewest = draw(st.integers(0, 3))
    most = draw(st.integers(max(fewest, 1), 8))
    limits = Limits(draw(st.integers(1, 8)), fewest, most, draw(st.booleans()))
    return replace(made_up, step=step, state=state, br_logits=br_logits), limits


def best(problem: DecodeInput, limits: Limits, name: str) -> list[list[float]]:
    """The labels of the best hypothesis of every input, and behind them its score."""
    found = searches[name](problem, limits)
    sequences = found.sequences[:, 0].tolist()
    return [
        [*(label for label in sequence if label != problem.num_labels), score]
        for sequence, score in zip(sequences, found.scores[:, 0].tolist(), strict=True)
    ]


@pytest.mark.parametrize("name", searches.names())
@quick
@given(problem=problems(), some_places=st.lists(st.integers(0, INPUTS - 1), min_size=1, unique=True))
def test_every_search(name: str, problem: tuple[DecodeInput, Limits], some_places: list[int]) -> None:
    whole, limits = problem
    together = best(whole, limits, name)
    for place in range(INPUTS):
        assert best(rows_of(whole, torch.tensor([place])), limits, name)[0] == pytest.approx(
            together[place], abs=1e-4
        ), place
    for place, found in zip(some_places, best(rows_of(whole, torch.tensor(some_places)), limits, name), strict=True):
        assert found == pytest.approx(together[place], abs=1e-4), place


@quick
@given(problems())
def test_probabilities_of_labels_and_sets(problem: tuple[DecodeInput, Limits]) -> None:
    whole, limits = problem
    sets = torch.rand(INPUTS, whole.num_labels, generator=torch.Generator().manual_seed(1)) < 0.4
    marginals, log_probs = step_marginals(whole, limits), set_log_prob(whole, sets, limits)
    for place in range(INPUTS):
        one = rows_of(whole, torch.tensor([place]))
        assert torch.allclose(step_marginals(one, limits)[0], marginals[place], atol=1e-5)
        assert torch.allclose(set_log_prob(one, sets[place : place + 1], limits)[0], log_probs[place], atol=1e-4)


@pytest.mark.parametrize("decoder", ["lstm", "sgm", "seq2set"])
@pytest.mark.parametrize("encoder", ["sparse", "bilstm", "linear"])
def test_whole_models(encoder: str, decoder: str) -> None:
    words = ["red", "fish", "blue", "one", "two", "swim", "in", "a", "big", "pond"]
    texts = [" ".join(words[n % 7 : n % 7 + 1 + n % 4] * (1 + n % 3)) for n in range(20)]
    examples = [Example(str(n), text=text) for n, text in enumerate(texts)]
    predictor = Predictor(made_model(5, encoder=encoder, label_decoder=decoder))
    names = list(predictor.decoders)
    together = list(predictor.predict(examples, names, marginals=True))
    for example, found in zip(examples, together, strict=True):
        (alone,) = predictor.predict([example], names, marginals=True)
        for name in names:
            assert alone.label_sets[name].labels == found.label_sets[name].labels, (name, example)
        assert alone.marginals == pytest.approx(found.marginals, abs=1e-5)
