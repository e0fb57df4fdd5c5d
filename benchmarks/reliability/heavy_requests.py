"""Requests made up to cost a service much: large bodies of repeated parts, right and wrong. Each costs little processor
time and gets a short answer, and the service answers others meanwhile."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

import httpx2
import psutil

LARGEST_BODY = 2_000_000  # bytes
LONGEST_REFUSAL = 16_000  # bytes; answers to valid requests have limits of their own
PROCESSOR_SECONDS = 3.0  # of the service, for one request; a valid one holds few and short texts
HEALTH_SECONDS = 20.0  # on a busy machine; on a quiet one it takes milliseconds
FIELDS = ("text", "texts", "decoder", "optimize_for", "thresholds", "min_labels", "max_labels", "probs", "candidates")


def heavy_body(choice: random.Random) -> bytes:
    """An object with one field of up to `LARGEST_BODY` bytes, and perhaps some small ones."""
    large = choice.choice((*FIELDS, "surprise"))
    fields = [f"{json.dumps(name)}: {_small(choice)}" for name in choice.sample(FIELDS, choice.randrange(3))]
    size = int(10 ** choice.uniform(3, 6.2))
    return ("{" + ", ".join([*fields, f'"{large}": {_large(choice, size)}']) + "}").encode()[:LARGEST_BODY]


def _small(choice: random.Random) -> str:
    return choice.choice(
        ('"red fish"', '["red"]', '"br"', "1", "null", "0.5", '{"a": 0.5}', "[]", "1e999", '"\\ud800"')
    )


def _large(choice: random.Random, size: int) -> str:
    part = _small(choice)
    kind = choice.choice(("list", "object", "string", "depth", "number", "key"))
    if kind == "list":
        return "[" + ",".join([part] * (size // (len(part) + 1) + 1)) + "]"
    if kind == "object":
        return "{" + ",".join(f'"k{number}":{part}' for number in range(size // (len(part) + 10) + 1)) + "}"
    if kind == "string":
        return json.dumps("x" * size)
    if kind == "depth":
        return "[" * (size // 2) + "]" * (size // 2)
    if kind == "key":
        return json.dumps({"k" * size: 1})
    return "9" * size


def ask_heavily(url: str, process: psutil.Process, cases: int, seed: int) -> dict[str, Any]:
    """What the service makes of so many requests, and everything that must not be."""
    wrong: list[str] = []
    waits: list[float] = []
    over = threading.Event()
    statuses: dict[int, int] = {}

    def check() -> None:
        while not over.wait(0.2):
            began = time.perf_counter()
            try:
                good = httpx2.get(f"{url}/healthz", timeout=HEALTH_SECONDS, trust_env=False).status_code == 200
            except httpx2.HTTPError:
                good = False
            waits.append(time.perf_counter() - began)
            if not good:
                wrong.append(f"/healthz gave no answer for {HEALTH_SECONDS:g} seconds")

    checking = threading.Thread(target=check)
    checking.start()
    dearest, longest = 0.0, 0
    for case in range(cases):
        body = heavy_body(random.Random(f"{seed} {case}"))
        before = sum(process.cpu_times()[:2])
        headers = {"content-type": "application/json"}
        answer = httpx2.post(f"{url}/v1/predict", content=body, headers=headers, timeout=120, trust_env=False)
        took = sum(process.cpu_times()[:2]) - before
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        dearest, longest = max(dearest, took), max(longest, len(answer.content))
        if answer.status_code >= 500:
            wrong.append(f"case {case}: {answer.status_code}")
        if answer.status_code != 200 and len(answer.content) > LONGEST_REFUSAL:
            wrong.append(f"case {case}: a refusal of {len(answer.content):,} bytes")
        if answer.status_code != 200 and took > PROCESSOR_SECONDS:
            wrong.append(f"case {case}: a refusal took {took:.1f} seconds of the processor")
    over.set()
    checking.join()
    return {
        "requests": cases,
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "dearest_processor_seconds": round(dearest, 2),
        "longest_answer_bytes": longest,
        "health_checks": len(waits),
        "slowest_health_ms": round(1000 * max(waits, default=0.0), 1),
        "wrong": wrong,
    }
