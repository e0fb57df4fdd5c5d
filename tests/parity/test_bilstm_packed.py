"""The BiLSTM encoder gives what torch's own packed bidirectional LSTM gives with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from orderfree.nn.encoders.bilstm import BiLSTMEncoder, BiLSTMOptions
from orderfree.types import TokenInput


def reference_of(encoder: BiLSTMEncoder, layers: int) -> nn.LSTM:
    first = encoder.forwards[0]
    reference = nn.LSTM(first.input_size, first.hidden_size, layers, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for layer in range(layers):
            for own, suffix in ((encoder.forwards[layer], ""), (encoder.backwards[layer], "_reverse")):
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    getattr(reference, f"{name}_l{layer}{suffix}").copy_(getattr(own, f"{name}_l0"))
    return reference


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_states_final_states_and_gradients(layers: int) -> None:
    torch.manual_seed(layers)
    encoder = BiLSTMEncoder(BiLSTMOptions(embedding=6, hidden=5, layers=layers), 30, 0.5, 4).eval()
    reference = reference_of(encoder, layers)
    lengths = torch.tensor([7, 1, 4, 9, 2])
    ids = torch.randint(0, 30, (5, 9))
    output = encoder(TokenInput(ids, lengths))

    embedded = encoder.embed(ids).detach()
    packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
    states, (hidden, _) = reference(packed)
    states, _ = pad_packed_sequence(states, batch_first=True)
    finals = hidden.view(layers, 2, 5, 5).permute(0, 2, 1, 3).reshape(layers, 5, 10)  # (E, B, H)
    assert torch.allclose(output.states, states, atol=1e-5)
    assert torch.allclose(output.final_hidden, finals, atol=1e-5)

    weight = torch.randn_like(states)
    ((output.states * weight).sum() + output.final_hidden.sum()).backward()
    ((states * weight).sum() + finals.sum()).backward()
    for layer in range(layers):
        assert torch.allclose(
            encoder.forwards[layer].weight_ih_l0.grad, getattr(reference, f"weight_ih_l{layer}").grad, atol=1e-4
        )
        assert torch.allclose(
            encoder.backwards[layer].weight_hh_l0.grad,
            getattr(reference, f"weight_hh_l{layer}_reverse").grad,
            atol=1e-4,
        )
