"""From the files a user has to encoded corpora the loop can draw batches from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..build import encoder_options, featurizer_class, plugin_parts, search_limits
from ..checkpoint import TrainedModel
from ..config import Config
from ..data.corpus import Corpus, encode_corpora
from ..data.featurizers import Featurizer, bag_part, feature_count
from ..data.inputs import Input, as_examples
from ..data.label_checks import label_warnings, rare_note, unspaced_note
from ..data.labels import LabelVocabulary
from ..data.readers import FOLDER_FORMATS, ReadCounts, check_examples, companions, detect_format, read_examples
from ..data.seen import TextCounter
from ..data.splits import part_of_each
from ..errors import DataError
from ..system.files import fingerprint
from ..system.pretrained import NEEDED, pretrained_directory
from ..system.wording import counted
from ..types import Example, SparseVector

TRAIN, VALID = 0, 1
PRETRAINED = "pretrained encoder"
MOST_NOTES = 6  # lines on what was noticed in the data
Data = str | Path | Sequence[Example]  # a file, or examples already in memory


@dataclass(frozen=True)
class _Again:
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


def as_data(data: Data | Iterable[Input], config: Config) -> Data:
    """A path as it is; what is in memory as examples."""
    if isinstance(data, str | Path):
        return data
    examples = list(as_examples(data, config.data, labelled=True))
    if not examples:
        raise DataError("there are no examples to learn from; expected at least two with labels.")
    return examples


def fingerprints(config: Config, train: Data, valid: Data | None) -> dict[str, str]:
    """What the run is made of, byte for byte: its files, those beside them, and pretrained encoders."""
    parts = {"train": train, **({} if valid is None else {"valid": valid})}
    prints = {}
    for part, data in parts.items():
        if not isinstance(data, str | Path):
            prints[part] = _digest(data)
            continue
        path = Path(data)
        try:
            if not path.exists():
                raise DataError("there is no such file; check the path.", path)
            if not path.is_file() and not path.is_dir():
                raise DataError("is not a plain file, expected one: training reads its data three times.", path)
            kind = detect_format(str(path)) if config.data.format == "auto" else config.data.format
            if path.is_dir() and kind not in FOLDER_FORMATS:
                raise DataError("is a directory, expected a file; name one of the files in it.", path)
            prints[part] = fingerprint(path)
        except OSError as error:
            reason = f"cannot be read ({error.strerror}); check the path and its permissions."
            raise DataError(reason, path) from None
        beside = {what: sorted(files) for what, files in companions(path, kind).items()}
        prints |= {f"{part}_{what}": _joint_fingerprint(files) for what, files in beside.items()}
    for part, name in (("sound features", config.data.vggish), ("sound components", config.data.vggish_pca)):
        if name is not None:
            prints[part] = _joint_fingerprint([Path(name)])
    for name in sorted(_pretrained_names(config.model.encoder_options)):
        directory = pretrained_directory(name)
        prints[f"{PRETRAINED} {name}"] = _joint_fingerprint([directory / file for file in NEEDED])
    return prints


def _digest(examples: Sequence[Example]) -> str:
    """SHA-256 of examples in memory."""
    digest = hashlib.sha256()
    for example in examples:
        features = example.features
        arrays = [features.indices, features.values] if isinstance(features, SparseVector) else [features]
        digest.update(repr((example.id, example.text, example.labels, example.weight, example.unknown)).encode())
        digest.update(b"".join(array.tobytes() for array in arrays if array is not None))
    return digest.hexdigest()


def _read(data: Data, config: Config, counts: ReadCounts | None = None) -> Iterator[Example]:
    """Examples of which at least some labels are known, one way or the other: the rest teach and measure nothing."""
    if isinstance(data, str | Path):
        examples = read_examples(data, config.data, labelled=True, counts=counts)
    else:
        examples = check_examples(data, counts, config.data.empty)
    return (example for example in examples if example.unknown is not None)


def _joint_fingerprint(files: list[Path]) -> str:
    """That of a single file is its own; one that is missing counts as empty, and whoever reads it will say so."""
    prints = [fingerprint(file) if file.is_file() else "" for file in files]
    return prints[0] if len(prints) == 1 else hashlib.sha256("".join(prints).encode()).hexdigest()


def _pretrained_names(options: dict[str, Any]) -> set[str]:
    """What the options of an encoder, or of the parts of a hybrid one, are named after."""
    names = {str(options[key]) for key in ("pretrained", "embeddings") if options.get(key)}
    return names.union(*(_pretrained_names(part) for part in options.get("parts", {}).values()))


class _Passes:
    """Passes over the files; none of them holds the texts in memory."""

    def __init__(self, config: Config, train: Data, valid: Data | None) -> None:
        self.config, self.train, self.valid = config, train, valid
        self.source = str(train) if isinstance(train, str | Path) else "the examples"
        self.part_of = None if valid is not None else _split(config, train, self.source)  # (N,)
        self.counts, self.texts, self.valid_texts = ReadCounts(), TextCounter(), TextCounter()

    def training_part(self) -> Iterator[Example]:
        for row, example in enumerate(_read(self.train, self.config)):
            if self._part(row) == TRAIN:
                yield example

    def both_parts(self) -> Iterator[tuple[int, Example]]:
        """The last pass, which counts what is reported."""
        for row, example in enumerate(_read(self.train, self.config, self.counts)):
            self.texts.add(example)
            yield self._part(row), example
        if self.valid is not None:
            for example in _read(self.valid, self.config, self.counts):
                self.valid_texts.add(example)
                yield VALID, example

    def _part(self, row: int) -> int:
        if self.part_of is None:
            return TRAIN
        if row >= len(self.part_of):
            raise DataError("has changed while it was read; start again when no program writes to it.", self.source)
        return int(self.part_of[row])


def prepare(
    config: Config,
    train: Data,
    valid: Data | None,
    cache: Path,
    say: Callable[[str], None] = lambda _: None,
    earlier: TrainedModel | None = None,
) -> Prepared:
    """Reads labels and vocabulary, then encodes both parts into `cache`.

    An `earlier` model to start from lends its vocabulary, and its labels come first."""
    passes = _Passes(config, train, valid)
    say(f"reading {passes.source}")
    labels, featurizer = _vocabularies(config, passes, say, earlier)
    say(f"{counted(len(labels), 'label')}, {feature_count(featurizer):,} input features; encoding the examples")
    paths = [cache / "train.arrow", cache / "valid.arrow"]
    encoded = encode_corpora(passes.both_parts(), paths, featurizer, labels)
    parts = [Corpus(path, featurizer, labels) for path in paths]
    provenance = {
        "train_examples": encoded[TRAIN].examples,
        "valid_examples": encoded[VALID].examples,
        "truncated": encoded[TRAIN].truncated + encoded[VALID].truncated,
        "repeated_labels": passes.counts.repeated_labels,
        "empty_texts": passes.counts.empty_texts,
        "unknown_examples": passes.counts.unknown,
        "unlabelled_examples": passes.counts.unlabelled,
        "plugins": plugin_parts(config),
        "skipped": passes.counts.skipped,
        "texts": passes.texts.found(),
        "valid_texts": passes.valid_texts.found(),
    }
    if parts[TRAIN].has_unknown and config.model.label_decoder == "chain":
        raise DataError(
            "model.label_decoder=chain says yes or no to every label, so it cannot learn from examples with unknown "
            "labels; choose another label decoder, or leave these examples out.",
            passes.source,
        )
    for note in _notes(provenance, config, labels, passes):
        say(note)
    return Prepared(labels, featurizer, parts[TRAIN], parts[VALID], provenance)


def _vocabularies(
    config: Config, passes: _Passes, say: Callable[[str], None], earlier: TrainedModel | None
) -> tuple[LabelVocabulary, Featurizer]:
    label_sets = (example.labels or () for example in passes.training_part())
    fewest = 2 if earlier is None else 1  # an earlier model has others to choose from
    labels = LabelVocabulary.count(label_sets, passes.source, fewest)
    if earlier is None:
        return labels, featurizer_class(config).fit(_Again(passes.training_part), config.data, encoder_options(config))
    labels = labels.after(earlier.labels)
    if (bag := bag_part(earlier.featurizer)) is not None:
        bag.neighbours = bag.scorer = None  # those of the earlier data
    new = counted(len(labels) - len(earlier.labels), "label is", "labels are")
    say(f"{new} new; the other {len(earlier.labels):,} keep their weights")
    return labels, earlier.featurizer


def _split(config: Config, train: Data, source: str) -> np.ndarray:
    """Part of every example when there is no validation file: a stratified share of the training file."""
    share, counts = config.data.valid_fraction, ReadCounts()
    label_sets = (example.labels or () for example in _read(train, config, counts))
    part_of = part_of_each(label_sets, [1 - share, share], config.seed)
    if len(part_of) < 2 and counts.unknown:
        raise DataError(
            f"{counts.unknown:,} of {counts.examples:,} examples have unknown labels (null), expected at least two "
            "with labels; write [] where an example has no label.",
            source,
        )
    if len(part_of) < 2:
        raise DataError("holds a single example; expected at least two, one to train on and one to validate.", source)
    if not (part_of == VALID).any():
        part_of[-1] = VALID
    if not (part_of == TRAIN).any():
        raise DataError(f"data.valid_fraction {share} leaves nothing to train on; lower it.", source)
    return part_of


def _notes(provenance: dict[str, Any], config: Config, labels: LabelVocabulary, passes: _Passes) -> list[str]:
    """What was noticed in the data, the most important first."""
    label_counts = dict(zip(labels.names, labels.counts, strict=True))
    passes.counts.recognised = None  # has been said when the columns were chosen
    notes = [*passes.counts.notes()]
    reads_words = encoder_options(config).model_dump().get("chars") == 0
    if reads_words and (unspaced := unspaced_note(passes.counts.unspaced, passes.counts.examples)):
        notes.append(unspaced)
    notes += label_warnings(label_counts, config.data.label_separator if passes.counts.cells else None)
    notes += _notes_of_counts(provenance, config, labels)
    if rare := rare_note(label_counts):
        notes.append(rare)
    if len(notes) <= MOST_NOTES:
        return notes
    more = len(notes) - MOST_NOTES + 1
    return [*notes[: MOST_NOTES - 1], f"and {more} more remarks; `orderfree check {passes.source}` lists all of them"]


def _notes_of_counts(provenance: dict[str, Any], config: Config, labels: LabelVocabulary) -> Iterator[str]:
    if empty := provenance["unlabelled_examples"]:
        examples = provenance["train_examples"] + provenance["valid_examples"]
        fewest = search_limits(config, labels).min_labels
        may = (
            "predictions may have no label either"
            if fewest == 0
            else "predictions have at least one label (--set decoding.min_labels=0 allows none)"
        )
        have = "has" if empty == 1 else "have"
        yield (
            f"{empty:,} of {counted(examples, 'example')} {have} no label: learned as 'none'; "
            f"{may}. If these labels are missing, leave the examples out with --set data.empty=unknown"
        )
    if repeated := provenance["texts"]["repeated"]:
        other = provenance["texts"]["conflicting"]
        again = counted(repeated, "example repeats", "examples repeat")
        yield f"{again} an earlier text of the training file" + f", {other:,} with other labels" * bool(other)
    if provenance["empty_texts"]:
        yield f"{counted(provenance['empty_texts'], 'text is', 'texts are')} empty and kept"
    if unknown := provenance["unknown_examples"]:
        why = "null" if config.data.empty == "none" else "empty or null"
        yield f"{counted(unknown, 'example has', 'examples have')} no known labels ({why}) and will be ignored"
    if provenance["truncated"]:
        cut = counted(provenance["truncated"], "text was", "texts were")
        yield f"{cut} truncated to {config.data.max_words:,} words (data.max_words)"
