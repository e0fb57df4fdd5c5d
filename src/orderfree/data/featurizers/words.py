"""Texts as word ids, through the `tokenizers` library: one tokenizer.json holds everything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from tokenizers import Tokenizer, trainers

from ...config import DataConfig, Section
from ...system.files import write_text
from ...system.listed import Folder
from ...types import Example, TokenInput
from . import Arrays, Encoded, needs_text
from .stored_tokenizer import PADDING, UNKNOWN, read_word_tokenizer, tokenizing, word_tokenizer


class WordFeaturizer:
    """Words and punctuation marks, one id each; rare ones beyond the vocabulary share `[UNK]`."""

    columns: ClassVar[dict[str, type]] = {"tokens": np.int32}
    files: ClassVar[tuple[str, ...]] = ("tokenizer.json",)

    def __init__(self, tokenizer: Tokenizer, max_words: int) -> None:
        self.tokenizer, self.max_words = tokenizer, max_words
        vocabulary = tokenizer.get_vocab()
        self.unknown, self.padding = vocabulary[UNKNOWN], vocabulary[PADDING]

    @property
    def input_size(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    @classmethod
    def fit(cls, examples: Iterable[Example], data: DataConfig, options: Section) -> WordFeaturizer:
        tokenizer = word_tokenizer({}, data.lowercase)
        trainer = trainers.WordLevelTrainer(
            vocab_size=data.vocabulary_size,
            min_frequency=data.min_count,
            special_tokens=[PADDING, UNKNOWN],
            show_progress=False,
        )
        tokenizer.train_from_iterator((needs_text(example, "bilstm") for example in examples), trainer)
        return cls(tokenizer, data.max_words)

    def encode(self, example: Example) -> Encoded:
        text = needs_text(example, "bilstm")
        # a text of a million words costs no more than max_words need: a word is at least one token
        pieces = text.split(None, self.max_words)
        with tokenizing():
            ids = self.tokenizer.encode(" ".join(pieces[: self.max_words]), add_special_tokens=False).ids
        truncated = len(pieces) > self.max_words or len(ids) > self.max_words
        tokens = np.asarray(ids[: self.max_words] or [self.unknown], dtype=np.int32)  # an empty text is one unknown
        return Encoded({"tokens": tokens}, len(tokens), truncated)

    def spans(self, text: str) -> list[tuple[int, int] | None]:
        """Where every token of `encode` stands in the text: the first character and the one behind the last."""
        words = list(islice(re.finditer(r"\S+", text), self.max_words))
        joined = " ".join(word.group() for word in words)
        # the place in `text` of every character of `joined`, the spaces between words included
        origin = [place for word in words for place in range(word.start(), word.end() + 1)]
        offsets = self.tokenizer.encode(joined, add_special_tokens=False).offsets[: self.max_words]
        return [(origin[start], origin[end - 1] + 1) for start, end in offsets] or [None]

    def known_words(self, text: str) -> tuple[int, int]:
        tokens = self.encode(Example("", text=text)).arrays["tokens"]
        return int((tokens != self.unknown).sum()), len(tokens) if text.strip() else 0

    def collate(self, rows: Sequence[Arrays]) -> TokenInput:
        lengths = torch.tensor([len(row["tokens"]) for row in rows])  # (B,)
        ids = np.full((len(rows), int(lengths.max())), self.padding, dtype=np.int64)  # (B, T)
        for place, row in enumerate(rows):
            ids[place, : len(row["tokens"])] = row["tokens"]
        return TokenInput(torch.from_numpy(ids), lengths)

    def save(self, directory: Path) -> None:
        write_text(directory / "tokenizer.json", self.tokenizer.to_str(pretty=False))

    @classmethod
    def load(cls, directory: Folder, data: DataConfig, options: Section) -> WordFeaturizer:
        return cls(read_word_tokenizer(directory / "tokenizer.json"), data.max_words)
