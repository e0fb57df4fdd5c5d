"""Large bodies are read and large answers written in a thread of their own, while the event loop answers others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .problems import Problem

Result = TypeVar("Result")


class Aside:
    """One thread: more would only fight the event loop for the interpreter."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, "aside")

    async def run(self, work: Callable[[], Result], is_large: bool) -> Result:
        if not is_large:
            return work()
        if self._waiting >= self.most:
            detail = f"{self.most} large requests are already waiting; try again in a second."
            raise Problem("too-busy", detail, {"Retry-After": "1"})
        self._waiting += 1
        try:
            async with asyncio.timeout(self.seconds):
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except TimeoutError:
            detail = f"there was no answer within {self.seconds:g} seconds; send fewer or shorter texts."
            raise Problem("too-slow", detail) from None
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._thread.shutdown()
