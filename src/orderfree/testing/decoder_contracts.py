"""Contract checks for label decoders and binary-relevance decoders; each raises AssertionError with one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..config import ModelConfig
from ..nn.br_decoder import br_decoders
from ..nn.label_decoder import SequenceDecoder, label_decoders
from ..types import EncoderOutput

ROWS, TOKENS, SIZE, LABELS = 3, 4, 6, 5
TOLERANCE = 1e-5


def check_label_decoder(name: str) -> None:
    """What it declares, shapes, steps that agree with `unroll`, rows that do not touch each other, gradients."""
    entry = label_decoders[name]
    _check_declared(f"label decoder {name!r}", entry, ("needs_scores", "reads_all_labels", "fixed_order"))
    decoder: Any = _random_weights(entry.from_config(_settings(), LABELS, SIZE))
    encoded = _encoded(scored=entry.needs_scores)
    inputs = torch.tensor([[LABELS, 0, 2, 4], [LABELS, 1, 3, 4], [LABELS, 2, 3, 4]])  # (R, K), frequent labels first
    logits, _ = decoder.unroll(inputs, decoder.start(encoded))
    expected = (*inputs.shape, LABELS + 1)
    assert logits.shape == expected, (
        f"label decoder {name!r}: logits have shape {tuple(logits.shape)}, expected {expected}."
    )
    assert torch.isfinite(logits).all(), f"label decoder {name!r}: a logit is not finite; forbid with -1e9 instead."
    assert torch.allclose(_step_by_step(decoder, inputs, encoded), logits, atol=TOLERANCE), (
        f"label decoder {name!r}: `unroll` and repeated calls of `step` give other logits."
    )
    for row in range(ROWS):
        alone, _ = decoder.unroll(inputs[row : row + 1], decoder.start(_row(encoded, row)))
        assert torch.allclose(alone[0], logits[row], atol=TOLERANCE), (
            f"label decoder {name!r}: row {row} comes out differently alone than beside the others."
        )
    logits.log_softmax(dim=-1)[..., -1].sum().backward()
    gradients = [weights.grad for weights in decoder.parameters() if weights.grad is not None]
    assert gradients, f"label decoder {name!r}: no gradient reaches any of its weights."
    assert all(torch.isfinite(gradient).all() for gradient in gradients), (
        f"label decoder {name!r}: a gradient is not finite."
    )


def check_br_decoder(name: str) -> None:
    """What it declares, its shape, and rows that do not touch each other."""
    entry = br_decoders[name]
    _check_declared(f"binary-relevance decoder {name!r}", entry, ("needs_scores", "repeats_scores"))
    decoder = _random_weights(entry.from_config(_settings(), LABELS, SIZE))
    encoded = _encoded(scored=entry.needs_scores)
    logits = decoder(encoded)
    assert logits.shape == (ROWS, LABELS), (
        f"binary-relevance decoder {name!r}: logits have shape {tuple(logits.shape)}, expected {(ROWS, LABELS)}."
    )
    for row in range(ROWS):
        assert torch.allclose(decoder(_row(encoded, row))[0], logits[row], atol=TOLERANCE), (
            f"binary-relevance decoder {name!r}: row {row} comes out differently alone than beside longer rows."
        )
    if entry.repeats_scores:
        assert encoded.scores is not None, f"binary-relevance decoder {name!r}: repeats scores, so it needs some."
        assert torch.equal(logits, encoded.scores), f"binary-relevance decoder {name!r}: does not repeat the scores."


def _check_declared(what: str, entry: type, names: tuple[str, ...]) -> None:
    for name in names:
        assert isinstance(getattr(entry, name, None), bool), f"{what}: its class must say {name} = True or False."


def _settings() -> ModelConfig:
    return ModelConfig(label_embedding=5, decoder_hidden=7, decoder_layers=2, br_hidden=8, br_layers=1, dropout=0.5)


def _random_weights(decoder: Any) -> Any:
    generator = torch.Generator().manual_seed(3)
    for weights in decoder.parameters():
        torch.nn.init.normal_(weights, std=0.7, generator=generator)
    return decoder.eval()


def _encoded(scored: bool) -> EncoderOutput:
    """Rows of 4, 2 and 1 states; with label scores where they are needed, and only there."""
    generator = torch.Generator().manual_seed(7)
    mask = torch.arange(TOKENS) < torch.tensor([4, 2, 1])[:, None]  # (B, T)
    states = torch.randn(ROWS, TOKENS, SIZE, generator=generator) * mask[..., None]  # (B, T, H)
    final = torch.randn(2, ROWS, SIZE, generator=generator)  # (E, B, H)
    scores = torch.randn(ROWS, LABELS, generator=generator)  # (B, L)
    return EncoderOutput(states, mask, final, scores if scored else None)


def _row(encoded: EncoderOutput, row: int) -> EncoderOutput:
    """One row without its padding."""
    length = int(encoded.mask[row].sum())
    here = slice(row, row + 1)
    return replace(
        encoded,
        states=encoded.states[here, :length],
        mask=encoded.mask[here, :length],
        final_hidden=encoded.final_hidden[:, here],
        scores=None if encoded.scores is None else encoded.scores[here],
    )


def _step_by_step(decoder: SequenceDecoder, inputs: Tensor, encoded: EncoderOutput) -> Tensor:
    state, steps = decoder.start(encoded), []
    for t in range(inputs.shape[1]):
        logits, state = decoder.step(inputs[:, t], state)  # (R, L + 1)
        steps.append(logits)
    return torch.stack(steps, dim=1)  # (R, K, L + 1)
