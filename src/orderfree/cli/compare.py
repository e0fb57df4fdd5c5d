"""`orderfree compare`: several runs on the same data."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import OrderfreeError
from .common import AsJson, Decode, Format, Settings, open_run, print_table, reading, say


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN…", help="Model directories; the first is compared to.")
    ],
    data: Annotated[Path, typer.Option("--data", help="Labelled examples none of them was trained on.")],
    out: Annotated[Path | None, typer.Option("--out", help="Also write a self-contained HTML page here.")] = None,
    decode: Decode = None,
    settings: Settings = None,
    format: Format = None,
    as_json: AsJson = False,
) -> None:
    """Put runs side by side on the same data, with paired tests against the first."""
    from ..tools.compare import compare as compare_runs

    if len(runs) < 2:
        raise OrderfreeError("one run alone cannot be compared; name two or more.")
    opened = {}
    for path, name in zip(runs, _names(runs), strict=True):
        opened[name], data_config = open_run(path, settings, format)
    examples = list(reading(data, data_config, labelled=True, noun="texts to compare on"))
    found = {"data": str(data), "paths": [str(run) for run in runs], **compare_runs(opened, examples, decode)}
    if found["unseen_labels"]:
        say(f"warning: {len(found['unseen_labels'])} label(s) no run has seen in training count as misses")
    if out is not None:
        from ..report.compare import write_comparison

        words = ["orderfree", "compare", *runs, "--data", data, *(["--decode", decode] if decode else []), "--out", out]
        write_comparison(out, found, shlex.join(map(str, words)))
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
        return
    print(f"{found['examples']:,} examples, {found['labels']:,} labels; decoded with {_decoders(found['decoders'])}")
    header = ("metric", *found["runs"])
    print_table(
        header, [(metric, *(_cell(own) for own in by_run.values())) for metric, by_run in found["metrics"].items()]
    )
    print("In brackets: the difference from the first, and how often chance alone would make one as large (p).")
    right = found["right"]
    alone = ", ".join(f"only {name} {number:,}" for name, number in right["alone"].items())
    print(f"Right as a whole: all runs {right['all']:,}, none {right['none']:,}, {alone}.")
    print(found["p_covers"])
    if out is not None:
        print(f"Page written to {out}")


ALL = (compare,)


def _names(runs: list[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart."""
    parts = [run.resolve().parts for run in runs]
    if len(set(parts)) < len(parts):
        raise OrderfreeError("the same run is named twice; name each once.")
    length = next(n for n in range(1, max(map(len, parts)) + 1) if len({own[-n:] for own in parts}) == len(parts))
    return ["/".join(own[-length:]) for own in parts]


def _decoders(by_run: dict[str, str]) -> str:
    if len(used := set(by_run.values())) == 1:
        return used.pop()
    return ", ".join(f"{decoder} ({name})" for name, decoder in by_run.items())


def _cell(own: dict[str, Any]) -> str:
    against = own["against_first"]
    if against is None:
        return f"{own['score']:.4f}"
    return f"{own['score']:.4f} ({against['difference']:+.4f}, p {against['p']:.3f})"
