"""What stands around every route: request ids, the token, the size of bodies, log lines, counts, the last resort."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import time
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .logs import log, place_of_error
from .measures import Measures
from .problems import Problem
from .schema import ServiceLimits

# nothing of the model is in there
OPEN = {"/", "/page.css", "/page.js", "/elements.js", "/table.js", "/docs", "/healthz", "/readyz"}
METHODS = {"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}
OUTSIDE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


class Guard:
    """ASGI middleware. Without a token the service answers to the names of this machine only, so that no page of
    another site can reach it under a name of its own (DNS rebinding)."""

    def __init__(self, app: ASGIApp, limits: ServiceLimits, measures: Measures, token: str | None) -> None:
        self.app, self.limits, self.measures, self.token = app, limits, measures, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if OUTSIDE_ID.fullmatch(given) else uuid.uuid4().hex
        noted: dict[str, Any] = {}  # what the route wants in the log line
        scope.setdefault("state", {}).update(id=request_id, noted=noted)
        began, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = MutableHeaders(scope=message)
                sent["X-Request-ID"] = request_id
                for name, value in SAFE_HEADERS.items():
                    sent[name] = value
            await send(message)

        self.measures.running.inc()
        try:
            self._admit(scope["path"], headers)
            body = await self._body(headers, receive)
            await self.app(scope, body, answer)
        except Problem as problem:
            await problem.response(request_id)(scope, receive, answer)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            noted |= place_of_error(error)
            if not status:
                failed = Problem("failed", f"an unexpected error; the log has details under {request_id}.")
                await failed.response(request_id)(scope, receive, answer)
        finally:
            self.measures.running.dec()
            self._note(scope, status, time.perf_counter() - began, noted)

    def _note(self, scope: Scope, status: int, seconds: float, noted: dict[str, Any]) -> None:
        """Counts the request and logs it. Unknown paths and methods share a name, or there would be no end of names."""
        known = {getattr(route, "path", None) for route in scope["app"].routes}
        path = scope["path"] if scope["path"] in known else "other"
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.measures.saw_request(method, path, status, seconds)
        line = {"request_id": scope["state"]["id"], "method": method, "path": path, "status": status}
        log.info("request", extra={"fields": line | {"ms": round(1000 * seconds, 1)} | noted})

    def _admit(self, path: str, headers: Headers) -> None:
        if self.token is None:
            if not _is_local(headers.get("host", "")):
                detail = "without a token the service answers requests to localhost only; start it with --token-file."
                raise Problem("wrong-host", detail)
            return
        kind, _, token = headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(token.strip().encode(), self.token.encode())
        if path not in OPEN and not (right and kind.lower() == "bearer"):
            detail = "send the header `Authorization: Bearer …` with the token of the service."
            raise Problem("token-missing", detail, {"WWW-Authenticate": "Bearer"})

    async def _body(self, headers: Headers, receive: Receive) -> Receive:
        """The whole body, read before any route runs; refused as soon as it is known to be too large."""
        most = self.limits.body_bytes
        too_large = Problem("body-too-large", f"the body may have {most:,} bytes; send fewer texts at a time.")
        if int(headers.get("content-length", "0")) > most:
            raise too_large
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self.limits.seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem("bad-request", "the connection was closed before the whole body arrived.")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = message.get("more_body", False)
                    if size > most:
                        raise too_large
        except TimeoutError:
            detail = f"the body did not arrive within {self.limits.seconds:g} seconds."
            raise Problem("slow-request", detail, {"Connection": "close"}) from None
        whole: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def again() -> Message:
            return whole.pop() if whole else await receive()

        return again


def _is_local(host: str) -> bool:
    """Whether a Host header names this machine: localhost or a loopback address, with or without a port."""
    name = re.sub(r":\d+$", "", host).strip("[]").lower()
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
