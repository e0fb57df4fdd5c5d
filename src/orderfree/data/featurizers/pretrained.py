"""Texts for a pretrained encoder: its own tokens where it is fine-tuned, one finished vector where it is frozen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tokenizers import Tokenizer

from ...config import DataConfig, Section
from ...errors import ConfigError, DataError
from ...system.listed import Folder
from ...system.pretrained import pretrained_directory, token_limit
from ...types import DenseInput, Example
from . import Arrays, Encoded, needs_text
from .embedder import FILES, Embedder
from .frames import collate_frames
from .stored_tokenizer import read_tokenizer, tokenizing
from .words import WordFeaturizer


class WordpieceFeaturizer(WordFeaturizer):
    """The tokens of the encoder's own tokenizer, special ones included; nothing is learned."""

    def __init__(self, tokenizer: Tokenizer, options: Any) -> None:
        self.tokenizer = tokenizer
        self.embeddings = int(options.architecture["vocab_size"])  # of the encoder; no token may have a higher id
        tokenizer.enable_truncation(token_limit(options.tokens, options.architecture))
        self.padding = int((tokenizer.padding or {}).get("pad_id", 0))
        tokenizer.no_padding()
        if self.padding >= self.embeddings:
            raise ConfigError(f"the tokenizer pads with token {self.padding:,}, which its encoder has no vector for.")

    @classmethod
    def fit(cls, examples: Iterable[Example], data: DataConfig, options: Any) -> WordpieceFeaturizer:
        return cls(read_tokenizer(pretrained_directory(options.pretrained) / "tokenizer.json"), options)

    def encode(self, example: Example) -> Encoded:
        text = needs_text(example, "transformer")
        with tokenizing():
            encoded = self.tokenizer.encode(text)
        tokens = np.asarray(encoded.ids or [self.padding], dtype=np.int32)
        if not 0 <= tokens.max() < self.embeddings:
            raise DataError(
                f"example {example.id!r} holds a token the encoder has no embedding of; its tokenizer is not its own."
            )
        return Encoded({"tokens": tokens}, len(tokens), bool(encoded.overflowing))

    def spans(self, text: str) -> list[tuple[int, int] | None]:
        """None: a special token, which stands nowhere."""
        offsets = self.tokenizer.encode(text).offsets
        return [(start, end) if end > start else None for start, end in offsets] or [None]

    @classmethod
    def load(cls, directory: Folder, data: DataConfig, options: Any) -> WordpieceFeaturizer:
        return cls(read_tokenizer(directory / "tokenizer.json"), options)


class EmbeddingFeaturizer:
    """One vector a text, made once when a corpus is encoded."""

    columns: ClassVar[dict[str, type]] = {"frames": np.float32}
    files: ClassVar[tuple[str, ...]] = FILES

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    @property
    def input_size(self) -> int:
        return self.embedder.size

    @classmethod
    def fit(cls, examples: Iterable[Example], data: DataConfig, options: Any) -> EmbeddingFeaturizer:
        return cls(Embedder.from_name(options.pretrained, options.tokens))

    def encode(self, example: Example) -> Encoded:
        return self.encode_all([example])[0]

    def encode_all(self, examples: Sequence[Example]) -> list[Encoded]:
        vectors = self.embedder.embed([needs_text(example, "transformer") for example in examples])
        return [Encoded({"frames": vector}, 1) for vector in vectors]

    def collate(self, rows: Sequence[Arrays]) -> DenseInput:
        return collate_frames(rows, self.input_size)

    def save(self, directory: Path) -> None:
        self.embedder.save(directory)

    @classmethod
    def load(cls, directory: Folder, data: DataConfig, options: Section) -> EmbeddingFeaturizer:
        return cls(Embedder.load(directory, options.tokens))  # type: ignore[attr-defined]
