"""orderfree beside what a user would pick instead: quality, time, memory and size, on the same data.

    python benchmarks/quality/run.py [--corpora reuters aapd rcv1-subset] [--systems svm fast …] [--seeds 1 2 3]
                                     [--threads 1] [--budget MINUTES] [--redo] [--data FOLDER]

`systems.py` lists the systems; any preset is one. A cell (corpus, system, seed) runs in a process of its own and is
written to benchmarks/quality/results/<corpus>/<system>/seed<k>.json as soon as it is there; cells that are there are
skipped, so a run can be stopped at any time and go on later. Presets are run with every seed; the others hardly depend
on one and are run with seed 1. Paired tests of presets against SVMs go to results/<corpus>/paired.json.
`table.py` makes docs/results/quality.md of all that.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judge import Sets, first_labels, judged, load_sets
from layout import CORPORA, HERE, MANY_LABELS, METRICS, RESULTS, SYSTEMS, WORK, Cell
from systems import is_ours, opponents, refusal

from orderfree.experiments.origin import PACKAGE
from orderfree.metrics.resampling import paired
from orderfree.system.files import write_json

WITHOUT_SENTENCES = ("rcv1-subset",)  # numbers of terms


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def plan(arguments: argparse.Namespace) -> list[Cell]:
    """All first seeds before any second one: whatever the budget, there is something to compare."""
    cells = []
    for corpus in arguments.corpora:
        for system in arguments.systems:
            if reason := refusal(system, corpus not in WITHOUT_SENTENCES, corpus in MANY_LABELS):
                say(f"{corpus} {system}: left out, {reason}")
                continue
            seeds = arguments.seeds if is_ours(system) else [seed for seed in arguments.seeds if seed == 1]
            cells += [Cell(corpus, system, seed, arguments.results, arguments.work) for seed in seeds]
    return sorted(cells, key=lambda cell: arguments.seeds.index(cell.seed))


def run_cell(cell: Cell, threads: int, data: Path | None) -> None:
    """Measures in another process, unless only the verdict is missing; then judges."""
    if not cell.measured.exists():
        command = [sys.executable, str(HERE / "cell.py"), cell.corpus, cell.system, str(cell.seed)]
        command += ["--work", str(cell.work), "--threads", str(threads)]
        command += ["--data", str(data)] if data is not None else []
        variables = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        cache = cell.work / cell.corpus / "embeddings"  # made once for all cells of a corpus; they say who made them
        run_patiently(command, {**os.environ, **variables, "ORDERFREE_CACHE": str(cache)})
    write_json(cell.result, verdict(cell))


def run_patiently(command: list[str], variables: dict[str, str]) -> None:
    """Runs to the end of the process also after Ctrl-C, which it was told as well: it may have something to save."""
    stopped = False
    with subprocess.Popen(command, env=variables) as process:
        while process.poll() is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                stopped = True
    if stopped:
        sys.exit(130)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def verdict(cell: Cell) -> dict[str, Any]:
    measured = json.loads(cell.measured.read_text(encoding="utf-8"))
    unseen, plain = measured.pop("unseen_labels"), measured.pop("plain")
    arguments = f"--corpora {cell.corpus} --systems {cell.system} --seeds {cell.seed} --threads {measured['threads']}"
    return {
        "corpus": cell.corpus,
        "system": cell.system,
        "seed": cell.seed,
        "parts": {part: {**judged_part(cell, part, plain), "unseen_labels": unseen[part]} for part in unseen},
        **measured,
        "commit": commit(),
        "command": f"python benchmarks/quality/run.py {arguments}",
    }


def judged_part(cell: Cell, part: str, plain: Sequence[str]) -> dict[str, Any]:
    targets, predictions = load_part(cell, part, plain)
    ranking = cell.ranking(part)
    return judged(targets, predictions) | ({"at_k": first_labels(targets, ranking)} if ranking.exists() else {})


def load_part(cell: Cell, part: str, plain: Sequence[str] = ()) -> tuple[Sets, dict[str, Sets]]:
    """What is true, and what is predicted by the choice for each metric, and by others."""
    return load_sets(cell.targets(part)), {name: load_sets(cell.sets(part, name)) for name in (*METRICS, *plain)}


def commit() -> str:
    """Of this code, marked where code was changed since; empty outside a checkout. Results are no code."""
    head = git("rev-parse", "HEAD").strip()
    code = [str(PACKAGE), str(HERE), f":(exclude){RESULTS}"]
    return head + "-dirty" if head and git("status", "--porcelain", "--", *code) else head


def git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def compare(corpus: str, results: Path, work: Path) -> list[dict[str, Any]]:
    """Paired tests of every preset against its opponents, as far as their predictions are there."""
    found = []
    for system in sorted(path.name for path in (results / corpus).iterdir() if path.is_dir()):
        ours = finished(corpus, system, results, work)
        for opponent in opponents(system) if is_ours(system) else ():
            theirs = finished(corpus, opponent, results, work)
            if ours and theirs:
                parts = json.loads(theirs[0].result.read_text(encoding="utf-8"))["parts"]
                found += [compare_part(ours, theirs[0], part) for part in parts]
    return found


def with_earlier(
    tests: list[dict[str, Any]], path: Path, corpus: str, results: Path, work: Path
) -> list[dict[str, Any]]:
    """These tests, and of those made before what cannot be made again here: of presets whose predictions are gone with
    an earlier work folder, while their result files stand as they were."""
    earlier = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [test for test in earlier if not finished(corpus, test["ours"], results, work)]
    return sorted([*tests, *kept], key=lambda test: (test["ours"], test["theirs"], test["part"]))


def finished(corpus: str, system: str, results: Path, work: Path) -> list[Cell]:
    seeds = sorted(int(path.stem.removeprefix("seed")) for path in (results / corpus / system).glob("seed*.json"))
    cells = [Cell(corpus, system, seed, results, work) for seed in seeds]
    return [cell for cell in cells if cell.measured.exists()]


def compare_part(ours: list[Cell], theirs: Cell, part: str) -> dict[str, Any]:
    targets, their_sets = load_part(theirs, part)
    our_sets = []
    for cell in ours:
        own_targets, sets = load_part(cell, part)
        if own_targets.shape != targets.shape or (own_targets != targets).nnz:
            raise SystemExit(f"{cell} and {theirs} have different test examples; run them again with --redo.")
        our_sets.append(sets)
    return {
        "ours": ours[0].system,
        "seeds": [cell.seed for cell in ours],
        "theirs": theirs.system,
        "part": part,
        "metrics": {m: paired(m, targets, [s[m] for s in our_sets], their_sets[m]) for m in METRICS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    corpora = [name for name in CORPORA if name != "toy"]
    parser.add_argument("--corpora", nargs="+", default=corpora, choices=CORPORA, help="default: all but toy")
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), help="names as in systems.py, or any preset")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, metavar="MINUTES", help="start no further cell after this time")
    parser.add_argument("--redo", action="store_true", help="run cells again that are there")
    parser.add_argument("--data", type=Path, help="the folder of corpora, as of `orderfree data`")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, default=WORK)
    arguments = parser.parse_args()
    began, failed = time.monotonic(), []
    for cell in plan(arguments):
        if cell.result.exists() and not arguments.redo:
            say(f"{cell}: done before")
            continue
        if arguments.budget is not None and time.monotonic() - began > 60 * arguments.budget:
            say(f"{cell}: left for next time, the budget is used up")
            continue
        if arguments.redo:
            shutil.rmtree(cell.folder, ignore_errors=True)
        say(f"{cell}: begins")
        try:
            run_cell(cell, arguments.threads, arguments.data)
            say(f"{cell}: written to {cell.result.parent.name}/{cell.result.name}")
        except subprocess.CalledProcessError as error:
            say(f"{cell}: failed (exit {error.returncode}); going on with the others")
            failed.append(str(cell))
    for corpus in arguments.corpora:
        if (arguments.results / corpus).is_dir() and (tests := compare(corpus, arguments.results, arguments.work)):
            path = arguments.results / corpus / "paired.json"
            write_json(path, with_earlier(tests, path, corpus, arguments.results, arguments.work))
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
