"""An exported network: the parts of `OrderFreeModel` as ONNX graphs, run by ONNX Runtime.

encoder.onnx   output of the featurizer -> states, mask, final_hidden, and scores if the encoder has scores
start.onnx     these -> hidden, cell, and further state of the decoder
step.onnx      previous label, hidden, cell, states, mask, … -> logits, hidden, cell, …
br.onnx        states, mask, final_hidden, scores -> binary-relevance logits

Each part has the interface of the module it was exported from, so rollouts and searches can use either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import MissingLibraryError, ModelDirectoryError
from ..system.listed import ListedFiles
from ..types import DecoderState, EncoderInput, EncoderOutput, HybridInput
from .model import OrderFreeModel

ENCODER, START, STEP, BR = "encoder.onnx", "start.onnx", "step.onnx", "br.onnx"
GRAPHS = (ENCODER, START, STEP, BR)
ENCODED = ("states", "mask", "final_hidden", "scores")
# types of outputs; further state of a decoder may have any type
NUMBERS = ("states", "final_hidden", "scores", "hidden", "cell", "logits")
TYPES = {"mask": torch.bool, **dict.fromkeys(NUMBERS, torch.float32)}


def named_inputs(inputs: EncoderInput) -> dict[str, Tensor]:
    """The tensors of an encoder's input, by name; with several encoders in parallel, `part.name`."""
    if isinstance(inputs, HybridInput):
        return {f"{part}.{n}": t for part, fed in inputs.parts.items() for n, t in named_inputs(fed).items()}
    tensors = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def named_outputs(encoded: EncoderOutput) -> dict[str, Tensor]:
    return {name: getattr(encoded, name) for name in ENCODED if getattr(encoded, name) is not None}


class Graph:
    """One ONNX file. Inputs and outputs are tensors by name and are not copied. A file that is not part of the model is
    refused in one sentence, when it is opened or when it is first run."""

    def __init__(self, path: Path) -> None:
        try:
            import onnx  # noqa: F401
            import onnxruntime
        except ImportError:
            raise MissingLibraryError(
                f"{path.parent}: was exported for ONNX Runtime, which is not installed; pip install 'orderfree[onnx]'."
            ) from None
        _check_numbers(path)
        self.path = path
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # see docs/explain/performance.md
        options.log_severity_level = 3  # errors only
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the library raises nothing narrower
            raise self.misfit(f"cannot be read ({_first_line(error)})") from None
        self.inputs = [node.name for node in self.session.get_inputs()]
        self.outputs = [made.name for made in self.session.get_outputs()]

    def width(self, output: str) -> Any:
        """The last size of an output: a number if the graph fixes it."""
        return {made.name: made.shape[-1] for made in self.session.get_outputs()}.get(output)

    def misfit(self, reason: str) -> ModelDirectoryError:
        return ModelDirectoryError(f"{self.path}: {reason}; export the model again.")

    def __call__(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if strange := next((name for name in self.inputs if name not in tensors), None):
            raise self.misfit(f"asks for {strange!r}, expected no more than {', '.join(tensors)}")
        fed = {name: tensors[name].contiguous().numpy() for name in self.inputs}
        try:
            made = self.session.run(None, fed)
        except Exception as error:  # the library raises nothing narrower
            raise self.misfit(f"cannot be run ({_first_line(error)})") from None
        outputs = {name: torch.from_numpy(values) for name, values in zip(self.outputs, made, strict=True)}
        for name, values in outputs.items():
            if values.dtype != TYPES.get(name.removesuffix("_next"), values.dtype):
                raise self.misfit(f"makes {name!r} of type {values.dtype}")
        return outputs

    def expect(self, made: dict[str, Tensor], shapes: dict[str, tuple[int | None, ...]]) -> None:
        """Refuses outputs that are missing or of another shape; None: any size."""
        for name, shape in shapes.items():
            sizes = tuple(made[name].shape) if name in made else ()
            if len(sizes) != len(shape) or any(n not in (None, size) for n, size in zip(shape, sizes, strict=True)):
                expected = " x ".join("any" if n is None else f"{n:,}" for n in shape)
                raise self.misfit(f"makes {name!r} of {' x '.join(map(str, sizes)) or 'no'} numbers, not {expected}")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def _check_numbers(path: Path) -> None:
    """Refuses a graph whose weights are in other files, which are not in the manifest, or are not finite. A single
    infinite number is allowed: it masks labels."""
    import numpy as np
    import onnx
    from onnx.external_data_helper import uses_external_data

    def tensors(graph: Any) -> Iterator[Any]:
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for attribute in (attribute for node in graph.node for attribute in node.attribute):
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from tensors(inner) if inner.node or inner.initializer else ()

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # the library raises nothing narrower
        raise ModelDirectoryError(f"{path}: is no ONNX graph ({_first_line(error)}); export the model again.") from None
    for tensor in (tensor for graph in (model.graph, *model.functions) for tensor in tensors(graph)):
        if uses_external_data(tensor):
            raise ModelDirectoryError(
                f"{path}: keeps its numbers in another file, which manifest.json does not list; export the model again."
            )
        if tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16):
            numbers = onnx.numpy_helper.to_array(tensor)
            if np.isnan(numbers).any() or (numbers.size > 1 and not np.isfinite(numbers).all()):
                raise ModelDirectoryError(f"{path}: holds weights that are not finite; export the model again.")


