"""The log: one JSON object a line whatever writes it, and nothing that fills the disk by repeating itself."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

log = logging.getLogger("orderfree.serve")

LONGEST_EVENT = 500  # characters
QUIET_SECONDS = 10.0  # before the same warning is written again
MOST_KINDS = 256  # of warnings that are remembered


def place_of_error(error: BaseException) -> dict[str, Any]:
    """Type and place. The message is left out: it may quote a text."""
    return {"error": type(error).__name__, "at": traceback.format_tb(error.__traceback__)[-3:]}


class JsonLines(logging.Formatter):
    """What a request is about comes as `extra={"fields": …}`. ASCII only: standard error may have any encoding."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage().strip()[:LONGEST_EVENT],
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line |= place_of_error(record.exc_info[1])
        return json.dumps(line, default=str)


class OncePerWhile(logging.Filter):
    """Lets a warning through once in `seconds`; the next line says how many were left out. Requests always pass."""

    def __init__(self, seconds: float = QUIET_SECONDS) -> None:
        super().__init__()
        self.seconds = seconds
        self._seen: dict[
            tuple[str, int, str, object], tuple[float, int]
        ] = {}  # when it was written last, left out since

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        event = record.getMessage().partition("\n")[0][:LONGEST_EVENT]
        kind = (record.pathname, record.lineno, event, record.exc_info and record.exc_info[0])
        if len(self._seen) >= MOST_KINDS and kind not in self._seen:
            self._seen.clear()
        written, left_out = self._seen.get(kind, (-self.seconds, 0))
        now = time.monotonic()
        if now - written < self.seconds:
            self._seen[kind] = (written, left_out + 1)
            return False
        self._seen[kind] = (now, 0)
        if left_out:
            record.fields = getattr(record, "fields", {}) | {"left_out": left_out}
        return True


def log_as_json() -> None:
    """For the whole process: asyncio, uvicorn, warnings of Python, and errors that end a thread."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(OncePerWhile())
    logging.getLogger().handlers = [handler]
    logging.captureWarnings(True)
    for name, level in (("orderfree.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
        logger.setLevel(level)
    sys.excepthook = _note_error
    threading.excepthook = lambda given: _note_error(given.exc_type, given.exc_value, given.exc_traceback)
    sys.unraisablehook = lambda given: _note_error(given.exc_type, given.exc_value, given.exc_traceback)


def _note_error(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    log.error("an error nobody foresaw", exc_info=error)
