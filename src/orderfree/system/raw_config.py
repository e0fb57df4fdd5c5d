"""Configs before they are checked: YAML files and `--set` settings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml

from ..config import Config, Section
from ..errors import ConfigError


class _PlainLoader(yaml.SafeLoader):
    """Without aliases, a few lines of which stand for gigabytes, and without repeated keys, of which YAML keeps the
    last."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, f"the alias *{event.anchor}: write its value", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(names)) < len(names):
            twice, _ = Counter(names).most_common(1)[0]
            raise yaml.constructor.ConstructorError(None, None, f"names {twice!r} twice; remove one", node.start_mark)
        return super().construct_mapping(node, deep)


LARGEST_YAML = 1 << 20
NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)  # ValueError: no such date, or a number of 5,000 digits


def parse_yaml(text: str) -> Any:
    loader = _PlainLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def read_yaml(path: Path) -> dict[str, Any]:
    """The raw content of a config file; an empty file is an empty config."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(LARGEST_YAML + 1)
        if len(text) > LARGEST_YAML:
            raise ConfigError(f"{path}: is longer than {LARGEST_YAML:,} characters, which no config needs.")
        content = parse_yaml(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({_reason(error)}).") from None
    except NOT_YAML as error:
        raise ConfigError(f"{path}: is not YAML ({' '.join(str(error).split())}).") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected keys and values at the top, found a {type(content).__name__}.")
    return content


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "not UTF-8"


def apply_setting(raw: dict[str, Any], setting: str) -> None:
    """Puts `model.encoder=bilstm` into a raw config. The value of a key that holds text is taken as it stands, so that
    `data.label_separator=|` is what it says, without quotes around it; other values are read as YAML."""
    key, equals, value = setting.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {setting!r}: expected key=value, for example model.encoder=bilstm.")
    *parents, last = key.strip().split(".")
    section = raw
    for parent in parents:
        inner = section.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {setting!r}: {parent!r} is a value, not a section.")
        section = inner
    holds_text, optional = _text_key([*parents, last])
    if holds_text and not _is_quoted(value) and not (optional and value.strip() in ("", "null", "~")):
        section[last] = value.strip() or value
        return
    try:
        section[last] = parse_yaml(value)
    except NOT_YAML:
        raise ConfigError(
            f"--set {setting!r}: the value is not YAML; quote it if it holds special characters."
        ) from None


def _text_key(path: list[str]) -> tuple[bool, bool]:
    """Whether this key holds text, and whether it may be null."""
    section: Any = Config
    for name in path:
        fields = section.model_fields if isinstance(section, type) and issubclass(section, Section) else {}
        if name not in fields:
            return False, False
        section = fields[name].annotation
    kinds = get_args(section) if get_origin(section) in (Union, UnionType) else (section,)
    return str in kinds and set(kinds) <= {str, type(None)}, type(None) in kinds


def _is_quoted(value: str) -> bool:
    value = value.strip()
    return len(value) > 2 and value[0] == value[-1] and value[0] in "'\""
