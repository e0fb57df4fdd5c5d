"""Parts by name: readers, encoders, label decoders, binary-relevance decoders, objectives, searches. A dictionary that
refuses a name that is already registered, and looks for an unknown name among the plugins of installed packages. The
error for an unknown name lists the known names and the most similar one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from ..errors import ConfigError, nearest
from . import plugins

T = TypeVar("T")


class Registry(Generic[T]):
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}
        self._modules: dict[str, str] = {}

    def register(self, name: str, module: str | None = None) -> Callable[[T], T]:
        """Decorator: `@encoders.register("bilstm")`. `module`: where the part is defined, if it has no `__module__`."""

        def add(entry: T) -> T:
            if name in self._entries:
                raise ConfigError(f"the {self.kind} name {name!r} is taken; choose another.")
            self._entries[name] = entry
            self._modules[name] = plugins.STATE.loading or module or str(getattr(entry, "__module__", ""))
            return entry

        return add

    def plugin(self, name: str) -> str | None:
        """The module outside this package that registered a part; None: it is part of this package."""
        module = self._modules.get(name, "")
        return module if module and module.partition(".")[0] != __name__.partition(".")[0] else None

    def __getitem__(self, name: str) -> T:
        if name not in self:
            known = ", ".join(self.names())
            hint = nearest(name, self.names()) + plugins.failures()
            raise ConfigError(f"unknown {self.kind} {name!r}; known: {known}.{hint}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._entries and isinstance(name, str):
            plugins.load_installed()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def names(self) -> list[str]:
        return sorted(self._entries)
