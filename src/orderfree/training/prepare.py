"""From the files a user has to encoded corpora the loop can draw batches from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..build import encoder_options, featurizer_class
from ..config import Config
from ..data.corpus import Corpus, encode_corpora
from ..data.featurizers import Featurizer, feature_count
from ..data.labels import LabelVocabulary
from ..data.readers import FOLDER_FORMATS, ReadCounts, detect_format, read_examples
from ..data.readers.arrays import LABELS_SUFFIX
from ..data.readers.source import sibling
from ..data.splits import part_of_each
from ..errors import DataError
from ..files import fingerprint
from ..types import Example

TRAIN, VALID = 0, 1


@dataclass(frozen=True)
class _Passes:
    """Examples that can be gone through more than once, read anew each time."""

    read: Callable[[], Iterator[Example]]

    def __iter__(self) -> Iterator[Example]:
        return self.read()


@dataclass(frozen=True)
class Prepared:
    labels: LabelVocabulary
    featurizer: Featurizer
    train: Corpus
    valid: Corpus
    provenance: dict[str, Any] = field(default_factory=dict)


def fingerprints(config: Config, train: Path, valid: Path | None) -> dict[str, str]:
    """What the training data was, byte for byte."""
    files = {"train": Path(train)}
    if valid is not None:
        files["valid"] = Path(valid)
    found = {}
    for part, path in files.items():
        try:
            if not path.exists():
                raise DataError("there is no such file; check the path.", path)
            if not path.is_file() and not path.is_dir():
                raise DataError("is not a plain file, expected one: training reads its data three times.", path)
            kind = detect_format(str(path)) if config.data.format == "auto" else config.data.format
            if path.is_dir() and kind not in FOLDER_FORMATS:
                raise DataError("is a directory, expected a file; name one of the files in it.", path)
            found[part] = fingerprint(path)
        except OSError as error:
            reason = f"cannot be read ({error.strerror}); check the path and its permissions."
            raise DataError(reason, path) from None
        beside = {"sgm": Path(sibling(str(path), "text", "label")), "npy": path.with_suffix(LABELS_SUFFIX)}.get(kind)
        if beside is not None:
            found[f"{part}_labels"] = fingerprint(beside) if beside.is_file() else ""
    return found


def prepare(
    config: Config, train: Path, valid: Path | None, cache: Path, say: Callable[[str], None] = lambda _: None
) -> Prepared:
    """Passes over the files for labels, vocabulary and encoding; none of them holds the texts in memory."""
    counts = ReadCounts()
    part_of = None if valid is not None else _split(config, train)

    def training_part() -> Iterator[Example]:
        for place, example in enumerate(read_examples(train, config.data, labelled=True)):
            if part_of is None or part_of[place] == TRAIN:
                yield example

    def both_parts() -> Iterator[tuple[int, Example]]:
        for place, example in enumerate(read_examples(train, config.data, labelled=True, counts=counts)):
            yield (TRAIN if part_of is None else int(part_of[place])), example
        if valid is not None:
            for example in read_examples(valid, config.data, labelled=True, counts=counts):
                yield VALID, example

    say(f"reading {train}")
    labels = LabelVocabulary.count((example.labels or () for example in training_part()), str(train))
    featurizer = featurizer_class(config).fit(_Passes(training_part), config.data, encoder_options(config))
    say(f"{len(labels):,} labels, {feature_count(featurizer):,} input features; encoding")
    paths = [cache / "train.arrow", cache / "valid.arrow"]
    encoded = encode_corpora(both_parts(), paths, featurizer, labels)
    parts = [Corpus(path, featurizer, labels) for path in paths]
    provenance = {
        "train_examples": encoded[TRAIN].examples,
        "valid_examples": encoded[VALID].examples,
        "truncated": encoded[TRAIN].truncated + encoded[VALID].truncated,
        "repeated_labels": counts.repeated_labels,
        "empty_texts": counts.empty_texts,
        "skipped": counts.skipped,
    }
    for note in _notes(provenance, config.data.max_words):
        say(note)
    return Prepared(labels, featurizer, parts[TRAIN], parts[VALID], provenance)


def _split(config: Config, train: Path) -> np.ndarray:
    """Part of every example when there is no validation file: a stratified share of the training file."""
    share = config.data.valid_fraction
    label_sets = (example.labels or () for example in read_examples(train, config.data, labelled=True))
    part_of = part_of_each(label_sets, [1 - share, share], config.seed)
    if len(part_of) < 2:
        raise DataError("holds a single example; expected at least two, one to train on and one to validate.", train)
    if not (part_of == VALID).any():
        part_of[-1] = VALID
    if not (part_of == TRAIN).any():
        raise DataError(f"data.valid_fraction {share} leaves nothing to train on; lower it.", train)
    return part_of


def _notes(provenance: dict[str, Any], max_words: int) -> Iterator[str]:
    if provenance["truncated"]:
        yield f"{provenance['truncated']:,} texts were truncated to {max_words:,} words (data.max_words)"
    if provenance["repeated_labels"]:
        yield f"{provenance['repeated_labels']:,} examples name a label more than once; each counts once"
    if provenance["skipped"]:
        yield f"{provenance['skipped']:,} examples are damaged and were left out (data.skip_bad)"
    if provenance["empty_texts"]:
        yield f"{provenance['empty_texts']:,} texts are empty; they are kept"
