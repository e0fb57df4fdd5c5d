"""The routes. Each is thin: check what is asked, wait for the model's thread, answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .._version import __version__
from ..errors import DataError, OrderfreeError
from ..inference import Predictor
from ..types import Example
from .answers import asked_for, describe, explain, predict_texts, set_answer
from .batching import Batcher
from .guard import Guard
from .measures import Measures
from .problems import KINDS, Problem, answer_with_problems
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
    predictor: Predictor, name: str, limits: ServiceLimits, token: str | None = None, log_texts: bool = False
) -> FastAPI:
    """The service around one model. `name` is what it calls the model; with `token` requests must bring it."""
    _try_out(predictor)
    batcher = Batcher(limits.queue, limits.batch_texts, limits.batch_seconds)
    measures = Measures(lambda: batcher.waiting)
    batcher.seen = measures.saw_batch

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        async with batcher:
            yield

    app = FastAPI(title="orderfree", version=__version__, docs_url=None, redoc_url=None, lifespan=running)
    app.state.batcher = batcher
    app.add_middleware(Guard, limits=limits, measures=measures, token=token)
    answer_with_problems(app)
    _add_questions(app, predictor, batcher, limits, log_texts)
    _add_facts(app, describe(predictor, name, limits), batcher, measures)
    _add_pages(app)
    _name_choices(app, predictor)
    return app


def _add_questions(
    app: FastAPI, predictor: Predictor, batcher: Batcher, limits: ServiceLimits, log_texts: bool
) -> None:
    """What the model is asked; only these wait for its thread."""

    def admit(texts: list[str], request: Request) -> None:
        _check_texts(texts, limits)
        request.state.noted |= {"texts": len(texts)} | ({"text": texts} if log_texts else {})

    @app.post("/v1/predict", responses=REFUSALS, summary="Label sets of one text or many")
    async def predict(asked: PredictRequest, request: Request) -> PredictAnswer:
        adjusted, decoder, plain = asked_for(predictor, asked)
        admit(asked.all_texts, request)
        work = partial(predict_texts, adjusted, decoder)
        found = await batcher.submit("predict" + asked.group, work, asked.all_texts, limits.seconds)
        sets = [(one.label_sets[decoder], one.probs, one.truncated) for one in found]
        answers = [set_answer(predictor, *one, asked.probs, asked.alternatives) for one in sets]
        return PredictAnswer(decoder=plain, predictions=answers)

    @app.post("/v1/explain", responses=REFUSALS, summary="How the label set of one text came about")
    async def explained(asked: ExplainRequest, request: Request) -> ExplainAnswer:
        adjusted, decoder, _ = asked_for(predictor, asked)
        admit([asked.text], request)

        def work(texts: list[str]) -> list[ExplainAnswer]:
            return [explain(adjusted, decoder, text, asked.candidates) for text in texts]

        group = f"explain {asked.candidates} {asked.group}"
        answer: ExplainAnswer = (await batcher.submit(group, work, [asked.text], limits.seconds))[0]
        return answer


def _add_facts(app: FastAPI, described: ModelAnswer, batcher: Batcher, measures: Measures) -> None:
    @app.get("/v1/model", responses=FACTS, summary="What the model is and what it can be asked")
    async def model() -> ModelAnswer:
        return described

    @app.get("/healthz", responses=FACTS, summary="Whether the process is alive")
    async def alive() -> HealthAnswer:
        return HealthAnswer(status="ok")

    @app.get("/readyz", responses=FACTS | {503: REFUSALS[503]}, summary="Whether new requests are welcome")
    async def ready() -> HealthAnswer:
        if batcher.stopping:
            raise Problem("stopping", "the service is stopping.")
        return HealthAnswer(status="ok")

    @app.get("/metrics", responses=FACTS, response_class=PlainTextResponse, summary="Counts for Prometheus")
    async def counts() -> Response:
        return Response(measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_pages(app: FastAPI) -> None:
    """The page, and the description of the service; both need nothing from elsewhere."""
    _add_file(app, "/", "index.html", "text/html")
    _add_file(app, "/page.css", "page.css", "text/css")
    _add_file(app, "/page.js", "page.js", "text/javascript")
    pages = Environment(loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined)

    @app.get("/docs", include_in_schema=False)
    async def documented() -> HTMLResponse:
        return HTMLResponse(pages.get_template("docs.html.j2").render(api=app.openapi(), problems=KINDS))


def _name_choices(app: FastAPI, predictor: Predictor) -> None:
    """Puts into the OpenAPI document what only the model knows, and the refusals that are not made by FastAPI."""
    schemas = app.openapi()["components"]["schemas"]
    schemas["ProblemAnswer"] = ProblemAnswer.model_json_schema()
    known = {"decoder": list(predictor.decoders), "optimize_for": list(predictor.trained.decisions)}
    for request in ("PredictRequest", "ExplainRequest"):
        for field, names in known.items():
            choice = [{"type": "string", "enum": names}] if names else []
            schemas[request]["properties"][field]["anyOf"] = [*choice, {"type": "null"}]


def _add_file(app: FastAPI, path: str, file: str, kind: str) -> None:
    content = (PAGE / file).read_bytes()

    @app.get(path, include_in_schema=False)
    async def unchanged() -> Response:
        return Response(content, media_type=kind)


def _check_texts(texts: list[str], limits: ServiceLimits) -> None:
    if len(texts) > limits.texts:
        raise Problem("invalid", f"there are {len(texts):,} texts; a request may have {limits.texts:,}.")
    for place, text in enumerate(texts):
        if len(text) > limits.characters:
            detail = f"text {place + 1} has {len(text):,} characters; it may have {limits.characters:,}."
            raise Problem("invalid", detail)
        try:
            text.encode()
        except UnicodeEncodeError:  # JSON can spell what no text can hold
            raise Problem("invalid", f"text {place + 1} holds one half of a surrogate pair.") from None


def _try_out(predictor: Predictor) -> None:
    """One prediction before the first request: a model that reads no texts is refused now, and the next is fast."""
    try:
        list(predictor.predict([Example("0", text="a first text")]))
    except DataError:
        raise OrderfreeError(
            "this model was trained on features, and the service is sent texts; use `orderfree predict` with it."
        ) from None
