"""Export of a trained model as ONNX graphs: a model directory with graphs instead of weights."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..checkpoint import WEIGHTS, TrainedModel, save_model, versions, write_manifest
from ..data.featurizers import bag_part, encode_all
from ..errors import MissingLibraryError, OrderfreeError
from ..nn.graphs import BR, ENCODER, START, STEP, GraphModel, named_inputs, named_outputs
from ..nn.seq2set_decoder import Seq2SetDecoder
from ..system.files import writing_directory
from ..types import DecoderState, EncoderInput, EncoderOutput, Example, HybridInput

OPSET = 20


def export_onnx(trained: TrainedModel, out: Path, card: str, int8: bool = False) -> list[str]:
    """Writes a model directory that runs on ONNX Runtime; returns the names of its graphs.

    With int8, weights of matrix products are stored in 8 bits and activations are quantised dynamically. Promises are
    left out then: they were made with other probabilities."""
    if out.exists():
        raise OrderfreeError(f"{out}: is there already; choose a new directory.")
    _needs("onnx", "onnxscript", "onnxruntime")
    if isinstance(trained.network, GraphModel):
        raise OrderfreeError("this model is an exported one already; export the model it was made from.")
    if isinstance(trained.network.label_decoder, Seq2SetDecoder):
        raise OrderfreeError(
            "model.label_decoder=seq2set searches while it starts, which no graph can do; it runs on torch only."
        )
    if getattr(bag_part(trained.featurizer), "scorer", None) is not None:
        raise OrderfreeError(
            f"this model scores {len(trained.labels):,} labels on shortlists, which its featurizer makes; no graph can "
            "hold that, so it runs on torch only."
        )
    trained.network.eval()
    exported = {"engine": "onnx", "int8": int8, "parameters": trained.network.parameter_count(), "versions": versions()}
    decisions = trained.decisions.without_promises() if int8 else trained.decisions
    trained = replace(trained, provenance={**trained.provenance, "exported": exported}, decisions=decisions)
    with writing_directory(out) as aside:
        names = save_model(trained, aside, card)
        (aside / WEIGHTS).unlink()
        graphs = _write_graphs(trained, aside)
        if int8:
            for name in graphs:
                _quantise(aside / name)
        write_manifest(aside, [name for name in names if name != WEIGHTS] + graphs, trained.decisions)
    return graphs


def _write_graphs(trained: TrainedModel, directory: Path) -> list[str]:
    network = trained.network
    inputs = _sample(trained)
    with torch.no_grad():
        encoded: EncoderOutput = network.encoder(inputs)
    encoder_inputs, states = named_inputs(inputs), named_outputs(encoded)
    _write(directory / ENCODER, _Encode(network.encoder, inputs), encoder_inputs, list(states))
    names = [ENCODER]
    if network.label_decoder is not None:
        with torch.no_grad():
            state = network.label_decoder.start(encoded)
        extra = [f"extra_{i}" for i in range(len(state.extra))]
        _write(directory / START, _Start(network.label_decoder, list(states)), states, ["hidden", "cell", *extra])
        width = 3  # a size of 1 would be treated as a constant
        previous = torch.full((len(state.mask), width), network.num_labels)  # (B, W)
        hidden, cell = (torch.stack([values] * width, dim=2) for values in (state.hidden, state.cell))
        beside = {name: torch.stack([values] * width, dim=1) for name, values in zip(extra, state.extra, strict=True)}
        fed = {"previous": previous, "hidden": hidden, "cell": cell, "memory": state.memory, "mask": state.mask}
        fed |= beside
        after = ["logits", "hidden_next", "cell_next", *(f"{name}_next" for name in extra)]
        _write(directory / STEP, _Step(network.label_decoder), fed, after)
        names += [START, STEP]
    if network.br_decoder is not None:
        _write(directory / BR, _BinaryRelevance(network.br_decoder, list(states)), states, ["logits"])
        names.append(BR)
    return names


def _sample(trained: TrainedModel) -> EncoderInput:
    """Two inputs of different length, with which the network is traced."""
    texts = ("one two three four five", "a somewhat longer second text, which has some more words than the first")
    try:
        rows = encode_all(trained.featurizer, [Example(str(i), text=text) for i, text in enumerate(texts)])
    except OrderfreeError:
        raise OrderfreeError("this model reads feature vectors; only models of texts can be exported.") from None
    return trained.featurizer.collate([row.arrays for row in rows])


def _rebuilt(like: EncoderInput, tensors: dict[str, Tensor]) -> EncoderInput:
    if isinstance(like, HybridInput):
        parts = {
            part: _rebuilt(fed, {n.removeprefix(f"{part}."): t for n, t in tensors.items() if n.startswith(f"{part}.")})
            for part, fed in like.parts.items()
        }
        return HybridInput(parts)
    changed: dict[str, Any] = dict(tensors)
    return replace(like, **changed)


class _Encode(nn.Module):
    def __init__(self, encoder: nn.Module, like: EncoderInput) -> None:
        super().__init__()
        self.encoder, self.like, self.names = encoder, like, list(named_inputs(like))

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        encoded = self.encoder(_rebuilt(self.like, dict(zip(self.names, tensors, strict=True))))
        return tuple(named_outputs(encoded).values())


class _Start(nn.Module):
    def __init__(self, decoder: Any, names: Sequence[str]) -> None:
        super().__init__()
        self.decoder, self.names = decoder, names

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        state = self.decoder.start(EncoderOutput(**dict(zip(self.names, tensors, strict=True))))
        return (state.hidden, state.cell, *state.extra)


class _Step(nn.Module):
    def __init__(self, decoder: Any) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        previous, hidden, cell, memory, mask, *extra = tensors
        apart = previous.shape  # (B, W)
        rows = tuple(values.flatten(0, 1) for values in extra)
        state = DecoderState(hidden.flatten(1, 2), cell.flatten(1, 2), memory, mask, rows)
        logits, state = self.decoder.step(previous.flatten(), state)
        beside = (values.unflatten(0, apart) for values in state.extra)
        return logits.unflatten(0, apart), state.hidden.unflatten(1, apart), state.cell.unflatten(1, apart), *beside


class _BinaryRelevance(_Start):
    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return (self.decoder(EncoderOutput(**dict(zip(self.names, tensors, strict=True)))),)


def _write(path: Path, module: nn.Module, tensors: dict[str, Tensor], outputs: list[str]) -> None:
    """Batch size, length and width are dynamic; sizes of the network are fixed."""
    open_sizes = tuple(dict.fromkeys(_open_axes(name, t), torch.export.Dim.DYNAMIC) for name, t in tensors.items())
    try:
        with _quietly():
            program = torch.onnx.export(
                module.eval(),
                tuple(tensors.values()),
                dynamo=True,
                input_names=list(tensors),
                output_names=outputs,
                dynamic_shapes=(open_sizes,),  # one list: every forward here takes *tensors
                opset_version=OPSET,
                verbose=False,
            )
            assert program is not None, "the dynamo exporter returns its program"
            program.save(path, external_data=False)
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise OrderfreeError(
            f"{path.stem}: torch cannot export this part ({reason}); it runs on torch only."
        ) from error


def _open_axes(name: str, tensor: Tensor) -> tuple[int, ...]:
    """The axes of a graph's input whose sizes change from batch to batch."""
    known = {
        "states": (0, 1), "memory": (0, 1), "mask": (0, 1), "final_hidden": (1,), "scores": (0,), "previous": (0, 1),
        "hidden": (1, 2), "cell": (1, 2), "ids": (0, 1), "frames": (0, 1),
    }  # fmt: skip
    plain = name.rpartition(".")[2]
    if plain.startswith("extra_"):
        return (0, 1)
    return known.get(plain, (0,))


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Suppresses the exporter's messages about its internals."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def _quantise(path: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(path)
    del model.graph.value_info[:]  # inferred sizes of intermediate values, some valid for the sample only
    onnx.save(model, path)
    with _quietly():
        quantize_dynamic(path, path, weight_type=QuantType.QInt8)


def _needs(*libraries: str) -> None:
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise MissingLibraryError(
                f"exporting needs {library}, which is not installed; pip install 'orderfree[onnx]'."
            )
