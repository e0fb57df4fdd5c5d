"""Decoders over candidate labels say of a candidate what they say of it among all labels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from orderfree.decoding.beam import Limits
from orderfree.decoding.search import searches
from orderfree.nn.br_decoder import BRDecoder
from orderfree.nn.label_decoder import LabelDecoder
from orderfree.nn.residual_decoder import ResidualDecoder
from orderfree.types import DecodeInput, EncoderOutput

INPUTS, LABELS, CANDIDATES, SIZE = 3, 11, 5, 6


def encoded(labels: Tensor | None, scores: Tensor) -> EncoderOutput:
    summary = torch.randn(INPUTS, SIZE, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(INPUTS, 1, dtype=torch.bool)
    own = scores if labels is None else scores.gather(1, labels)
    return EncoderOutput(summary[:, None], mask, summary[None], own, labels)


@pytest.fixture
def candidates() -> Tensor:
    drawn = torch.Generator().manual_seed(2)
    rows = [torch.randperm(LABELS, generator=drawn)[:CANDIDATES].sort().values for _ in range(INPUTS)]
    return torch.stack(rows)  # (B, C)


@pytest.fixture
def scores() -> Tensor:
    return torch.randn(INPUTS, LABELS, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("kind", [LabelDecoder, ResidualDecoder])
@pytest.mark.parametrize("width", [1, 2])
def test_logits_of_candidates(kind: type[LabelDecoder], width: int, candidates: Tensor, scores: Tensor) -> None:
    torch.manual_seed(4)
    decoder = kind(LABELS, SIZE, 4, 7, 1, 0.0).eval()
    torch.nn.init.normal_(decoder.output.weight)
    rows = torch.arange(INPUTS).repeat_interleave(width)
    some, everything = (decoder.start(encoded(labels, scores)).select(rows) for labels in (candidates, None))
    chosen = torch.randint(CANDIDATES, (INPUTS * width, 3), generator=torch.Generator().manual_seed(5))  # (R, K)
    inputs = torch.cat([torch.full((INPUTS * width, 1), CANDIDATES), chosen], dim=1)
    ids = torch.cat([candidates, torch.full((INPUTS, 1), LABELS)], dim=1)[rows]  # (R, C + 1)
    logits, _ = decoder.unroll(inputs, some)  # (R, K, C + 1)
    expected, _ = decoder.unroll(ids.gather(1, inputs), everything)  # (R, K, L + 1)
    torch.testing.assert_close(logits, expected.gather(2, ids[:, None].expand(-1, 4, -1)))


def test_binary_relevance_of_candidates(candidates: Tensor, scores: Tensor) -> None:
    torch.manual_seed(6)
    decoder = BRDecoder(LABELS, SIZE, 5, 1, 0.0, False).eval()
    expected = decoder(encoded(None, scores)).gather(1, candidates)
    torch.testing.assert_close(decoder(encoded(candidates, scores)), expected)


@pytest.mark.parametrize("name", ["greedy", "beam", "joint", "rescore", "br", "marginal", "expected_f1", "linear"])
def test_a_shortlist_of_all_labels_is_none(name: str, scores: Tensor) -> None:
    torch.manual_seed(7)
    decoder, br = ResidualDecoder(LABELS, SIZE, 4, 7, 1, 0.0).eval(), BRDecoder(LABELS, SIZE, 5, 1, 0.0, False).eval()
    torch.nn.init.normal_(decoder.output.weight)
    answers = []
    for labels in (None, torch.arange(LABELS).expand(INPUTS, -1)):
        output = encoded(labels, scores)
        decode_input = DecodeInput(
            LABELS, decoder.step, decoder.start(output), br(output), scores=output.scores, labels=output.labels
        )
        with torch.inference_mode():
            answers.append(searches[name](decode_input, Limits(width=4, max_labels=4)))
    assert torch.equal(answers[0].sequences, answers[1].sequences)
    torch.testing.assert_close(answers[0].scores, answers[1].scores)
