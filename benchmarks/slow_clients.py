"""Clients that keep connections of a service open and take their time, and whether it answers others meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

BEGINNINGS = (
    b"",  # silent
    b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",  # a head that never ends
    b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50,  # answers that are never read
)
BYTE_SECONDS = 3.0  # between two bytes of a slow client
AGAIN_SECONDS = 5.0  # until a client whose connection was closed opens another
CHECK_SECONDS = 1.0  # between two questions whether the service is alive
LATE = 1.0  # seconds for their answer


@dataclass
class SlowClients:
    host: str
    port: int
    opened: int = 0
    health: list[float] = field(default_factory=list)  # seconds of every answer of /healthz; infinite: none came

    @asynccontextmanager
    async def at_work(self, count: int) -> AsyncIterator[None]:
        """`count` of them, and one who asks /healthz every second."""
        tasks = [asyncio.create_task(self._dawdle(number)) for number in range(count)]
        tasks.append(asyncio.create_task(self._check()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _dawdle(self, number: int) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(self.host, self.port, limit=1)
                self.opened += 1
                try:
                    writer.write(BEGINNINGS[number % len(BEGINNINGS)])
                    while not (reader.at_eof() or reader.exception() or writer.transport.is_closing()):
                        await asyncio.sleep(BYTE_SECONDS)
                        if number % len(BEGINNINGS):
                            writer.write(b"x")
                finally:
                    writer.transport.abort()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _check(self) -> None:
        while True:
            began = time.perf_counter()
            good = False
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(30):
                    reader, writer = await asyncio.open_connection(self.host, self.port)
                    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    good = (await reader.read()).startswith(b"HTTP/1.1 200")
                    writer.close()
            self.health.append(time.perf_counter() - began if good else float("inf"))
            await asyncio.sleep(max(CHECK_SECONDS - (time.perf_counter() - began), 0.1))

    def summary(self) -> dict[str, Any]:
        answered = sorted(seconds for seconds in self.health if seconds < float("inf"))
        places = {"p50_ms": 0.5, "p99_ms": 0.99, "slowest_ms": 1.0}
        return {
            "connections_opened": self.opened,
            "health_checks": len(self.health),
            "health_not_answered": len(self.health) - len(answered),
            "health_later_than_a_second": sum(seconds > LATE for seconds in self.health),
            **{
                f"health_{name}": round(1000 * answered[min(int(share * len(answered)), len(answered) - 1)], 1)
                for name, share in places.items()
                if answered
            },
        }
