"""The service under load: errors, memory, and what batching gains over one request at a time, in one run.

    python benchmarks/serve.py runs/reuters texts.jsonl [--seconds 60] [--out benchmarks/results/serve.json]

`orderfree serve` runs in a process of its own. After a warm-up, one client asks one request after another; then
CLIENTS ask at the same time. The same is done with a service that puts nothing together (--batch-texts 1), so that
the gain of batching is told apart from that of two cores. Memory is the service's resident memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil

from orderfree.checkpoint import versions

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = 4
WARM_UP = 10.0
LEAST_GAIN, MOST_GROWTH = 2.0, 0.05


@contextmanager
def serving(model: Path, *options: str, log: Path | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The service in a process of its own, and its address; what it logs goes to a file, or nowhere."""
    command = [sys.executable, "-m", "orderfree", "serve", str(model), "--port", "0", *options]
    with open(log or os.devnull, "w", encoding="utf-8") as errors:
        service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert service.stdout is not None
        found = re.search(r"http://\S+?:\d+", service.stdout.readline())
        assert found, "the service did not start"
        yield found[0], service
    finally:
        service.terminate()
        service.wait()


def ask(url: str, process: psutil.Process, texts: list[str], clients: int, seconds: float) -> dict[str, float]:
    """Every client asks for one text after another until the time is over. The processor time of the service for each
    request is told as well: it does not depend on what else the machine does."""
    answered, errors, waited = [0] * clients, [0] * clients, [[] for _ in range(clients)]
    ends = time.perf_counter() + seconds

    def client(number: int) -> None:
        own = itertools.cycle(texts[number::clients])
        with httpx2.Client(base_url=url, timeout=60, trust_env=False) as session:
            while time.perf_counter() < ends:
                began = time.perf_counter()
                try:
                    good = session.post("/v1/predict", json={"text": next(own)}).status_code == 200
                except httpx2.HTTPError:
                    good = False
                answered[number] += good
                errors[number] += not good
                waited[number].append(time.perf_counter() - began)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    began, used = time.perf_counter(), sum(process.cpu_times()[:2])
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = sum(process.cpu_times()[:2]) - used
    taken = sorted(itertools.chain.from_iterable(waited))
    return {
        "requests": sum(answered),
        "errors": sum(errors),
        "per_second": round(sum(answered) / (time.perf_counter() - began), 1),
        "median_ms": round(1000 * taken[len(taken) // 2], 1),
        "p99_ms": round(1000 * taken[int(0.99 * len(taken))], 1),
        "processor_ms": round(1000 * used / max(sum(answered), 1), 2),
    }


def measure(model: Path, texts: list[str], seconds: float) -> dict[str, Any]:
    short = seconds / 3
    with serving(model, "--batch-texts", "1") as (url, service):
        process = psutil.Process(service.pid)
        ask(url, process, texts, CLIENTS, WARM_UP / 2)
        unbatched = ask(url, process, texts, CLIENTS, short)
    with serving(model) as (url, service):
        process = psutil.Process(service.pid)
        ask(url, process, texts, CLIENTS, WARM_UP)
        alone = ask(url, process, texts, 1, short)
        before = process.memory_info().rss
        together = ask(url, process, texts, CLIENTS, seconds)
        after = process.memory_info().rss
    return {
        "one_at_a_time": alone,
        "four_clients": together,
        "four_clients_without_batching": unbatched,
        "gain": round(together["per_second"] / alone["per_second"], 2),
        "gain_over_no_batching": round(together["per_second"] / unbatched["per_second"], 2),
        "gain_in_processor_time": round(alone["processor_ms"] / together["processor_ms"], 2),
        "resident_bytes": {"before": before, "after": after, "growth": round(after / before - 1, 4)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path, help="JSONL with a field `text`")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "serve.json")
    arguments = parser.parse_args()
    with open(arguments.texts, encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in itertools.islice(file, 2000)]
    found = measure(arguments.model, texts, arguments.seconds)
    result = {"clients": CLIENTS, "seconds": arguments.seconds, "texts": len(texts), **found, "versions": versions()}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    errors = sum(found[key]["errors"] for key in ("one_at_a_time", "four_clients", "four_clients_without_batching"))
    growth = found["resident_bytes"]["growth"]
    print(f"{errors} errors, memory {growth:+.1%}, {found['gain']} times the throughput of one request at a time")
    sys.exit(0 if not errors and abs(growth) <= MOST_GROWTH and found["gain"] >= LEAST_GAIN else 1)


if __name__ == "__main__":
    main()
