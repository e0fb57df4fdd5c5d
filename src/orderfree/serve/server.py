"""From a model directory to a listening process: address, token, log and signals."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import socket
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from ..errors import OrderfreeError
from .connections import ACCEPTED_AT_ONCE, Connection, Connections, most_connections
from .logs import log, log_as_json
from .schema import ServiceLimits

SHORTEST_TOKEN = 16
ARRIVING = 1024  # connections the kernel keeps until they are accepted
GRACE = 5.0  # seconds on top of the longest request, until a stopping service goes whatever happens


def read_token(path: Path) -> str:
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII"
        raise OrderfreeError(f"{path}: the token cannot be read ({reason}).") from None
    if len(token) < SHORTEST_TOKEN or not token.isprintable() or " " in token:
        raise OrderfreeError(
            f"{path}: expected one token of at least {SHORTEST_TOKEN} characters without spaces; make one with "
            "`python -c 'import secrets; print(secrets.token_urlsafe())'`."
        )
    return token


def listen(host: str, port: int, token: str | None) -> socket.socket:
    """A socket that is taken, so that two services never start on one port; any but loopback needs a token."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise OrderfreeError(f"--host {host!r}: there is no such address.") from None
    if token is None and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise OrderfreeError(f"--host {host}: others can reach this address; give a token with --token-file.")
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise OrderfreeError(
            f"cannot listen on {host}, port {port} ({error.strerror}); choose another with --port."
        ) from None
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(uvicorn.Server):
    """Says no to new work from the moment it is told to stop; uvicorn then waits for what was accepted."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, connections: Connections) -> None:
        super().__init__(config)
        self.app, self.connections = app, connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(ARRIVING)  # asyncio has only one number for this and for ACCEPTED_AT_ONCE
        self._watch = asyncio.create_task(self.connections.watch())

    async def on_tick(self, counter: int) -> bool:
        failed: bool = self.app.state.batcher.failure is not None
        return await super().on_tick(counter) or failed

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.app.state.batcher.stopping = True
        super().handle_exit(sig, frame)


def run_server(app: FastAPI, listener: socket.socket, limits: ServiceLimits) -> bool:
    """Serves until SIGINT or SIGTERM, and returns when everything accepted is answered; False: the model failed."""
    log_as_json()
    most = most_connections(limits.connections)
    if most < limits.connections:
        log.info(
            "the limit of open files (ulimit -n) allows fewer connections", extra={"fields": {"connections": most}}
        )
    connections = Connections(most, limits)
    config = uvicorn.Config(
        app,
        http=cast(Any, partial(Connection, connections)),
        ws="none",  # what is upgraded would leave Connection
        backlog=ACCEPTED_AT_ONCE,
        log_config=None,
        access_log=False,  # the guard writes a line for each request
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=int(limits.seconds + GRACE),
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # uvicorn raises them once more when it is done: that was all
    gc.collect()
    gc.freeze()  # collections go through what requests make alone, not through all libraries: others wait meanwhile
    _Server(config, app, connections).run(sockets=[listener])
    return app.state.batcher.failure is None
