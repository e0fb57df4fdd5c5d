"""`orderfree serve`: a model as a web service with a page."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import MissingLibraryError
from .common import RunDirectory, Settings, open_run

if TYPE_CHECKING:
    from ..config import DataConfig


def serve(
    run: RunDirectory,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 chooses a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            help="File with the token that requests must send; required for other addresses than localhost.",
        ),
    ] = None,
    max_body: Annotated[
        int, typer.Option("--max-body", min=1, help="Maximum size of a request, in bytes.")
    ] = 2_000_000,
    max_texts: Annotated[int, typer.Option("--max-texts", min=1, help="Maximum number of texts in a request.")] = 256,
    max_characters: Annotated[
        int, typer.Option("--max-characters", min=1, help="Maximum length of a text, in characters.")
    ] = 100_000,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.001, help="Maximum time for a request, in seconds.")
    ] = 30.0,
    max_queue: Annotated[int, typer.Option("--max-queue", min=1, help="Maximum number of waiting requests.")] = 64,
    batch_texts: Annotated[int, typer.Option("--batch-texts", min=1, help="Texts decoded together.")] = 64,
    batch_ms: Annotated[
        float,
        typer.Option("--batch-ms", min=0, help="Maximum milliseconds to wait for further requests of a batch."),
    ] = 20.0,
    max_connections: Annotated[
        int, typer.Option("--max-connections", min=1, help="Maximum number of open connections.")
    ] = 1000,
    examples: Annotated[
        Path | None,
        typer.Option(
            "--examples", metavar="FILE", help="File with texts for the page to offer as examples (the first five)."
        ),
    ] = None,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Also log the texts.")] = False,
    settings: Settings = None,
) -> None:
    """Serve a model: a page to try it in a browser, and a JSON interface for programs."""
    try:
        from ..serve.app import create_app
        from ..serve.schema import ServiceLimits
        from ..serve.server import address_of, listen, read_token, run_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "uvicorn", "starlette", "prometheus_client"):
            raise
        raise MissingLibraryError('the service needs: pip install "orderfree[serve]".') from None

    limits = ServiceLimits(
        max_body, max_texts, max_characters, timeout, max_queue, batch_texts, batch_ms / 1000, max_connections
    )
    token = read_token(token_file) if token_file is not None else None
    with listen(host, port, token) as listener:
        predictor, data = open_run(run, settings, None)
        texts = [] if examples is None else _first_texts(examples, data)
        app = create_app(predictor, run.resolve().name, limits, token, log_texts, texts)
        print(f"Serving {run} at {address_of(listener)} (API description: /docs). Stop with Ctrl-C.", flush=True)
        ended_well = run_server(app, listener, limits)
    if not ended_well:
        raise typer.Exit(1)  # the log has said why


EXAMPLES_SHOWN = 5


def _first_texts(path: Path, data: DataConfig) -> list[str]:
    from ..data.readers import read_examples

    first = islice(read_examples(path, data, labelled=False), EXAMPLES_SHOWN)
    return [example.text for example in first if example.text]


ALL = (serve,)
