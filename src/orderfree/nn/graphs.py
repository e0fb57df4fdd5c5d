"""An exported network: the parts of `OrderFreeModel` as ONNX graphs, run by ONNX Runtime.

encoder.onnx   what the featurizer makes -> states, mask, final_hidden, and scores where the encoder has some
start.onnx     these -> hidden, cell, and what a decoder remembers besides
step.onnx      previous label, hidden, cell, states, mask, … -> logits, hidden, cell, …
br.onnx        states, mask, final_hidden, scores -> binary-relevance logits

Each part has the face of the module it was exported from, so rollouts and searches cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import MissingLibraryError, ModelDirectoryError
from ..types import DecoderState, EncoderInput, EncoderOutput, HybridInput
from .model import OrderFreeModel

ENCODER, START, STEP, BR = "encoder.onnx", "start.onnx", "step.onnx", "br.onnx"
GRAPHS = (ENCODER, START, STEP, BR)
ENCODED = ("states", "mask", "final_hidden", "scores")


def named_inputs(inputs: EncoderInput) -> dict[str, Tensor]:
    """The tensors of what an encoder is fed, by name; of several encoders side by side, `part.name`."""
    if isinstance(inputs, HybridInput):
        return {f"{part}.{n}": t for part, own in inputs.parts.items() for n, t in named_inputs(own).items()}
    given = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
    return {name: tensor for name, tensor in given.items() if tensor is not None}


def named_outputs(encoded: EncoderOutput) -> dict[str, Tensor]:
    return {name: getattr(encoded, name) for name in ENCODED if getattr(encoded, name) is not None}


class Graph:
    """One ONNX file. Tensors go in and out by name, without being copied."""

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingLibraryError(
                f"{path.parent}: was exported for ONNX Runtime, which is not installed; pip install 'orderfree[onnx]'."
            ) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # see docs/explain/performance.md
        options.log_severity_level = 3  # errors only
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the library raises nothing narrower
            first = str(error).splitlines()[0]
            raise ModelDirectoryError(f"{path}: cannot be read ({first}); export the model again.") from None
        self.inputs = [given.name for given in self.session.get_inputs()]
        self.outputs = [made.name for made in self.session.get_outputs()]

    def width(self, output: str) -> Any:
        """The last size of an output: a number where the graph fixes it."""
        return {made.name: made.shape[-1] for made in self.session.get_outputs()}.get(output)

    def __call__(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        fed = {name: tensors[name].contiguous().numpy() for name in self.inputs}
        return {
            name: torch.from_numpy(made) for name, made in zip(self.outputs, self.session.run(None, fed), strict=True)
        }


class GraphEncoder(nn.Module):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.graph = Graph(path)

    def forward(self, inputs: EncoderInput) -> EncoderOutput:
        return EncoderOutput(**self.graph(named_inputs(inputs)))


class GraphBR(nn.Module):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.graph = Graph(path)

    def forward(self, encoded: EncoderOutput) -> Tensor:
        return self.graph(named_outputs(encoded))["logits"]  # (B, L)


class GraphLabelDecoder(nn.Module):
    def __init__(self, start: Path, step: Path) -> None:
        super().__init__()
        self.starting, self.stepping = Graph(start), Graph(step)

    def start(self, encoded: EncoderOutput) -> DecoderState:
        made = self.starting(named_outputs(encoded))
        state = DecoderState(made.pop("hidden"), made.pop("cell"), encoded.states, encoded.mask)
        return replace(state, extra=tuple(made.values()))

    def step(self, previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """previous (R,) -> logits (R, L + 1) and the next state. Inside, R rows are (B, W): a graph cannot be told
        that one size is a multiple of another."""
        rows, inputs = len(previous), len(state.mask)
        apart = (inputs, rows // inputs)  # (B, W)
        hidden, cell = (values.unflatten(1, apart) for values in (state.hidden, state.cell))  # (layers, B, W, D)
        extra = {f"extra_{i}": values.unflatten(0, apart) for i, values in enumerate(state.extra)}  # (B, W, …)
        given: dict[str, Any] = {"hidden": hidden, "cell": cell, "memory": state.memory, "mask": state.mask, **extra}
        made = self.stepping({"previous": previous.view(apart), **given})
        logits, hidden, cell = made.pop("logits"), made.pop("hidden_next"), made.pop("cell_next")
        state = replace(
            state,
            hidden=hidden.flatten(1, 2),
            cell=cell.flatten(1, 2),
            extra=tuple(values.flatten(0, 1) for values in made.values()),
        )
        return logits.flatten(0, 1), state

    def unroll(self, inputs: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """inputs (R, K) -> logits (R, K, L + 1): one step after the other, which is all the graph can do."""
        logits = []
        for previous in inputs.unbind(dim=1):
            found, state = self.step(previous, state)
            logits.append(found)
        return torch.stack(logits, dim=1), state


class GraphModel(OrderFreeModel):
    """The whole network from the graphs of a directory; `listed` are the files its manifest vouches for."""

    def __init__(self, directory: Path, listed: Collection[str], num_labels: int, parameters: int) -> None:
        decoder: Any = GraphLabelDecoder(directory / START, directory / STEP) if STEP in listed else None
        br: Any = GraphBR(directory / BR) if BR in listed else None
        for graph, labels in ((decoder and decoder.stepping, num_labels + 1), (br and br.graph, num_labels)):
            if graph is not None and graph.width("logits") != labels:
                raise ModelDirectoryError(
                    f"{directory}: its graphs are not for {num_labels:,} labels; export it again."
                )
        super().__init__(GraphEncoder(directory / ENCODER), decoder, br, num_labels)
        self._parameter_count = parameters

    def parameter_count(self) -> int:
        return self._parameter_count
