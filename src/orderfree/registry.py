"""Parts by name: readers, encoders, label decoders, binary-relevance decoders, objectives, searches. A dictionary that
refuses a name that is taken, and answers an unknown one with the known names and the nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from .errors import ConfigError, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: `@encoders.register("bilstm")`."""

        def add(entry: T) -> T:
            if name in self._entries:
                raise ConfigError(f"the {self.kind} name {name!r} is taken; choose another.")
            self._entries[name] = entry
            return entry

        return add

    def __getitem__(self, name: str) -> T:
        try:
            return self._entries[name]
        except KeyError:
            known = ", ".join(self.names())
            raise ConfigError(f"unknown {self.kind} {name!r}; known: {known}.{nearest(name, self.names())}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def names(self) -> list[str]:
        return sorted(self._entries)
