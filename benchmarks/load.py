"""`orderfree serve` under more load than it can bear, for a long time, and told to stop in the middle of it.

    python benchmarks/load.py runs/reuters test.jsonl [--step 30] [--soak 30] [--texts-each 8]

Open loop: requests are sent when they are due, whether or not earlier ones were answered, and waiting counts from that
moment. First the capacity is measured with `CLIENTS` that ask one request after another; then each of `LOADS` times
that is offered for `--step` seconds; then 0.7 times for `--soak` minutes, while `--slow-clients` hold connections open
and memory and open files are noted, and then twice the capacity beside the same clients; last, SIGTERM comes while 1.5
times is offered. Ends with 1 if an answer was neither 200 nor a documented refusal, a refusal, an accepted request or
an answer of /healthz came too late, memory, open files or the log grew, or an accepted request was dropped.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from orderfree.checkpoint import versions
from orderfree.experiments.origin import code_commit
from serve import serving
from slow_clients import SlowClients

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = 16
LOADS = (0.25, 0.5, 0.75, 0.9, 1.0, 1.25, 1.5, 2.0)
TIMEOUT = 30.0  # seconds: of the service, for one request
SLOWEST_REFUSAL = 1.0  # seconds: a refusal waits for nothing, but this process and the service share the machine
MOST_GROWTH = 0.05  # of memory, from the first tenth of the soak to its last
MOST_LOGGED = 500  # bytes for each request and each connection
DROPPED = "no answer"


@dataclass
class Answer:
    id: str
    status: int | str  # DROPPED: the connection failed
    seconds: float  # since the request was due


@dataclass
class Load:
    """Where requests go, and what they hold. Each has a connection of its own, and is written by hand: a client library
    takes longer for a request than the service for a refusal."""

    host: str
    port: int
    bodies: Iterator[bytes]

    async def ask(self, name: str, due: float) -> Answer:
        body = next(self.bodies)
        head = (
            f"POST /v1/predict HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nX-Request-ID: {name}\r\nConnection: close\r\n\r\n"
        )
        status: int | str = DROPPED
        try:
            async with asyncio.timeout(2 * TIMEOUT):
                reader, writer = await asyncio.open_connection(self.host, self.port)
                writer.write(head.encode() + body)
                first, _, _ = (await reader.read()).partition(b"\r\n")
                writer.close()
            status = int(first.split()[1]) if first else DROPPED
        except (OSError, TimeoutError):
            pass
        return Answer(name, status, time.perf_counter() - due)

    async def offer(self, rate: float, seconds: float, name: str) -> list[Answer]:
        """`rate` requests a second, at random moments as from many independent clients."""
        chance, tasks = random.Random(name), []
        due = time.perf_counter()
        ends = due + seconds
        while (due := due + chance.expovariate(rate)) < ends:
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            tasks.append(asyncio.create_task(self.ask(f"{name}-{len(tasks)}", due)))
        return await asyncio.gather(*tasks)

    async def capacity(self, seconds: float) -> float:
        """Requests a second that are answered when there is always one waiting."""
        began = time.perf_counter()

        async def client(number: int) -> int:
            answered = 0
            while time.perf_counter() < began + seconds:
                answered += (await self.ask(f"c{number}", time.perf_counter())).status == 200
            return answered

        answered = sum(await asyncio.gather(*(client(number) for number in range(CLIENTS))))
        return answered / (time.perf_counter() - began)


def summary(answers: list[Answer], seconds: float) -> dict[str, Any]:
    good = sorted(one.seconds for one in answers if one.status == 200)
    refused = sorted(one.seconds for one in answers if one.status in (429, 503))
    return {
        "offered_per_second": round(len(answers) / seconds, 2),
        "answered_per_second": round(len(good) / seconds, 2),
        "statuses": {str(status): count for status, count in Counter(one.status for one in answers).items()},
        **{f"p{share}_ms": _percentile(good, share) for share in (50, 90, 99, 100)},
        **{f"refusals_p{share}_ms": _percentile(refused, share) for share in (50, 99)},
    }


def _percentile(values: list[float], share: int) -> float | None:
    return round(1000 * values[min(int(share / 100 * len(values)), len(values) - 1)], 1) if values else None


async def soak(load: Load, process: psutil.Process, rate: float, minutes: float) -> dict[str, Any]:
    """Memory and open files ten times, each after a tenth of the time."""
    samples, answers = [], []
    for tenth in range(10):
        answers += await load.offer(rate, 6 * minutes, f"soak{tenth}")
        samples.append({"resident_bytes": process.memory_info().rss, "open_files": process.num_fds()})
    growth = samples[-1]["resident_bytes"] / samples[0]["resident_bytes"] - 1
    return {"minutes": minutes, "samples": samples, "growth": round(growth, 4), **summary(answers, 60 * minutes)}


async def stop_under_load(
    load: Load, service: subprocess.Popen[str], rate: float, seconds: float, log: Path
) -> dict[str, Any]:
    """Every request the service has noted in its log must have had its answer; others found no open door."""
    offered = asyncio.create_task(load.offer(rate, seconds, "stop"))
    await asyncio.sleep(seconds / 2)
    began = time.perf_counter()
    service.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(service.wait)
    took, answers = time.perf_counter() - began, await offered
    noted = {json.loads(line).get("request_id") for line in log.read_text(encoding="utf-8").splitlines()}
    failed = [one.id for one in answers if one.status == DROPPED]
    return {
        "exit_code": code,
        "seconds_to_stop": round(took, 2),
        "dropped": sum(name in noted for name in failed),
        "turned_away": sum(name not in noted for name in failed),
        **summary(answers, seconds),
    }


async def measure(
    model: Path, texts: list[str], each: int, step: float, minutes: float, slow_clients: int
) -> dict[str, Any]:
    groups = (texts[start : start + each] for start in range(0, len(texts), each))
    bodies = itertools.cycle([json.dumps({"texts": group}).encode() for group in groups])
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(model, "--timeout", str(TIMEOUT), log=(log := Path(folder) / "log")) as (url, service),
    ):
        host, port = url.removeprefix("http://").split(":")
        load = Load(host, int(port), bodies)
        await load.capacity(step / 3)  # a warm-up
        capacity = await load.capacity(step)
        steps = []
        for share in LOADS:
            found = summary(await load.offer(share * capacity, step, f"at{share}"), step)
            steps.append({"load": share, **found})
            print(json.dumps(steps[-1]), flush=True)
        alone, slow = SlowClients(host, int(port)), SlowClients(host, int(port))
        async with alone.at_work(0):  # the same load without them, to compare with
            await load.offer(0.7 * capacity, 2 * step, "alone")
        logged = log.stat().st_size
        async with slow.at_work(slow_clients):
            soaked = await soak(load, psutil.Process(service.pid), 0.7 * capacity, minutes)
            overload = summary(await load.offer(2 * capacity, 2 * step, "both"), 2 * step)
        beside = {"clients": slow_clients, **slow.summary(), "log_bytes": log.stat().st_size - logged}
        beside |= {"overload": overload, "nobody_else": alone.summary()}
        stopped = await stop_under_load(load, service, 1.5 * capacity, max(step / 3, 4.0), log)
    return {
        "capacity_per_second": round(capacity, 2),
        "steps": steps,
        "soak": soaked,
        "slow_clients": beside,
        "stop": stopped,
    }


def complaints(found: dict[str, Any]) -> list[str]:
    told = []
    slow = found["slow_clients"]
    for one in [*found["steps"], found["soak"], slow["overload"]]:
        name = f"at {one['load']} times the capacity" if "load" in one else "beside slow clients"
        others = set(one["statuses"]) - {"200", "429"}
        told += [f"{name}: answers {sorted(others)}"] * bool(others)
        told += [f"{name}: an accepted request took too long"] * ((one["p100_ms"] or 0) > 1000 * (TIMEOUT + 1))
        late = (one["refusals_p99_ms"] or 0) > 1000 * SLOWEST_REFUSAL
        told += [f"{name}: one refusal in a hundred took {one['refusals_p99_ms']} ms"] * late
    if "429" not in found["steps"][-1]["statuses"]:
        told.append("nothing was refused at twice the capacity: the load did not arrive")
    late = slow["health_later_than_a_second"]
    told += [f"beside slow clients /healthz took more than a second {late} times"] * (late > 0)
    lines = sum(sum(one["statuses"].values()) for one in (found["soak"], slow["overload"]))
    lines += slow["health_checks"] + 50 * slow["connections_opened"]  # pipelined requests of those who never read
    told += ["the log grew faster than requests came"] * (slow["log_bytes"] > MOST_LOGGED * lines)
    first, last = found["soak"]["samples"][0], found["soak"]["samples"][-1]
    told += ["memory grew in the soak"] * (found["soak"]["growth"] > MOST_GROWTH)
    told += ["open files grew in the soak"] * (last["open_files"] > first["open_files"] + CLIENTS)
    told += ["accepted requests were dropped"] * (found["stop"]["dropped"] > 0)
    told += ["the service did not end with 0"] * (found["stop"]["exit_code"] != 0)
    return told


def draw(found: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (waited, shares) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    loads = [one["load"] for one in found["steps"]]
    for share in (50, 90, 99):
        waited.plot(loads, [one[f"p{share}_ms"] for one in found["steps"]], marker="o", label=f"{share} %")
    waited.set(xlabel="offered load / capacity", ylabel="ms until the answer (200)", yscale="log")
    waited.legend(title="percentile")
    for key, name in (("offered_per_second", "offered"), ("answered_per_second", "answered with 200")):
        shares.plot(loads, [one[key] for one in found["steps"]], marker="o", label=name)
    shares.set(xlabel="offered load / capacity", ylabel="requests a second", ylim=0)
    shares.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path, help="JSONL with a field `text`")
    parser.add_argument("--step", type=float, default=30.0, help="seconds at each load")
    parser.add_argument("--soak", type=float, default=30.0, help="minutes")
    parser.add_argument("--slow-clients", type=int, default=1000)
    parser.add_argument("--texts-each", type=int, default=8, help="texts of a request")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "load.json")
    parser.add_argument("--figure", type=Path, default=ROOT / "docs" / "results" / "figures" / "load.svg")
    arguments = parser.parse_args()
    commit = code_commit(Path(__file__), allow_dirty=True)
    with open(arguments.texts, encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in itertools.islice(file, 2000)]
    measured = measure(
        arguments.model, texts, arguments.texts_each, arguments.step, arguments.soak, arguments.slow_clients
    )
    found = asyncio.run(measured)
    wrong = complaints(found)
    found["machine_load"] = os.getloadavg()  # processes that wanted to run, over the last 1, 5 and 15 minutes
    settings = {"step_seconds": arguments.step, "texts_each": arguments.texts_each, "texts": len(texts)}
    result = {
        **settings,
        **found,
        "complaints": wrong,
        "commit": commit,
        "versions": versions(),
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    draw(found, arguments.figure)
    print("\n".join(wrong) or f"no complaints; capacity {found['capacity_per_second']} requests a second")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
