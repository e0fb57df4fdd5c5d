"""Several encoders in parallel: the decoders attend to the states of all of them."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field, model_validator
from torch import nn

from ...config import PositiveInt, Section
from ...errors import ConfigError
from ...types import EncoderOutput, HybridInput
from . import encoders

DEFAULT_PARTS: dict[str, dict[str, Any]] = {"linear": {}, "bilstm": {}}


class HybridOptions(Section):
    """Several encoders in parallel, their states projected to the same size."""

    parts: dict[str, dict[str, Any]] = Field(
        default_factory=lambda: dict(DEFAULT_PARTS),
        description="names of encoders with their options; no two may have the same kind of input",
    )
    hidden: PositiveInt = Field(128, description="size to which the states of every part are projected")

    @model_validator(mode="after")
    def _complete(self) -> HybridOptions:
        if len(self.parts) < 2 or "hybrid" in self.parts:
            raise ValueError("expected two or more encoders other than hybrid")
        try:
            self.parts = {name: options.model_dump() for name, options in self.part_options.items()}
        except ConfigError as error:  # an unknown name
            raise ValueError(str(error)) from None
        fed = list(self.input_kinds.values())
        if len(set(fed)) < len(fed):
            raise ValueError("two of these encoders are fed the same thing; leave one out")
        return self

    @property
    def part_options(self) -> dict[str, Section]:
        entries: dict[str, Any] = {name: encoders[name] for name in self.parts}
        return {name: entry.Options.model_validate(self.parts[name]) for name, entry in entries.items()}

    @property
    def scores_labels(self) -> bool:
        return any(getattr(encoders[name], "scores_labels", False) for name in self.parts)

    @property
    def input_kinds(self) -> dict[str, str]:
        """The kind of input of each part."""
        entries: dict[str, Any] = {name: encoders[name] for name in self.parts}
        options = self.part_options
        return {name: str(getattr(options[name], "input_kind", entry.input_kind)) for name, entry in entries.items()}


@encoders.register("hybrid")
class HybridEncoder(nn.Module):
    """The concatenated states of all parts, the sum of their summaries, and the scores of the part that has scores."""

    Options = HybridOptions
    input_kind: ClassVar[str] = "hybrid"

    def __init__(self, options: HybridOptions, input_size: dict[str, int], dropout: float, num_labels: int) -> None:
        super().__init__()
        self.output_size = options.hidden
        parts = {
            name: encoders[name](part_options, input_size[name], dropout, num_labels)
            for name, part_options in options.part_options.items()
        }
        self.parts = nn.ModuleDict(parts)
        self.project = nn.ModuleDict(
            {name: nn.Linear(part.output_size, options.hidden) for name, part in parts.items()}
        )

    def forward(self, inputs: HybridInput) -> EncoderOutput:
        outputs = {name: part(inputs.parts[name]) for name, part in self.parts.items()}
        states = [torch.tanh(self.project[name](o.states)) * o.mask[..., None] for name, o in outputs.items()]
        summary = torch.stack([torch.tanh(self.project[name](o.summary)) for name, o in outputs.items()]).sum(dim=0)
        scores = next((o.scores for o in outputs.values() if o.scores is not None), None)
        return EncoderOutput(
            torch.cat(states, dim=1),  # (B, T of all parts, H)
            torch.cat([output.mask for output in outputs.values()], dim=1),
            summary[None],  # (1, B, H)
            scores,
        )
