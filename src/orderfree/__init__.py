"""orderfree: predicts sets of labels.

    import orderfree

    for prediction in orderfree.load("runs/news").predict(["wheat exports rose"]):
        print(prediction.labels, prediction.probability)

Names are imported when they are first used: importing the package is instant and does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .build import load_config
    from .config import Config
    from .data.readers import read_examples
    from .errors import OrderfreeError
    from .estimator import OrderFreeClassifier
    from .evaluation import evaluate
    from .inference import Prediction, Predictor, load
    from .training.run import train
    from .types import Example

__all__ = [
    "Config",
    "Example",
    "OrderFreeClassifier",
    "OrderfreeError",
    "Prediction",
    "Predictor",
    "__version__",
    "evaluate",
    "load",
    "load_config",
    "read_examples",
    "train",
]

_HOMES = {
    "Config": ".config",
    "Example": ".types",
    "OrderFreeClassifier": ".estimator",
    "OrderfreeError": ".errors",
    "Prediction": ".inference",
    "Predictor": ".inference",
    "evaluate": ".evaluation",
    "load": ".inference",
    "load_config": ".build",
    "read_examples": ".data.readers",
    "train": ".training.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'orderfree' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
