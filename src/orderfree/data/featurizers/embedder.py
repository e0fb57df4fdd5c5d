"""One vector for a text from a frozen pretrained encoder: the mean of its token states, of length 1."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from ...errors import ConfigError
from ...system.files import fingerprint, write_json, write_text
from ...system.listed import Folder
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
        self, network: Any, tokenizer: Tokenizer, architecture: dict[str, Any], tokens: int, cache: Path | None = None
    ) -> None:
        self.network, self.tokenizer, self.architecture, self.cache = network.eval(), tokenizer, architecture, cache
        tokenizer.enable_truncation(token_limit(tokens, architecture))
        tokenizer.no_padding()
        self.size = int(architecture["hidden_size"])

    @classmethod
    def from_name(cls, name: str, tokens: int) -> Embedder:
        """The pretrained encoder of this name; see `pretrained_directory`."""
        directory = pretrained_directory(name)
        architecture = read_architecture(directory)
        network = empty_network(architecture)
        load_pretrained(network, directory)
        cache = _cache_file("-".join([*(fingerprint(directory / file) for file in NEEDED), str(tokens)]))
        return cls(network, read_tokenizer(directory / "tokenizer.json"), architecture, tokens, cache)

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
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            lengths = torch.tensor([max(len(encoded[place]), 1) for place in places])  # (B,)
            ids = torch.zeros(len(places), int(lengths.max()), dtype=torch.long)  # (B, T)
            for row, place in enumerate(places):
                ids[row, : len(encoded[place])] = torch.tensor(encoded[place], dtype=torch.long)
            mask = torch.arange(ids.shape[1]) < lengths[:, None]  # (B, T)
            states = self.network(input_ids=ids, attention_mask=mask.long()).last_hidden_state  # (B, T, D)
            means = (states * mask[..., None]).sum(dim=1) / lengths[:, None]  # (B, D)
            vectors[places] = F.normalize(means, dim=1).numpy()
        return vectors

    def save(self, directory: Path) -> None:
        write_json(directory / CONFIG, self.architecture)
        write_text(directory / TOKENIZER, self.tokenizer.to_str())
        write_tensors(directory / WEIGHTS, self.network.state_dict())

    @classmethod
    def load(cls, directory: Folder, tokens: int) -> Embedder:
        architecture = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
        try:
            network = with_weights(lambda: empty_network(architecture), directory / WEIGHTS)
        except Misfit as error:
            raise ValueError(f"{WEIGHTS}: {error}") from None
        return cls(network, read_tokenizer(directory / TOKENIZER), architecture, tokens)


def _cache_file(key: str) -> Path | None:
    """Where vectors are kept between runs; texts themselves are not. ORDERFREE_CACHE names another place, or `off`."""
    chosen = os.environ.get("ORDERFREE_CACHE", "")
    if chosen == "off":
        return None
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = Path(chosen) if chosen else home / "orderfree"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a read-only home, or none, is no reason to fail
        return None
    if not os.access(folder, os.W_OK):
        return None
    return folder / f"embeddings-{hashlib.sha256(key.encode()).hexdigest()[:16]}.sqlite"


def _stored(store: sqlite3.Connection, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for start in range(0, len(keys), 500):  # SQLite takes no more than 999 values at once where it is old
        some = keys[start : start + 500]
        marks = ",".join("?" * len(some))
        yield from store.execute(f"select key, vector from vectors where key in ({marks})", some)
