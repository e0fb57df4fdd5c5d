"""Services to look at: the same application, listening on a free port."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from orderfree.checkpoint import TrainedModel
from orderfree.inference import Predictor
from orderfree.serve.app import create_app
from orderfree.serve.schema import ServiceLimits
from orderfree.serve.server import address_of, listen


@contextmanager
def listening(trained: TrainedModel, **options: Any) -> Iterator[str]:
    token, examples = options.pop("token", None), options.pop("examples", ())
    app = create_app(
        Predictor(trained), options.pop("name", "fish"), ServiceLimits(**options), token, examples=examples
    )
    with listen("127.0.0.1", 0, None) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield address_of(listener)
        server.should_exit = True
        thread.join()
