"""One vector for a text from a frozen pretrained encoder: the mean of its token states, of length 1."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from ...errors import ConfigError
from ...system.cache import cache_folder
from ...system.files import fingerprint, write_json, write_text
from ...system.listed import Folder
from ...system.precision import BFLOAT16, FLOAT32, embedding_precision, multiplying_in_bfloat16
from ...system.pretrained import (
    NEEDED,
    empty_network,
    load_pretrained,
    pretrained_directory,
    read_architecture,
    token_limit,
)
from ...system.tensors import Misfit, with_weights, write_tensors
from .stored_tokenizer import read_tokenizer, tokenizing

CONFIG, TOKENIZER, WEIGHTS = "embedder.json", "embedder_tokenizer.json", "embedder.safetensors"  # in a model directory
FILES = (CONFIG, TOKENIZER, WEIGHTS)
BATCH = 32


class Embedder:
    """`embed` makes vectors; with a `cache` it makes the vector of a text once on this machine."""

    def __init__(
        self,
        network: Any,
        tokenizer: Tokenizer,
        architecture: dict[str, Any],
        tokens: int,
        cache: Path | None = None,
        precision: str = FLOAT32,
    ) -> None:
        self.precision = precision
        self.network, self.tokenizer, self.architecture, self.cache = network.eval(), tokenizer, architecture, cache
        tokenizer.enable_truncation(token_limit(tokens, architecture))
        tokenizer.no_padding()
        self.size = int(architecture["hidden_size"])

    @classmethod
    def from_name(cls, name: str, tokens: int, precision: str = FLOAT32) -> Embedder:
        """The pretrained encoder of this name; see `pretrained_directory`. `precision` may be left to the machine."""
        precision = embedding_precision(precision)
        directory = pretrained_directory(name)
        architecture = read_architecture(directory)
        network = empty_network(architecture)
        load_pretrained(network, directory)
        key = [*(fingerprint(directory / file) for file in NEEDED), str(tokens)]
        cache = _cache_file("-".join(key if precision == FLOAT32 else [*key, precision]))
        return cls(network, read_tokenizer(directory / "tokenizer.json"), architecture, tokens, cache, precision)

    @cached_property
    def _computing(self) -> Any:
        """The network in the precision it computes in: shortened once, not anew for each text."""
        return self.network if self.precision == FLOAT32 else deepcopy(self.network).bfloat16()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """(N, D) float32."""
        if self.cache is not None:
            try:
                return self._embed_once(texts, self.cache)
            except sqlite3.Error:  # a damaged or locked cache, a full disk: it only ever saves time
                self.cache = None
        return self._embed(texts)

    def _embed_once(self, texts: Sequence[str], cache: Path) -> np.ndarray:
        keys = [hashlib.sha256(text.encode(errors="surrogatepass")).digest() for text in texts]
        with closing(sqlite3.connect(cache, timeout=60)) as store:
            store.execute("create table if not exists vectors (key blob primary key, vector blob)")
            known = {key: vector for key, vector in _stored(store, keys) if len(vector) == 4 * self.size}  # float32
            new = [place for place, key in enumerate(keys) if key not in known]
            if new:  # no transaction is open meanwhile: other runs on this machine can write theirs
                vectors = self._embed([texts[place] for place in new])
                found = {keys[place]: vector.tobytes() for place, vector in zip(new, vectors, strict=True)}
                with store:
                    store.executemany("insert or replace into vectors values (?, ?)", found.items())
                known |= found
        return np.stack([np.frombuffer(known[key], dtype=np.float32) for key in keys])

    @torch.inference_mode()
    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        with tokenizing():
            encoded = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        highest = max((max(ids, default=0) for ids in encoded), default=0)
        if highest >= self.network.get_input_embeddings().num_embeddings:
            raise ConfigError(
                "a text holds a token that the encoder of sentence embeddings has no vector for: its tokenizer belongs "
                "to another encoder; copy or train the model again."
            )
        vectors = np.zeros((len(texts), self.size), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(encoded[place]))  # little padding
        shorter = self.precision == BFLOAT16
        size = 1 if shorter else BATCH  # rounded to three digits, a vector would depend on the batch of its text
        with multiplying_in_bfloat16("cpu") if shorter else nullcontext():
            for start in range(0, len(order), size):
                places = order[start : start + size]
                vectors[places] = self._mean_states([encoded[place] for place in places])
        return vectors

    def _mean_states(self, batch: Sequence[list[int]]) -> np.ndarray:
        """The mean token state, of length 1, of each text of a batch: (B, D) from its tokens."""
        lengths = torch.tensor([max(len(tokens), 1) for tokens in batch])  # (B,)
        ids = torch.zeros(len(batch), int(lengths.max()), dtype=torch.long)  # (B, T)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.long)
        mask = torch.arange(ids.shape[1]) < lengths[:, None]  # (B, T)
        states = self._computing(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()  # (B, T, D)
        means = (states * mask[..., None]).sum(dim=1) / lengths[:, None]  # (B, D)
        return F.normalize(means, dim=1).numpy()

    def save(self, directory: Path) -> None:
        write_json(directory / CONFIG, self.architecture)
        write_text(directory / TOKENIZER, self.tokenizer.to_str())
        write_tensors(directory / WEIGHTS, self.network.state_dict())

    @classmethod
    def load(cls, directory: Folder, tokens: int, precision: str = FLOAT32) -> Embedder:
        architecture = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
        try:
            network = with_weights(lambda: empty_network(architecture), directory / WEIGHTS)
        except Misfit as error:
            raise ValueError(f"{WEIGHTS}: {error}") from None
        tokenizer = read_tokenizer(directory / TOKENIZER)
        return cls(network, tokenizer, architecture, tokens, precision=embedding_precision(precision))


def _cache_file(key: str) -> Path | None:
    """Where vectors are kept between runs; texts themselves are not."""
    folder = cache_folder()
    return None if folder is None else folder / f"embeddings-{hashlib.sha256(key.encode()).hexdigest()[:16]}.sqlite"


def _stored(store: sqlite3.Connection, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for start in range(0, len(keys), 500):  # SQLite takes no more than 999 values at once where it is old
        some = keys[start : start + 500]
        marks = ",".join("?" * len(some))
        yield from store.execute(f"select key, vector from vectors where key in ({marks})", some)
