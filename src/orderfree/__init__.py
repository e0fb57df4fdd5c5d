"""orderfree: predicts sets of labels."""

from ._version import __version__

__all__ = ["__version__"]
