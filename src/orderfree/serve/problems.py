"""Everything that can go wrong, each an `application/problem+json` body (RFC 9457)."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ..errors import OrderfreeError

# name -> status, title; the name is the part of `type` behind the #, and a place on the page /docs
KINDS: dict[str, tuple[int, str]] = {
    "bad-request": (400, "The request cannot be read"),
    "token-missing": (401, "A token is needed"),
    "not-found": (404, "There is nothing here"),
    "wrong-method": (405, "This address expects another method"),
    "slow-request": (408, "The request took too long to arrive"),
    "body-too-large": (413, "The request is too large"),
    "wrong-media-type": (415, "The body is not JSON"),
    "wrong-host": (421, "This service answers this machine only"),
    "invalid": (422, "The request is not possible"),
    "too-busy": (429, "Too many requests are waiting"),
    "failed": (500, "The service failed"),
    "stopping": (503, "The service is stopping"),
    "too-slow": (504, "The answer took too long"),
}
LONGEST_NAME, LONGEST_DETAIL = 100, 2000  # characters of what a client sent, and of what it is told
BY_STATUS = {status: name for name, (status, _) in KINDS.items()}


class Problem(Exception):
    def __init__(self, name: str, detail: str, headers: dict[str, str] | None = None, **extra: Any) -> None:
        super().__init__(detail)
        self.name, self.detail, self.headers, self.extra = name, detail, headers, extra
        self.status, self.title = KINDS[name]

    def response(self, request_id: str | None) -> JSONResponse:
        body = {
            "type": f"/docs#{self.name}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "request_id": request_id,
            **self.extra,
        }
        return JSONResponse(body, self.status, self.headers, media_type="application/problem+json")


def answer_with_problems(app: FastAPI) -> None:
    """Every error of a route becomes a problem; what nobody foresaw is answered by the guard around all routes."""

    @app.exception_handler(Problem)
    async def known(request: Request, problem: Problem) -> JSONResponse:
        return problem.response(request.state.id)

    @app.exception_handler(OrderfreeError)
    async def not_possible(request: Request, error: OrderfreeError) -> JSONResponse:
        return Problem("invalid", shortened(str(error), LONGEST_DETAIL)).response(request.state.id)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        name = BY_STATUS.get(error.status_code, "bad-request")
        return Problem(name, str(error.detail), dict(error.headers or {})).response(request.state.id)


def shortened(words: str, longest: int = LONGEST_NAME) -> str:
    """Fit to be answered: cut, and without halves of surrogate pairs, which JSON can spell and UTF-8 cannot."""
    words = words if len(words) <= longest else words[:longest] + "…"
    return words.encode(errors="backslashreplace").decode()
