"""`orderfree serve` as a user runs it: a process that is asked over the network and told to stop."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from e2e_support import Cli, environment

pytest.importorskip("fastapi")


@dataclass
class Service:
    process: subprocess.Popen[str]
    url: str
    log: Path

    def post(self, *texts: str, headers: dict[str, str] | None = None) -> httpx2.Response:
        address, body = f"{self.url}/v1/predict", {"texts": texts}
        return httpx2.post(address, json=body, headers=headers, timeout=60, trust_env=False)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


@contextmanager
def serving(model: Path, log: Path, *options: object) -> Iterator[Service]:
    command = [sys.executable, "-m", "orderfree", "serve", str(model), "--port", "0", *map(str, options)]
    with open(log, "w", encoding="utf-8") as errors:
        process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        found = re.search(r"http://\S+?:\d+", first)
        assert found, first + log.read_text(encoding="utf-8")
        yield Service(process, found[0], log)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_what_was_accepted_is_answered_before_it_stops(model: Path, tmp_path: Path) -> None:
    """Three requests of many long texts; the signal comes while they are decoded or wait."""
    long = ["a secret report of wheat and ships " * 60] * 300
    options = ("--max-texts", len(long), "--max-body", 10**8)
    with serving(model, tmp_path / "log", *options) as service, ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(service.post, *long) for _ in range(3)]
        while (
            "running 4.0" not in httpx2.get(f"{service.url}/metrics", timeout=60, trust_env=False).text
        ):  # and this one
            time.sleep(0.02)
        slow, rest = half_sent(service.url)
        service.process.send_signal(signal.SIGTERM)
        assert [one.result().status_code for one in asked] == [200] * 3
        slow.sendall(rest)  # what is not whole when the signal comes is not accepted, and told so
        answer = b"".join(iter(lambda: slow.recv(4096), b"")).decode()
        slow.close()
        assert answer.startswith("HTTP/1.1 503"), answer
        assert "application/problem+json" in answer
        assert service.process.wait(60) == 0
    log = service.lines()
    assert sum(line["status"] == 200 and line["path"] == "/v1/predict" for line in log) == 3
    assert "secret" not in json.dumps(log)
    assert len({line["request_id"] for line in log}) == len(log)


def half_sent(url: str) -> tuple[socket.socket, bytes]:
    body = b'{"text": "late"}'
    host, port = url.removeprefix("http://").split(":")
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
    head = f"POST /v1/predict HTTP/1.1\r\nHost: {host}\r\n{kind}\r\n\r\n"
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.sendall(head.encode() + body[:5])
    time.sleep(0.2)  # the service has begun to read it
    return connection, body[5:]


def test_many_clients_get_what_predict_writes_and_share_batches(model: Path, process: Cli, tmp_path: Path) -> None:
    texts = ["a report of wheat and ships", "", "gold"] * 12
    source = tmp_path / "new.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    records = process("predict", model, source).worked().records()
    with serving(model, tmp_path / "log", "--batch-ms", 100) as service:
        with ThreadPoolExecutor(6) as pool:
            found = [answer.json()["predictions"][0] for answer in pool.map(service.post, texts)]
        counts = httpx2.get(f"{service.url}/metrics", trust_env=False).text
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(60) == 0
    for record, answer in zip(records, found, strict=True):
        assert record["labels"] == answer["labels"]
        assert record["log_prob"] == pytest.approx(answer["log_prob"], abs=1e-4)
    assert f"orderfree_texts_total {len(texts)}.0" in counts
    batches = re.search(r"^orderfree_batch_texts_count (\S+)", counts, re.MULTILINE)
    assert batches is not None
    assert float(batches[1]) < len(texts)


def test_a_token_opens_the_service_to_others(model: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n", encoding="utf-8")
    with serving(model, tmp_path / "log", "--host", "0.0.0.0", "--token-file", token) as service:
        service.url = service.url.replace("0.0.0.0", "127.0.0.1")
        assert service.post("wheat").status_code == 401
        assert service.post("wheat", headers={"authorization": "Bearer 0123456789abcdef"}).status_code == 200


def test_others_are_refused_without_a_token(cli: Cli, model: Path, tmp_path: Path) -> None:
    cli("serve", model, "--host", "0.0.0.0").refused("0.0.0.0", "--token-file")
    cli("serve", model, "--host", "::").refused("--token-file")
    cli("serve", model, "--host", "no.such.host.invalid").refused("no.such.host.invalid")
    cli("serve", model, "--token-file", tmp_path / "none").refused(tmp_path / "none", "No such file")
    for bad in ("short", "with a space in it", "", "ünïcödé-ünïcödé-ünïcödé"):
        (tmp_path / "token").write_text(bad, encoding="utf-8")
        cli("serve", model, "--token-file", tmp_path / "token").refused(tmp_path / "token", "token")


def test_a_port_that_is_taken_and_a_model_that_is_not_there(cli: Cli, model: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cli("serve", model, "--port", port).refused(f"port {port}", "--port")
    cli("serve", tmp_path / "none", "--port", 0).refused("no such model directory")


def test_without_the_extra_one_sentence_says_so(model: Path) -> None:
    code = "import sys; sys.modules['fastapi'] = None; from orderfree.cli.main import run; run(sys.argv[1:])"
    command = [sys.executable, "-c", code, "serve", str(model)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == 'orderfree: the service needs: pip install "orderfree[serve]".\n'
