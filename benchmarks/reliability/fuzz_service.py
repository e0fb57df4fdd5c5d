"""Asks a running service what schemathesis makes up from its OpenAPI document, valid requests and broken ones.

    python benchmarks/reliability/fuzz_service.py [--examples 1000] [--seed 1] [--out FILE]

No answer may be a server error, undocumented, of another schema than documented, or later than `SECONDS`. Two models
are asked: one that generates labels and a linear one. What fits the schema may still be refused with 422, as with
thresholds for a decoder that has none, so that the check `positive_data_acceptance` is left out. Then each service gets
`--heavy` requests of up to 2 MB that are made up to cost much (`heavy_requests.py`).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from fuzz_models import make_models
from heavy_requests import ask_heavily

from orderfree.checkpoint import versions
from orderfree.experiments.origin import code_commit

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 30  # for one answer, on a busy machine: a hang is told from a wait
ASKED = ("bilstm", "linear")


@contextmanager
def serving(model: Path) -> Iterator[tuple[str, psutil.Process]]:
    command = [sys.executable, "-m", "orderfree", "serve", str(model), "--port", "0", "--timeout", str(SECONDS)]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert service.stdout is not None
        found = re.search(r"http://\S+?:\d+", service.stdout.readline())
        assert found, "the service did not start"
        yield found[0], psutil.Process(service.pid)
    finally:
        service.terminate()
        service.wait(2 * SECONDS)


def fuzz(model: Path, examples: int, seed: int, place: Path, heavy: int) -> dict[str, Any]:
    """The report of schemathesis on one service, what it printed, and what became of heavy requests."""
    report = place / f"{model.name}.json"
    options = {
        "--max-examples": examples,
        "--seed": seed,
        "--request-timeout": SECONDS,
        "--exclude-checks": "positive_data_acceptance",
        "--generation-database": "none",
        "--report-json-path": report,
    }
    with serving(model) as (url, process):
        command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{url}/openapi.json", "--no-color"]
        command += [str(word) for option in options.items() for word in option]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        asked = ask_heavily(url, process, heavy, seed)
    found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    return {"model": model.name, "code": done.returncode, "printed": done.stdout + done.stderr, "heavy": asked, **found}


def accepted(found: dict[str, Any]) -> int:
    """Requests that reached the model."""
    asked = (found["valid_rates"][f"POST /v1/{name}"] for name in ("predict", "explain"))
    return sum(phase["accepted"] for phases in asked for phase in phases.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=1000, help="for each address")
    parser.add_argument("--heavy", type=int, default=200, help="large requests to each service")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "fuzz_service.json")
    arguments = parser.parse_args()
    commit = code_commit(Path(__file__), allow_dirty=True)
    with tempfile.TemporaryDirectory() as folder:
        models = make_models(Path(folder))
        found = [
            fuzz(models[kind], arguments.examples, arguments.seed, Path(folder), arguments.heavy) for kind in ASKED
        ]
    kept = {
        one["model"]: {"requests": one["test_cases"]["generated"], "accepted": accepted(one)}
        | {"failures": one["failures"], "errors": one["errors"], "heavy": one["heavy"]}
        for one in found
    }
    result = {
        "seed": arguments.seed,
        "services": kept,
        "commit": commit,
        "versions": versions(),
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    wrong = [one for one in found if one["code"] != 0 or one["heavy"]["wrong"]]
    print("".join(one["printed"] + str(one["heavy"]["wrong"]) for one in wrong) or json.dumps(kept, indent=2))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
