"""The routes. Each is thin: check what is asked, wait for the model's thread, answer."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from math import nan
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel

from .._version import __version__
from ..errors import DataError, OrderfreeError
from ..evaluation.watching import Watch
from ..inference import Predictor
from ..types import Example
from .answers import asked_for, describe, explain_texts, predict_answer, predict_texts
from .aside import Aside
from .batching import Batcher
from .guard import Guard
from .measures import Measures
from .problems import KINDS, Problem, answer_with_problems
from .requests import Asked, check_media_type, read_request
from .schema import (
    ExplainAnswer,
    ExplainRequest,
    HealthAnswer,
    ModelAnswer,
    PredictAnswer,
    PredictRequest,
    ProblemAnswer,
    ServiceLimits,
)

PAGE = Path(__file__).parent / "page"
ADDRESS = "http://address.of.the.service"  # stands on the page /docs for the address it was asked at
PLAIN_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")
LARGE_BODY = 50_000  # bytes: reading takes longer than a few milliseconds
LARGE_ANSWER = 2_000  # probabilities
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": title,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}},
    }
    for status, title in KINDS.values()
    if status not in (404, 405)  # no answer of an address that is there
}
FACTS: dict[int | str, dict[str, Any]] = {status: REFUSALS[status] for status in (401, 408, 413, 421, 500)}


def create_app(
    predictor: Predictor,
    name: str,
    limits: ServiceLimits,
    token: str | None = None,
    log_texts: bool = False,
    examples: Sequence[str] = (),
) -> FastAPI:
    """The service around one model. `name` is what it calls the model; with `token` requests must bring it; `examples`
    are texts that the page offers to try."""
    _try_out(predictor)
    batcher = Batcher(limits.queue, limits.batch_texts, limits.batch_seconds)
    watch = Watch(predictor)
    measures = Measures(lambda: batcher.waiting, lambda: nan if watch.newest is None else watch.newest.p_value)
    batcher.seen = measures.saw_batch
    aside = Aside(limits.queue, limits.seconds)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        async with batcher:
            yield
        aside.close()

    app = FastAPI(title="orderfree", version=__version__, docs_url=None, redoc_url=None, lifespan=running)
    app.state.batcher = batcher
    app.add_middleware(Guard, limits=limits, measures=measures, token=token)
    answer_with_problems(app)
    _add_questions(app, predictor, batcher, aside, limits, log_texts, watch)
    _add_facts(app, describe(predictor, name, limits, examples), batcher, measures)
    _add_pages(app)
    _name_choices(app, predictor)
    return app


def _add_questions(
    app: FastAPI,
    predictor: Predictor,
    batcher: Batcher,
    aside: Aside,
    limits: ServiceLimits,
    log_texts: bool,
    watch: Watch,
) -> None:
    """What the model is asked; only these wait for its thread."""

    async def read(kind: type[Asked], request: Request) -> Asked:
        check_media_type(request.headers)
        body = await request.body()
        asked = await aside.run(lambda: read_request(kind, body, limits), len(body) > LARGE_BODY)
        request.state.noted |= {"texts": len(asked.all_texts)} | ({"text": asked.all_texts} if log_texts else {})
        return asked

    @app.post(
        "/v1/predict",
        response_model=PredictAnswer,
        openapi_extra=_takes(PredictRequest),
        responses=REFUSALS,
        summary="Label sets of one text or many",
    )
    async def predict(request: Request) -> Response:
        asked = await read(PredictRequest, request)
        adjusted, decoder, plain = asked_for(predictor, asked)
        _check(asked, adjusted, limits)
        work = partial(predict_texts, adjusted, decoder, asked.candidates)
        found = await batcher.submit(f"predict {asked.candidates} {asked.group}", work, asked.all_texts, limits.seconds)
        if asked.thresholds is None and asked.min_labels is None and asked.max_labels is None:
            watch.saw(found)
        write = partial(predict_answer, predictor, decoder, plain, asked, found)
        return _json(await aside.run(write, _probs(asked, predictor) > LARGE_ANSWER))

    @app.post(
        "/v1/explain",
        openapi_extra=_takes(ExplainRequest),
        responses=REFUSALS,
        summary="How the label set of one text came about",
    )
    async def explained(request: Request) -> ExplainAnswer:
        asked = await read(ExplainRequest, request)
        adjusted, decoder, _ = asked_for(predictor, asked)
        work = partial(explain_texts, adjusted, decoder, asked.candidates)
        group = f"explain {asked.candidates} {asked.group}"
        explanations: list[ExplainAnswer] = await batcher.submit(group, work, [asked.text], limits.seconds)
        return explanations[0]


def _check(asked: PredictRequest, predictor: Predictor, limits: ServiceLimits) -> None:
    if (probs := _probs(asked, predictor)) > limits.probs:
        raise Problem("invalid", f"{probs:,} probabilities are too many for an answer; send fewer texts at once.")
    if asked.candidates is not None:
        predictor.candidate_promise(asked.candidates)


def _probs(asked: PredictRequest, predictor: Predictor) -> int:
    """How many probabilities the answer holds."""
    return len(asked.all_texts) * (len(predictor.labels) if asked.probs == "all" else 1)


def _takes(kind: type[BaseModel]) -> dict[str, Any]:
    """What FastAPI would write into the OpenAPI document if it read the body itself, on the event loop."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _add_facts(app: FastAPI, described: ModelAnswer, batcher: Batcher, measures: Measures) -> None:
    content = described.model_dump_json().encode()  # once: there may be a hundred thousand labels

    @app.get(
        "/v1/model", response_model=ModelAnswer, responses=FACTS, summary="What the model is and what it can be asked"
    )
    async def model() -> Response:
        return _json(content)

    @app.get("/healthz", responses=FACTS, summary="Whether the process is alive")
    async def alive() -> HealthAnswer:
        return HealthAnswer(status="ok")

    @app.get("/readyz", responses=FACTS | {503: REFUSALS[503]}, summary="Whether new requests are welcome")
    async def ready() -> HealthAnswer:
        if batcher.stopping:
            failed = batcher.failure is not None
            raise Problem("stopping", "the model's thread failed." if failed else "the service is stopping.")
        return HealthAnswer(status="ok")

    @app.get("/metrics", responses=FACTS, response_class=PlainTextResponse, summary="Counts for Prometheus")
    async def counts() -> Response:
        return Response(measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_pages(app: FastAPI) -> None:
    """The page, and the description of the service; both need nothing from elsewhere."""
    _add_file(app, "/", "index.html", "text/html")
    _add_file(app, "/page.css", "page.css", "text/css")
    for script in ("page.js", "elements.js", "table.js"):
        _add_file(app, f"/{script}", script, "text/javascript")
    pages = Environment(loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined)

    @cache
    def page() -> str:
        return pages.get_template("docs.html.j2").render(api=app.openapi(), problems=KINDS, address=ADDRESS)

    @app.get("/docs", include_in_schema=False)
    async def documented(request: Request) -> HTMLResponse:
        host = request.headers.get("host", "")
        host = host if PLAIN_HOST.fullmatch(host) else "localhost"
        return HTMLResponse(page().replace(ADDRESS, f"{request.url.scheme}://{host}"))


def _name_choices(app: FastAPI, predictor: Predictor) -> None:
    """Puts into the OpenAPI document what only the model knows, and the refusals that are not made by FastAPI."""
    schemas = app.openapi()["components"]["schemas"]
    for request_class in (PredictRequest, ExplainRequest):
        schemas[request_class.__name__] = request_class.model_json_schema()
    schemas["ProblemAnswer"] = ProblemAnswer.model_json_schema()
    known = {"decoder": list(predictor.decoders), "optimize_for": list(predictor.trained.decisions.best)}
    for request in ("PredictRequest", "ExplainRequest"):
        for field, names in known.items():
            choice = [{"type": "string", "enum": names}] if names else []
            schemas[request]["properties"][field]["anyOf"] = [*choice, {"type": "null"}]


def _add_file(app: FastAPI, path: str, file: str, kind: str) -> None:
    content = (PAGE / file).read_bytes()

    @app.get(path, include_in_schema=False)
    async def unchanged() -> Response:
        return Response(content, media_type=kind)


def _try_out(predictor: Predictor) -> None:
    """One prediction before the first request: a model that reads no texts is refused now, and the next is fast."""
    try:
        list(predictor.predict([Example("0", text="a first text")]))
    except DataError:
        raise OrderfreeError(
            "this model was trained on features, but the service receives texts; use `orderfree predict` instead."
        ) from None
