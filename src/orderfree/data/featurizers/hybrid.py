"""What several encoders side by side are fed, each its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...config import DataConfig
from ...errors import ConfigError
from ...system.listed import Folder
from ...types import Example, HybridInput
from . import Arrays, Encoded, Featurizer, encode_all, kinds


class HybridFeaturizer:
    """One featurizer for each part. Their arrays have different names, so that they lie side by side in a corpus."""

    files: tuple[str, ...] = ()  # those of its parts

    def __init__(self, parts: dict[str, Featurizer]) -> None:
        arrays = [name for part in parts.values() for name in part.columns]
        embedders = [name for name, part in parts.items() if getattr(part, "embedder", None) is not None]
        if len(set(arrays)) < len(arrays) or len(embedders) > 1:
            raise ConfigError(
                f"the encoders {' and '.join(parts)} cannot stand side by side: two of them read "
                f"{'tokens' if 'tokens' in arrays else 'vectors'} of their own; leave one out."
            )
        self.parts = parts
        self.columns = {name: kind for part in parts.values() for name, kind in part.columns.items()}
        self.files = tuple(name for part in parts.values() for name in part.files)

    @property
    def input_size(self) -> dict[str, int]:
        return {name: part.input_size for name, part in self.parts.items()}  # type: ignore[misc]

    @classmethod
    def fit(cls, examples: Iterable[Example], data: DataConfig, options: Any) -> HybridFeaturizer:
        """One pass over the examples for each part: they must be there more than once."""
        known, own = kinds(), options.part_options
        return cls({name: known[kind].fit(examples, data, own[name]) for name, kind in options.input_kinds.items()})

    def encode(self, example: Example) -> Encoded:
        return self.encode_all([example])[0]

    def encode_all(self, examples: Sequence[Example]) -> list[Encoded]:
        """As long as the longest part, truncated where one is."""
        rows = zip(*(encode_all(part, examples) for part in self.parts.values()), strict=True)
        return [
            Encoded(
                {name: values for own in row for name, values in own.arrays.items()},
                max(own.length for own in row),
                any(own.truncated for own in row),
            )
            for row in rows
        ]

    def collate(self, rows: Sequence[Arrays]) -> HybridInput:
        return HybridInput({name: part.collate(rows) for name, part in self.parts.items()})

    def save(self, directory: Path) -> None:
        for part in self.parts.values():
            part.save(directory)

    @classmethod
    def load(cls, directory: Folder, data: DataConfig, options: Any) -> HybridFeaturizer:
        known, own = kinds(), options.part_options
        return cls({name: known[kind].load(directory, data, own[name]) for name, kind in options.input_kinds.items()})
