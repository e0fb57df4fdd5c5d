"""Kills trainings at random moments until enough kills were survived, and compares with a run that was left alone.

    python benchmarks/reliability/torture.py [--kills 50] [--seed 1] [--out benchmarks/results/torture.json]

Every run is killed (SIGKILL), resumed and killed again until it ends; then the next one starts. Half of the kills come
at a random time, half as soon as a file or state is being written aside, after a delay of up to some milliseconds. A
run must never refuse to go on, never fall back behind its last saved state, and end in the very bytes of the run that
was left alone. Says where each kill struck. Ends with 1 at the first difference.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orderfree.checkpoint import versions
from orderfree.config import DataConfig
from orderfree.data.writers import write_examples
from orderfree.experiments.origin import code_commit
from orderfree.testing.toy import toy_corpus

ROOT = Path(__file__).resolve().parents[2]
# Thirty updates, ten validations; every update is saved. The encoder is solved first, as in the default preset.
SETTINGS = (
    *("model.encoder=linear", "model.decoder_hidden=16", "model.label_embedding=8", "training.batch_size=32"),
    *("training.epochs=5", "training.validate_every=3", "training.save_minutes=0", "training.tensorboard=false"),
)
LONGEST = 12.0  # seconds until a kill that waits for the clock
LONGEST_DELAY = 0.01  # seconds into writing a file


@dataclass
class Torture:
    data: Path
    place: Path
    choice: random.Random
    struck: Counter[str] = field(default_factory=Counter)  # where kills have struck
    runs: int = 0

    def command(self, out: Path) -> list[str]:
        settings = [word for setting in SETTINGS for word in ("--set", setting)]
        return [sys.executable, "-m", "orderfree", "train", str(self.data), "--out", str(out), *settings]

    def survive(self, kills: int) -> None:
        straight = self.place / "straight"
        subprocess.run(self.command(straight), env=environment(), check=True, capture_output=True)
        expected = contents(straight)
        while self.struck.total() < kills:
            self.runs += 1
            out = self.place / f"run-{self.runs}"
            self.run_until_it_ends(out, kills)
            found = contents(out)
            differing = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
            assert not differing, f"run {self.runs} ends with another {', '.join(differing)}"

    def run_until_it_ends(self, out: Path, kills: int) -> None:
        reached = 0
        while True:
            more = ["--resume"] if (out / "training" / "run.json").exists() else []
            moment = self.some_moment(out) if self.struck.total() < kills else lambda: False
            code, said = killed([*self.command(out), *more], moment)
            if code == -signal.SIGKILL:
                self.struck[where(out)] += 1
            elif code == 0 or (code == 2 and "this run is finished" in said):
                return
            else:
                raise AssertionError(f"run {self.runs} does not go on: {said[-500:]}")
            if (out / "training").exists():
                assert newest_update(out) >= reached, "a saved state was lost"
                reached = newest_update(out)
            elif (out / "manifest.json").exists():  # struck while it tidied up: nothing is left to do but that
                more = ["--resume"]
                code, said = killed([*self.command(out), *more], lambda: False)
                assert "this run is finished" in said, said[-500:]
                return

    def some_moment(self, out: Path) -> Callable[[], bool]:
        if self.choice.random() < 0.5:
            end = time.monotonic() + self.choice.uniform(0, LONGEST)
            return lambda: time.monotonic() > end
        skipped, delay = self.choice.randrange(12), self.choice.uniform(0, LONGEST_DELAY)
        seen: set[str] = set()

        def writing() -> bool:
            seen.update(path.name for path in written_aside(out))
            if len(seen) <= skipped:
                return False
            time.sleep(delay)
            return True

        return writing


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}


def killed(command: list[str], moment: Callable[[], bool]) -> tuple[int, str]:
    """Starts a command and kills it when the moment has come; its exit code and what it said."""
    with (
        tempfile.TemporaryFile("w+") as told,
        subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=told) as started,
    ):
        while started.poll() is None and not moment():
            time.sleep(0.0005)
        started.kill()
        code = started.wait()
        told.seek(0)
        return code, told.read()


def written_aside(out: Path) -> list[Path]:
    return [*out.glob(".*.part"), *(out / "training").glob(".*.part"), *(out / "training" / "data").glob(".*.part")]


def newest_update(out: Path) -> int:
    return max((int(path.name.split("-")[1]) for path in (out / "training").glob("state-*")), default=0)


def where(out: Path) -> str:
    """What a run was doing when it was killed, from what it left."""
    parts = [path.name for path in written_aside(out) if path.name != ".replaced.part"]
    if any(name.startswith(".state-") for name in parts):
        return "writing a state"
    if parts and (out / "training" / "run.json").exists() and newest_update(out):
        return "writing the model directory or the history"
    if parts:
        return "writing the first files"
    if newest_update(out):
        return "between states"
    return "reading and solving" if (out / "training").exists() else "starting or tidying up"


def contents(out: Path) -> dict[str, Any]:
    """Every byte of a finished run; of its history everything but the seconds."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        name = str(path.relative_to(out))
        found[name] = path.read_bytes()
        if name == "history.jsonl":
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            found[name] = [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
    return found


def torture(kills: int, seed: int, place: Path) -> dict[str, Any]:
    data = place / "train.jsonl"
    write_examples(toy_corpus(seed=1, train=200, valid=1, test=1).train, data, "jsonl", DataConfig())
    tried = Torture(data, place, random.Random(seed))
    tried.survive(kills)
    return {"kills": tried.struck.total(), "runs": tried.runs, "differing_runs": 0, "struck": dict(tried.struck)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "torture.json")
    arguments = parser.parse_args()
    commit = code_commit(Path(__file__), allow_dirty=True)
    with tempfile.TemporaryDirectory() as folder:
        found = torture(arguments.kills, arguments.seed, Path(folder))
    found |= {"seed": arguments.seed, "commit": commit, "versions": versions()}
    arguments.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"{found['kills']} kills in {found['runs']} runs survived; every run ended in the same bytes")


if __name__ == "__main__":
    main()
