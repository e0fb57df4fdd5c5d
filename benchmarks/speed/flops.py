"""Floating-point operations that training needs, counted from the sizes alone. Padding, the sampling of sequences (a
second reading of the decoder) and everything that is not a matrix product count nothing: what is counted is useful."""

from __future__ import annotations

from collections.abc import Sequence

from orderfree.config import ModelConfig

BACKWARD = 2  # a product of matrices has two gradients, each as dear as itself


def linear(rows: int, before: int, after: int) -> int:
    return 2 * rows * before * after


def lstm(rows: int, before: int, hidden: int, layers: int) -> int:
    """rows: positions of all sequences together."""
    sizes = [before] + [hidden] * (layers - 1)
    return sum(linear(rows, size + hidden, 4 * hidden) for size in sizes)


def bilstm_encoder(lengths: Sequence[int], embedding: int, hidden: int, layers: int) -> int:
    sizes = [embedding] + [2 * hidden] * (layers - 1)
    return sum(2 * lstm(sum(lengths), size, hidden, 1) for size in sizes)


def attention(queries: Sequence[int], lengths: Sequence[int], query_size: int, states: int) -> int:
    """Queries of each input against its own positions: projection, energies, context."""
    return linear(sum(queries), query_size, states) + sum(
        2 * linear(q, states, t) for q, t in zip(queries, lengths, strict=True)
    )


def label_decoder(steps: Sequence[int], lengths: Sequence[int], model: ModelConfig, states: int, labels: int) -> int:
    """steps: of the sequence of each input, <eos> included."""
    rows, hidden = sum(steps), model.decoder_hidden
    return (
        lstm(rows, model.label_embedding, hidden, model.decoder_layers)
        + attention(steps, lengths, hidden, states)
        + linear(rows, states + hidden, hidden)
        + linear(rows, hidden, labels + 1)
    )


def br_decoder(lengths: Sequence[int], model: ModelConfig, states: int, labels: int) -> int:
    inputs, size, total = len(lengths), states, 0
    for _ in range(model.br_layers):
        total += linear(inputs, size, model.br_hidden)
        size = model.br_hidden
    return total + attention([1] * inputs, lengths, size, states) + linear(inputs, size + states, labels)


def training_update(lengths: Sequence[int], steps: Sequence[int], model: ModelConfig, labels: int) -> int:
    """Forward and backward of the paper's model on one batch."""
    options = model.encoder_options
    states = 2 * options["hidden"]
    forward = (
        bilstm_encoder(lengths, options["embedding"], options["hidden"], options["layers"])
        + label_decoder(steps, lengths, model, states, labels)
        + br_decoder(lengths, model, states, labels)
    )
    return forward * (1 + BACKWARD)