class GraphEncoder(nn.Module):
    def __init__(self, path: Path, num_labels: int) -> None:
        super().__init__()
        self.graph, self.num_labels = Graph(path), num_labels

    def forward(self, inputs: EncoderInput) -> EncoderOutput:
        fed = named_inputs(inputs)
        rows = next(len(values) for name, values in fed.items() if name.endswith(("lengths", "offsets")))
        made = self.graph(fed)
        if strange := next((name for name in made if name not in ENCODED), None):
            raise self.graph.misfit(f"makes {strange!r}, expected {', '.join(ENCODED)}")
        self.graph.expect(made, {"states": (rows, None, None), "final_hidden": (None, rows, None)})
        self.graph.expect(made, {"mask": tuple(made["states"].shape[:2])})
        self.graph.expect(made, {"scores": (rows, self.num_labels)} if "scores" in made else {})
        return EncoderOutput(**made)


class GraphBR(nn.Module):
    def __init__(self, path: Path, num_labels: int) -> None:
        super().__init__()
        self.graph, self.num_labels = Graph(path), num_labels

    def forward(self, encoded: EncoderOutput) -> Tensor:
        made = self.graph(named_outputs(encoded))
        self.graph.expect(made, {"logits": (len(encoded.mask), self.num_labels)})
        return made["logits"]  # (B, L)


class GraphLabelDecoder(nn.Module):
    def __init__(self, start: Path, step: Path, num_labels: int) -> None:
        super().__init__()
        self.starting, self.stepping, self.num_labels = Graph(start), Graph(step), num_labels

    def start(self, encoded: EncoderOutput) -> DecoderState:
        made = self.starting(named_outputs(encoded))
        rows = len(encoded.mask)
        self.starting.expect(made, {"hidden": (None, rows, None), "cell": (None, rows, None)})
        beside = {name: values for name, values in made.items() if name not in ("hidden", "cell")}
        self.starting.expect(beside, {name: (rows, *values.shape[1:]) for name, values in beside.items()})
        state = DecoderState(made.pop("hidden"), made.pop("cell"), encoded.states, encoded.mask)
        return replace(state, extra=tuple(made.values()))

    def step(self, previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """previous (R,) -> logits (R, L + 1) and the next state. The graph takes the R rows as (B, W), because
        it cannot express that one size is a multiple of another."""
        rows, inputs = len(previous), len(state.mask)
        apart = (inputs, rows // inputs)  # (B, W)
        hidden, cell = (values.unflatten(1, apart) for values in (state.hidden, state.cell))  # (layers, B, W, D)
        extra = {f"extra_{i}": values.unflatten(0, apart) for i, values in enumerate(state.extra)}  # (B, W, …)
        before: dict[str, Any] = {"hidden": hidden, "cell": cell, "memory": state.memory, "mask": state.mask, **extra}
        made = self.stepping({"previous": previous.view(apart), **before})
        after = {f"{name}_next": tuple(values.shape) for name, values in before.items()}
        del after["memory_next"], after["mask_next"]
        self.stepping.expect(made, {"logits": (*apart, self.num_labels + 1), **after})
        logits, hidden, cell = made.pop("logits"), made.pop("hidden_next"), made.pop("cell_next")
        state = replace(
            state,
            hidden=hidden.flatten(1, 2),
            cell=cell.flatten(1, 2),
            extra=tuple(values.flatten(0, 1) for values in made.values()),
        )
        return logits.flatten(0, 1), state

    def unroll(self, inputs: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """inputs (R, K) -> logits (R, K, L + 1): one step at a time, because the graph holds a single step."""
        logits = []
        for previous in inputs.unbind(dim=1):
            step_logits, state = self.step(previous, state)
            logits.append(step_logits)
        return torch.stack(logits, dim=1), state


class GraphModel(OrderFreeModel):
    """The network made of the graphs of a model directory."""

    def __init__(self, files: ListedFiles, num_labels: int, parameters: int) -> None:
        decoder: Any = GraphLabelDecoder(files / START, files / STEP, num_labels) if STEP in files else None
        br: Any = GraphBR(files / BR, num_labels) if BR in files else None
        for graph, labels in ((decoder and decoder.stepping, num_labels + 1), (br and br.graph, num_labels)):
            if graph is not None and graph.width("logits") != labels:
                raise ModelDirectoryError(
                    f"{files.directory}: its graphs are not for {num_labels:,} labels; export it again."
                )
        super().__init__(GraphEncoder(files / ENCODER, num_labels), decoder, br, num_labels)
        self._parameter_count = parameters

    def parameter_count(self) -> int:
        return self._parameter_count
