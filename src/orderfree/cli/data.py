"""`orderfree data`: the paper's corpora, listed, counted, and written as files that `orderfree train` reads."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import OrderfreeError
from .common import AsJson, print_table

if TYPE_CHECKING:
    pass

data_app = typer.Typer(help="List, describe and prepare the paper's corpora.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="CORPUS", help="A name from `orderfree data list`.")]
DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder of the corpora; else ORDERFREE_DATA, else ../shared/data.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of what is chosen at random.")]

COLUMNS = ("documents", "labels", "words_per_sample", "labels_per_sample", "label_sets", "unseen_label_sets")


@data_app.command("list")
def list_corpora(as_json: AsJson = False) -> None:
    """List the corpora, whether scores on them compare with the paper's, and where to get them."""
    from ..data.corpora import corpora

    infos = [corpora[name].info for name in corpora.names()]
    if as_json:
        print(json.dumps([dataclasses.asdict(info) for info in infos], ensure_ascii=False))
        return
    print_table(
        ("corpus", "what it is", "comparable"),
        [(info.name, info.title, info.comparable) for info in infos],
    )
    for note in dict.fromkeys(info.source_note for info in infos):  # corpora of the same files share theirs
        print(f"\n{note}")


@data_app.command()
def prepare(
    name: Name,
    out: Annotated[Path, typer.Option("--out", help="Folder to write to; must not exist.")],
    data: DataFolder = None,
    seed: Seed = 1,
    limit_train: Annotated[
        int | None, typer.Option("--limit-train", min=1, help="Keep this many training documents, chosen at random.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write train, valid and test (and more test parts, where there are any): texts as .jsonl.gz, features as .npz."""
    from ..config import DataConfig
    from ..data.corpora import data_root, load_parts
    from ..data.corpora.catalogue import limited
    from ..data.writers import natural_file, write_examples
    from ..system.files import writing_directory

    if out.exists():
        raise OrderfreeError(f"{out}: already exists; name a new folder.")
    parts = load_parts(name, data_root(data), seed)
    if limit_train is not None:
        parts["train"] = limited(parts["train"], limit_train, seed)
    suffix, format = natural_file(next(parts["train"]()))
    sizes: dict[str, int] = {}
    with writing_directory(out) as aside:
        aside.chmod(0o755)  # as a folder made by hand
        for part, read in parts.items():
            examples = list(read())
            write_examples(examples, aside / f"{part}{suffix}", format, DataConfig())
            sizes[str(out / f"{part}{suffix}")] = len(examples)
    if as_json:
        print(json.dumps(sizes))
        return
    for path, size in sizes.items():
        print(f"{path}: {size:,} examples")


@data_app.command()
def describe(name: Name, data: DataFolder = None, seed: Seed = 1, as_json: AsJson = False) -> None:
    """Count a corpus as the paper's table of datasets does, beside what the paper printed."""
    from ..data.corpora import corpora, data_root, load_parts
    from ..data.corpora.statistics import count_parts, notes

    info = corpora[name].info
    found = count_parts(load_parts(name, data_root(data), seed))
    remarks = notes(info, found)
    if as_json:
        counted = {part: dataclasses.asdict(statistics) for part, statistics in found.items()}
        content = {"name": name, "title": info.title, "comparable": info.comparable, "seed": seed, "parts": counted}
        print(json.dumps({**content, "printed": info.printed, "notes": remarks}, ensure_ascii=False))
        return
    print(info.title)
    rows = [
        (part, *(_shown(getattr(statistics, column)) for column in COLUMNS), _shown(statistics.unseen_documents))
        for part, statistics in found.items()
    ]
    print_table(("part", *(column.replace("_", " ") for column in COLUMNS), "documents with these"), rows)
    if info.printed:
        ours: dict[str, Any] = {part: found[part].documents for part in ("train", "valid", "test")}
        ours |= dataclasses.asdict(found["all"])
        print("\nThe paper's table of datasets")
        print_table(
            ("", *(key.replace("_", " ") for key in info.printed)),
            [("paper", *map(_shown, info.printed.values())), ("here", *(_shown(ours[key]) for key in info.printed))],
        )
    print("\n" + "\n".join(remarks))


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
