"""From the built wheel to a served prediction: the five commands of the README, as they stand there, in a virtual
environment that has nothing else.

    make wheel        # builds dist/orderfree-*.whl, then: python benchmarks/five_commands.py dist/orderfree-*.whl

torch is installed first, at the version of constraints.txt; everything else is what pip chooses for the wheel. The
answer of the service and the seconds of each command are written to benchmarks/results/five_commands.json.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "five_commands.json"
BLOCK = re.compile(r"^## Five commands.*?^```bash\n(?P<commands>.*?)^```", re.DOTALL | re.MULTILINE)


def five_commands() -> list[str]:
    found = BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None, "README.md has no bash block under '## Five commands'"
    commands = [line for line in found["commands"].replace("\\\n", " ").splitlines() if not line.startswith("#")]
    assert len(commands) == 5, commands
    return commands


def clean_environment(directory: Path) -> dict[str, str]:
    """Variables of a shell in which a new virtual environment with torch is active."""
    venv.create(directory, with_pip=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment = {**kept, "PATH": f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(
        ["bash", "-c", f"pip install --quiet -c '{ROOT / 'constraints.txt'}' torch"], env=environment, check=True
    )
    return environment


def main(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        (work / "dist").mkdir()
        shutil.copy(wheel, work / "dist")
        environment = clean_environment(work / "clean")
        *before, serve, ask = five_commands()
        seconds: dict[str, float] = {}

        def run(command: str) -> str:
            print(f"$ {command}", flush=True)
            began = time.monotonic()
            done = subprocess.run(["bash", "-c", command], cwd=work, env=environment, stdout=subprocess.PIPE, text=True)
            seconds[command] = round(time.monotonic() - began, 1)
            if done.returncode:
                sys.exit(f"{command}: ended with code {done.returncode}")
            return done.stdout

        for command in before:
            run(command)
        print(f"$ {serve}", flush=True)
        service = subprocess.Popen(
            ["bash", "-c", f"exec {serve}"], cwd=work, env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            assert service.stdout is not None
            print(service.stdout.readline(), end="")
            answer = json.loads(run(ask))
            installed = json.loads(run("pip list --format json"))
        finally:
            service.terminate()
            service.wait()
    seconds.popitem()  # pip list is none of the five
    print(json.dumps(answer, indent=2))
    assert answer["predictions"][0]["labels"], "the service found no label"
    versions = {package["name"]: package["version"] for package in installed}
    result = {
        "wheel": wheel.name,
        "python": platform.python_version(),
        "seconds": seconds,
        "answer": answer,
        "installed": versions,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
