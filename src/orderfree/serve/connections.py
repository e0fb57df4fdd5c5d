"""Connections that wait for their client: how many there may be, and for how long. uvicorn has no limit for either."""

from __future__ import annotations

import asyncio
import os
from asyncio import Transport
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import OrderfreeError
from .problems import Problem
from .schema import ServiceLimits

HEAD_SECONDS = 10.0  # for the head of a request, from the opened connection or the last answer
ACCEPTED_AT_ONCE = 16  # connections; asyncio goes on accepting so many times when descriptors have run out
RESERVED = 4 * ACCEPTED_AT_ONCE + 32  # descriptors: connections accepted or closed but not yet counted; files, threads
UNREAD_BYTES = 256 << 20  # of all answers that were written and not yet read
SWEEP_SECONDS = 0.5


def most_connections(wanted: int) -> int:
    """What the descriptor limit of the process allows, and `wanted` at most."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    free = limit - len(os.listdir("/dev/fd")) - RESERVED
    if free < 1:
        raise OrderfreeError(f"the process may open {limit} files, too few to serve; raise it with `ulimit -n 1024`.")
    return min(wanted, free)


class Connections:
    """All connections of one service. Where they are too many, the one that has waited longest for its client goes."""

    def __init__(self, most: int, limits: ServiceLimits) -> None:
        self.most, self.answer_seconds = most, limits.seconds
        self.head_seconds = min(HEAD_SECONDS, limits.seconds)
        self._open: set[Connection] = set()
        # Since when each waits: for the rest of a request, or for its answer to be read. The longest wait is first.
        self._waiting: dict[Connection, float] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        if len(self._open) >= self.most:
            longest = next((one for one in self._waiting if one in self._open), None)
            if longest is None:
                return False
            self.forget(longest)
            longest.transport.abort()
        self._open.add(connection)
        return True

    def forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def note_turn(self, connection: Connection, of_client: bool) -> None:
        if of_client:
            self._waiting.setdefault(connection, asyncio.get_running_loop().time())
        else:
            self._waiting.pop(connection, None)

    async def watch(self) -> None:
        """Closes what is late, until it is cancelled."""
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, self.head_seconds / 4))
            now = asyncio.get_running_loop().time()
            for connection, since in list(self._waiting.items()):
                patience = self.head_seconds
                if connection.in_request or connection.unread:  # a late body is answered by the guard before that
                    patience += self.answer_seconds
                if now - since > patience:
                    connection.close_late()
            self._limit_unread()

    def _limit_unread(self) -> None:
        unread = sorted(self._waiting, key=lambda connection: connection.unread)
        total = sum(connection.unread for connection in unread)
        while total > UNREAD_BYTES:
            total -= unread[-1].unread
            unread.pop().transport.abort()


class Connection(H11Protocol):
    """One connection. It is the client's turn while a request is not whole or an answer not read."""

    def __init__(self, book: Connections, **uvicorn_arguments: Any) -> None:
        super().__init__(**uvicorn_arguments)
        self.book = book

    @property
    def in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def unread(self) -> int:
        return self.transport.get_write_buffer_size()

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        admitted = self.book.admit(self)
        self._note_turn()
        if not admitted:
            self._refuse(Problem("too-busy", f"{len(self.book)} connections are open; ask again in a second."))

    def connection_lost(self, exc: Exception | None) -> None:
        self.book.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note_turn()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note_turn()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._note_turn()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._note_turn()

    def _note_turn(self) -> None:
        at_work = self.in_request and not self.cycle.more_body and not self.flow.write_paused
        self.book.note_turn(self, of_client=not at_work)

    def close_late(self) -> None:
        half_sent = self.conn.our_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if half_sent and not self.transport.is_closing():
            seconds = self.book.head_seconds
            self._refuse(Problem("slow-request", f"the head of the request did not arrive within {seconds:g} seconds."))
        else:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem("bad-request", "this is no HTTP/1.1 request."))

    def _refuse(self, problem: Problem) -> None:
        """Answers what never becomes a request of the application."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = problem.response(None)
            headers = [*answer.raw_headers, (b"connection", b"close")]
            reason = HTTPStatus(problem.status).phrase.encode()
            start = h11.Response(status_code=problem.status, headers=headers, reason=reason)
            for event in (start, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
