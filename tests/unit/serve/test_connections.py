"""Clients that hold connections open without asking anything: they go, others are answered."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast

import pytest
import uvicorn

from orderfree.inference import Predictor
from orderfree.serve import connections as module
from orderfree.serve.app import create_app
from orderfree.serve.connections import Connection, Connections
from orderfree.serve.schema import ServiceLimits
from orderfree.serve.server import _Server, listen

MOST = 4
ALIVE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@contextmanager
def listening(predictor: Predictor) -> Iterator[tuple[Any, Connections]]:
    limits = ServiceLimits(connections=MOST)
    app, book = create_app(predictor, "fish", limits), Connections(MOST, limits)
    http = cast(Any, partial(Connection, book))
    server = _Server(uvicorn.Config(app, http=http, ws="none", log_config=None, lifespan="on"), app, book)
    listener = listen("127.0.0.1", 0, None)
    serving = threading.Thread(target=server.run, args=([listener],))
    serving.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield listener.getsockname(), book
    finally:
        server.should_exit = True
        serving.join()


def asked(address: Any, beginning: bytes) -> bytes:
    with socket.create_connection(address, timeout=60) as client:
        client.sendall(beginning)
        return b"".join(iter(lambda: client.recv(4096), b""))


def test_who_asks_is_answered_beside_many_silent_ones(predictor: Predictor) -> None:
    with listening(predictor) as (address, book), ExitStack() as silent:
        for _ in range(4 * MOST):
            silent.enter_context(socket.create_connection(address, timeout=60))
        assert asked(address, ALIVE).startswith(b"HTTP/1.1 200")
        assert len(book) <= MOST


@pytest.mark.parametrize(
    ("beginning", "answer"), [(b"", b""), (b"GET /healthz HTTP/1.1\r\nHost: loc", b"HTTP/1.1 408")]
)
def test_a_head_that_does_not_come_ends_the_connection(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch, beginning: bytes, answer: bytes
) -> None:
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.2)
    with listening(predictor) as (address, book):
        assert asked(address, beginning).startswith(answer)
        assert len(book) <= 1


def test_connections_stay_below_the_limit_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (400, 400))
    assert 0 < module.most_connections(1000) < 400 - module.RESERVED
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    with pytest.raises(Exception, match="ulimit -n 1024"):
        module.most_connections(1000)
