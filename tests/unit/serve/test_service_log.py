"""The log is JSON whoever writes it, and does not repeat itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys

SCRIPT = """
import asyncio, logging, threading, warnings
from orderfree.serve.logs import log_as_json
log_as_json()
loop = asyncio.new_event_loop()
for _ in range(1000):
    loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": OSError(24, "x")})
for _ in range(3):
    logging.getLogger("orderfree.serve").info("request", extra={"fields": {"path": "/é"}})
logging.getLogger("some.library").warning("a line\\nand another")
warnings.warn("old")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise ValueError("quotes a secret")
"""


def test_every_line_is_json_and_errors_are_told_once() -> None:
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 1
    assert sum("socket.accept()" in line["event"] for line in lines) == 1
    assert [line["path"] for line in lines if line["event"] == "request"] == ["/é"] * 3
    errors = [line["error"] for line in lines if "error" in line]
    assert errors == ["OSError", "ZeroDivisionError", "ValueError"]
    assert "secret" not in done.stderr
