"""Tokenizers from files that a stranger may have written. Our own is built anew from its words. One of a pretrained
encoder is built anew from the parts that published encoders have: truncation, padding and decoding are left out, and
parts that would make a short text long are refused."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from ...errors import ConfigError

UNKNOWN, PADDING = "[UNK]", "[PAD]"
NORMALIZERS = {
    "BertNormalizer", "ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend",
    "Replace", "Strip", "StripAccents",
}  # fmt: skip
PRE_TOKENIZERS = {
    "BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "Metaspace", "Punctuation", "Split",
    "UnicodeScripts", "Whitespace", "WhitespaceSplit",
}  # fmt: skip
POST_PROCESSORS = {"BertProcessing", "ByteLevel", "RobertaProcessing", "TemplateProcessing"}
REPEATED = {"Digits", "Punctuation", "Replace", "Split"}  # other parts stand in a tokenizer once
MODELS = {"BPE", "Unigram", "WordLevel", "WordPiece", None}  # None: old files do not say
MOST_PARTS = 16
MOST_PATTERNS = 4  # replaced regular expressions: each may double a text
LONGEST_PIECE = 64  # bytes that one character, or the beginning of a text, may become
LONGEST_WORD = 1000  # characters of a word that WordPiece looks at: its time grows with their square


def word_tokenizer(vocabulary: dict[str, int], lowercase: bool) -> Tokenizer:
    """Words and punctuation marks, one id each."""
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    steps = [normalizers.NFC(), *([normalizers.Lowercase()] if lowercase else [])]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def read_word_tokenizer(path: Path) -> Tokenizer:
    """What `word_tokenizer` has made, from its words and whether they are in lower case; nothing else of the file."""
    content = _read_object(path)
    try:
        vocabulary = content["model"]["vocab"]
        ids = sorted(vocabulary.values())
        steps = [step["type"] for step in content["normalizer"]["normalizers"]]
    except (KeyError, TypeError, AttributeError):
        raise _damaged(path, "it does not hold words with their numbers") from None
    numbered = ids == list(range(len(ids))) and all(type(number) is int for number in ids)
    if not numbered or not {UNKNOWN, PADDING} <= vocabulary.keys():
        raise _damaged(path, f"its words are not numbered from 0 on, or {UNKNOWN} or {PADDING} is missing")
    tokenizer = word_tokenizer(vocabulary, lowercase="Lowercase" in steps)
    tokenizer.add_special_tokens([PADDING, UNKNOWN])
    return tokenizer


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a pretrained encoder. Its padding is that of a batch, whatever the file says."""
    content = _read_object(path)
    try:
        rebuilt = _rebuilt(path, content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"it lacks {error}" if isinstance(error, KeyError) else str(error)) from None
    with tokenizing(path):
        tokenizer = Tokenizer.from_str(json.dumps(rebuilt))
        if isinstance(padding := content.get("padding"), dict):
            tokenizer.enable_padding(pad_id=int(padding["pad_id"]))
    return tokenizer


def _rebuilt(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    model = content.get("model")
    if not isinstance(model, dict) or model.get("type") not in MODELS:
        raise _damaged(path, "it has no model of words that is known here")
    if int(model.get("max_input_chars_per_word") or 0) > LONGEST_WORD:
        raise _damaged(path, f"it looks at words of more than {LONGEST_WORD:,} characters")
    return {
        "version": content.get("version", "1.0"),
        "truncation": None,
        "padding": None,
        "added_tokens": content.get("added_tokens", []),
        "normalizer": _checked(path, content.get("normalizer"), NORMALIZERS),
        "pre_tokenizer": _checked(path, content.get("pre_tokenizer"), PRE_TOKENIZERS),
        "post_processor": _checked(path, content.get("post_processor"), POST_PROCESSORS),
        "decoder": None,
        "model": {**model, "dropout": None} if "dropout" in model else model,  # which would forget at random
    }


def _checked(path: Path, part: Any, known: set[str]) -> Any:
    """The same part of a tokenizer, once every step of it is one that is known and harmless."""
    steps = list(_steps(path, part))
    times = Counter(step.get("type") for step in steps)
    if strange := next((kind for kind in times if kind not in known), None):
        raise _damaged(path, f"its part {strange!r} is not used here")
    if len(steps) > MOST_PARTS or any(n > 1 for kind, n in times.items() if kind not in REPEATED):
        raise _damaged(path, "it holds more parts than a tokenizer needs")
    patterns = sum(_replaces_pattern(path, step) for step in steps if step["type"] == "Replace")
    if patterns > MOST_PATTERNS:
        raise _damaged(path, f"it replaces more than {MOST_PATTERNS} regular expressions")
    for step in steps:
        if step["type"] == "Prepend" and len(str(step.get("prepend"))) > LONGEST_PIECE:
            raise _damaged(path, "it puts a long text before every text")
        if step["type"] == "Precompiled" and _longest_replacement(step) > LONGEST_PIECE:
            raise _damaged(path, "it replaces a character by a long text")
        if step["type"] == "TemplateProcessing" and _template_size(step) > LONGEST_PIECE:
            raise _damaged(path, "it adds many tokens to every text")
    return part


def _steps(path: Path, part: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The steps of a part, those of its sequences one by one."""
    if part is None:
        return
    if not isinstance(part, dict) or not isinstance(part.get("type"), str) or depth > 2:
        raise _damaged(path, "one of its parts is none")
    if part["type"] != "Sequence":
        yield part
        return
    inner = next((part[key] for key in ("normalizers", "pretokenizers", "processors") if key in part), None)
    for step in inner if isinstance(inner, list) else [inner]:
        yield from _steps(path, step, depth + 1)


def _replaces_pattern(path: Path, step: dict[str, Any]) -> bool:
    """Whether a regular expression is replaced; a replacement that makes a text much longer is refused."""
    pattern, content = step.get("pattern"), step.get("content")
    if not isinstance(pattern, dict) or not isinstance(content, str):
        raise _damaged(path, "one of its replacements is none")
    plain = pattern.get("String")
    if len(content) > (len(plain) if isinstance(plain, str) else 1) or plain == "":
        raise _damaged(path, f"it replaces {str(plain or pattern.get('Regex'))[:20]!r} by a longer text")
    return plain is None


def _longest_replacement(step: dict[str, Any]) -> int:
    """Of a table of sentencepiece: the size of an index, the index, all replacements, each ended by a zero byte."""
    table = base64.b64decode(step.get("precompiled_charsmap") or "")
    replacements = table[4 + int.from_bytes(table[:4], "little") :]
    return max(map(len, replacements.split(b"\0")))


def _template_size(step: dict[str, Any]) -> int:
    return len(step["single"]) + sum(len(token["ids"]) for token in step["special_tokens"].values())


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from None
    if not isinstance(content, dict):
        raise _damaged(path, "expected a JSON object")
    return content


def _damaged(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"{path}: is no tokenizer that can be used here ({reason}); choose or copy another.")


@contextmanager
def tokenizing(path: Path | None = None) -> Iterator[None]:
    """A tokenizer can be read and still fail on a text; the library may even panic, which is no `Exception`."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if path is not None:
            raise _damaged(path, str(error)) from None
        raise ConfigError(f"the tokenizer of this model is damaged ({error}); copy or train the model again.") from None
