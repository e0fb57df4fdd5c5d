"""Which texts a model has learned from, in a few kilobytes: a sample of their hashes.

Kept are the smallest 4,096 hashes of 48 bits, which are a random sample of the different texts. A text whose hash is
above the largest of them was not sampled and tells nothing; of those below, the share that is kept estimates the share
that was learned from. Up to 4,096 texts the answer is exact."""

from __future__ import annotations

import base64
import hashlib
from array import array
from typing import Any

import numpy as np

from ..system.wording import counted
from ..types import Example

MOST = 4096
BYTES = 6
ABOVE_ALL = 1 << 8 * BYTES


def text_hash(text: str, labels: tuple[str, ...] = ()) -> int:
    """Of a text, whatever its blanks are, and perhaps of its labels in any order."""
    content = "\0".join([" ".join(text.split()), *sorted(labels)])
    return int.from_bytes(hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=BYTES).digest(), "big")


class TextCounter:
    """Counts the texts of a training file that stand in it more than once, in 16 bytes a text."""

    def __init__(self) -> None:
        self.texts, self.with_labels = array("Q"), array("Q")

    def add(self, example: Example) -> None:
        if example.text is not None and example.text.strip():  # that texts are empty is said for itself
            self.texts.append(text_hash(example.text))
            self.with_labels.append(text_hash(example.text, example.labels or ()))

    def found(self) -> dict[str, Any]:
        """Repetitions, how many of them have other labels than before, and the sample."""
        texts, pairs = (np.unique(np.array(hashes, dtype=np.uint64)) for hashes in (self.texts, self.with_labels))
        sample = base64.b64encode(b"".join(int(one).to_bytes(BYTES, "big") for one in texts[:MOST])).decode()
        repeated, conflicting = len(self.texts) - len(texts), len(pairs) - len(texts)
        return {"repeated": repeated, "conflicting": conflicting, "different": len(texts), "sample": sample}


class SeenTexts:
    """Looks at texts one by one and says how many of them the model has learned from: `texts` of the training file, or
    `valid_texts` of a validation file."""

    def __init__(self, provenance: dict[str, Any], key: str = "texts") -> None:
        try:
            raw = base64.b64decode(provenance[key]["sample"], validate=True)
        except (KeyError, TypeError, ValueError):  # an older model, or one of features
            raw = b""
        self.known = {int.from_bytes(raw[at : at + BYTES], "big") for at in range(0, len(raw), BYTES)}
        self.limit = max(self.known) if len(self.known) >= MOST else ABOVE_ALL
        self.sampled = self.seen = 0

    def look(self, example: Example) -> None:
        if example.text is not None and self.known and (own := text_hash(example.text)) <= self.limit:
            self.sampled += 1
            self.seen += own in self.known

    @property
    def share(self) -> float:
        """Of the texts looked at, those the model has learned from; estimated where they are many."""
        return self.seen / self.sampled if self.sampled else 0.0

    def note(self) -> str | None:
        if not self.seen:
            return None
        exact = self.limit == ABOVE_ALL
        texts = counted(self.seen, "text", "texts") if exact else f"about {self.seen / self.sampled:.0%} of the texts"
        return f"warning: {texts} also occur in the training file of the model; its scores on them are too good"
