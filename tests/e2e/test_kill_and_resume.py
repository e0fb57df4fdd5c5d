"""A run that was killed and resumed, however often, ends in the very bytes of the run that was not."""

from __future__ import annotations

import functools
import json
import os
import random
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e_support import TINY_SPARSE, Cli, Ended, Toy, call_process, environment, files_below, sets
from torture import torture

from warm_processes import start

# Fourteen updates, five validations; every update is saved.
SETTINGS = sets(
    [
        *TINY_SPARSE,
        *("training.batch_size=32", "training.epochs=2", "training.validate_every=3", "training.save_minutes=0"),
    ]
)
SAME = [
    *("README.md", "config.json", "labels.json", "manifest.json", "metrics.json"),
    *("model.safetensors", "thresholds.json", "vocabulary.json"),
]


def history(out: Path) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in (out / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def assert_same(out: Path, straight: Path) -> None:
    assert files_below(out) == files_below(straight) == sorted([*SAME, "history.jsonl"])
    assert [name for name in SAME if (out / name).read_bytes() != (straight / name).read_bytes()] == []
    assert history(out) == history(straight)


@pytest.fixture(scope="module")
def arguments(toy: Toy) -> list[object]:
    return ["train", toy.train, "--valid", toy.valid, *SETTINGS]


@pytest.fixture(scope="module")
def straight(arguments: list[object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody disturbs."""
    out = tmp_path_factory.mktemp("straight") / "run"
    call_process(*arguments, "--out", out).worked()
    return out


# Ctrl-C at the first validation, from inside, so that no clock decides when it comes.
INTERRUPTED = """
import os, signal, sys
from orderfree.cli.main import run
from orderfree.training import listeners

validated = listeners.History.validated

def interrupting(self, progress, row):
    validated(self, progress, row)
    os.kill(os.getpid(), signal.{signal})

listeners.History.validated = interrupting
run(sys.argv[1:])
"""


def interrupted(arguments: list[object], out: Path, name: str = "SIGINT") -> Ended:
    return call_process(*arguments, "--out", out, program=INTERRUPTED.format(signal=name))


@pytest.fixture(scope="module")
def stopped(arguments: list[object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped at its third update."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    assert interrupted(arguments, out).code == 130
    return out


def newest_update(out: Path) -> int:
    return max((int(path.name.split("-")[1]) for path in (out / "training").glob("state-*")), default=0)


def killed(command: list[object], moment: Callable[[], bool]) -> int:
    """Starts a command and kills it when the moment has come; its exit code (0 where it was faster)."""
    started = start(command, environment())
    while started.is_alive() and not moment():
        time.sleep(0.002)
    started.kill()
    started.join()
    return int(started.exitcode or 0)


def finish(arguments: list[object], out: Path) -> Ended:
    """Goes on with whatever is there, as a user would who reads the messages."""
    ended = call_process(*arguments, "--out", out, "--resume")
    if ended.code == 2 and "no unfinished run" in ended.err:
        ended = call_process(*arguments, "--out", out)
    if ended.code == 2 and "this run is finished" in ended.err:
        return Ended(0, ended.out, ended.err)
    return ended.worked()


def test_same_seed_same_bytes_other_seed_other_bytes(
    cli: Cli, arguments: list[object], straight: Path, tmp_path: Path
) -> None:
    """In another process and to another place."""
    cli(*arguments, "--out", tmp_path / "same").worked()
    assert_same(tmp_path / "same", straight)
    cli(*arguments, "--out", tmp_path / "other", "--set", "seed=2").worked()
    for name in ("model.safetensors", "metrics.json"):
        assert (tmp_path / "other" / name).read_bytes() != (straight / name).read_bytes()


def test_balanced_batches_are_taken_up_where_they_were(arguments: list[object], straight: Path, tmp_path: Path) -> None:
    balanced = [*arguments, "--set", "training.balanced=true"]
    call_process(*balanced, "--out", tmp_path / "straight").worked()
    assert interrupted(balanced, tmp_path / "cut").code == 130
    finish(balanced, tmp_path / "cut")
    assert_same(tmp_path / "cut", tmp_path / "straight")
    assert history(tmp_path / "cut") != history(straight), "other batches than without"


def test_killed_again_and_again_at_chosen_updates(arguments: list[object], straight: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    more: list[object] = []
    reached = [0]
    for update in (1, 5, 10):
        killed([*arguments, "--out", out, *more], lambda update=update: newest_update(out) >= update)  # type: ignore[misc]
        more = ["--resume"]
        reached.append(newest_update(out) if (out / "training").exists() else 14)
        assert reached[-1] >= reached[-2]
    finish(arguments, out)
    assert_same(out, straight)


def test_killed_at_any_time(tmp_path: Path) -> None:
    """The moments differ from run to run of the tests; the outcome must not. `make torture` does this fifty times."""
    found = torture(kills=3, seed=random.randrange(1000), place=tmp_path)
    assert found["kills"] == 3
    assert found["differing_runs"] == 0


def test_killed_at_every_kind_of_moment(toy: Toy, tmp_path: Path) -> None:
    """Every moment at which the disk changes would be ~100 runs; every seventh meets each kind of it."""
    settings = sets([*TINY_SPARSE, "training.max_updates=2", "training.validate_every=1", "training.save_minutes=0"])
    stride = os.environ.get("ORDERFREE_KILL_STRIDE", "7")
    command = [sys.executable, str(Path(__file__).with_name("kill_points.py")), str(toy.train), str(tmp_path), stride]
    done = subprocess.run([*command, *settings], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == {}
    assert found["moments"] > 30


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupted_and_told_how_to_go_on(arguments: list[object], straight: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "a place with blanks" / "run"
    ended = interrupted([*arguments, "--set", "training.save_minutes=60"], out, name)
    assert ended.code == 130, ended.err
    assert "Traceback" not in ended.err
    message = ended.err.splitlines()[-1]
    assert message.startswith("orderfree: stopped at update 3 of 14; saved. Continue with: "), message
    assert newest_update(out) == 3
    command = message.split("Continue with: ")[1]
    assert shlex.split(command)[-1] == "--resume"
    if name == "SIGTERM":  # the command is the same, and one is enough
        return
    done = subprocess.run(command, shell=True, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert files_below(out) == files_below(straight)
    for same in ("model.safetensors", "thresholds.json", "metrics.json", "labels.json", "vocabulary.json"):
        assert (out / same).read_bytes() == (straight / same).read_bytes()
    assert history(out) == history(straight)


def limited(size: int) -> Callable[[], None]:
    """No file may grow beyond this size, as on a disk that is full."""
    limits = (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    return functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, limits)


def test_no_space_for_a_state(arguments: list[object], straight: Path, stopped: Path, tmp_path: Path) -> None:
    """Files that cannot grow: the next state does not fit, the last one stays and is gone on from."""
    out = Path(shutil.copytree(stopped, tmp_path / "run"))
    *_, state = sorted((out / "training").glob("state-*"))
    before = {path.name: path.read_bytes() for path in state.iterdir()}
    encoded = max(path.stat().st_size for path in (out / "training" / "data").iterdir())
    limit = (state / "optimizer.safetensors").stat().st_size - 1
    assert encoded < limit, "the corpus itself must still fit"
    ended = call_process(*arguments, "--out", out, "--resume", prepare=limited(limit))
    ended.refused(out, "no space left", "is kept", "free some space", code=1)
    assert {path.name: path.read_bytes() for path in state.iterdir()} == before
    assert [name for name in files_below(out) if name.endswith(".part")] == []
    finish(arguments, out)
    assert_same(out, straight)


FULL_DISK = """
set -e
mount -t tmpfs -o size="$SIZE" tmpfs "$DISK"
code=0
"$@" --out "$DISK/run" 2> "$TOLD" || code=$?
ls -A "$DISK/run" "$DISK/run/training" > "$LEFT"
mount -o remount,size=64m "$DISK"
"$@" --out "$DISK/run" --resume 2>> "$TOLD.resumed"
cp -r "$DISK/run" "$KEPT"
exit $code
"""


def can_mount() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="only root can make a small disk")
def test_a_disk_that_is_really_full(arguments: list[object], straight: Path, stopped: Path, tmp_path: Path) -> None:
    """A disk of its own, seen by these processes alone, on which one state fits but not two."""
    *_, state = sorted((stopped / "training").glob("state-*"))
    pages = sum(-(-path.stat().st_size // 4096) + 1 for path in state.iterdir())
    data = sum(-(-path.stat().st_size // 4096) + 1 for path in (stopped / "training" / "data").iterdir())
    places = {name: str(tmp_path / name.lower()) for name in ("DISK", "TOLD", "LEFT", "KEPT")}
    Path(places["DISK"]).mkdir()
    words = [sys.executable, "-m", "orderfree", *map(str, arguments)]
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "sh", "-c", FULL_DISK, "sh", *words],
        env={**environment(), **places, "SIZE": str(4096 * (data + pages + pages // 2 + 10))},
        capture_output=True,
        text=True,
        timeout=180,
    )
    told = Path(places["TOLD"]).read_text(encoding="utf-8")
    Ended(done.returncode, done.stdout, told).refused("no space left", "is kept", code=1)
    left = Path(places["LEFT"]).read_text(encoding="utf-8")
    assert "state-" in left
    assert ".part" not in left
    assert_same(Path(places["KEPT"]), straight)
