"""Damages small model directories in many ways and loads them: a clear refusal or the same predictions, nothing else.

    python benchmarks/reliability/fuzz_models.py [--cases 10000] [--seed 1] [--out benchmarks/results/fuzz_models.json]

Half of the cases are accidents: bits flip, files are cut, swapped, taken from another model. The checksums must notice.
The other half is malice: files are damaged in the same ways, their JSON rewritten, and the manifest made right again;
files become pipes or links to devices, or leave the manifest; tokenizers get parts that make a text long. Then
predictions may differ, but nothing may crash, hang, take a gigabyte, ask the network or end in anything but one clear
sentence. Every case is a function of its number, and runs in a process whose death is noticed. Ends with 1 if anything
else happened.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from bounded import WRONG, Bounds, outcomes
from tokenizers import Tokenizer, models, pre_tokenizers

from orderfree.build import build_network, complete_config, encoder_options, featurizer_class
from orderfree.checkpoint import TrainedModel, save_model, versions
from orderfree.cli.main import run
from orderfree.data.featurizers import Featurizer
from orderfree.data.featurizers.pretrained import WordpieceFeaturizer
from orderfree.data.labels import LabelVocabulary
from orderfree.decisions.records import Decision, Decisions
from orderfree.errors import OrderfreeError
from orderfree.experiments.origin import code_commit
from orderfree.inference import Predictor
from orderfree.nn.encoders import encoders
from orderfree.system.files import fingerprint
from orderfree.testing.contracts import example_inputs
from orderfree.types import Example

ROOT = Path(__file__).resolve().parents[2]
KINDS: dict[str, dict[str, Any]] = {
    "sparse": {"hidden": 4, "slots": 1},
    "linear": {},
    "bilstm": {"embedding": 4, "hidden": 3, "layers": 1},
    "dense": {"hidden": 4},
    "transformer": {
        "pretrained": "stranger/encoder",
        "architecture": {
            "model_type": "bert", "vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1,
            "intermediate_size": 4, "max_position_embeddings": 16,
        },
        "tokens": 8,
    },
}  # fmt: skip
SETS = (("a", "b"), ("a",), ("b", "c"))  # of labels
LARGEST_DAMAGED = 1 << 27  # bytes
PER_PROCESS = 250
SHOWN_EVERY = 8  # cases; these are also inspected and made a page of, which takes longer than all the rest
BOUNDS = Bounds(megabytes=1024, processor_seconds=20, seconds=300)
NASTY: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        1,
        7,
        2**31,
        2**63,
        10**30,
        1e308,
        -0.0,
        math.nan,
        math.inf,
        "",
        "x",
        "../../etc/passwd",
        "\0",
    ),
    *([], {}, [[]], {"a": {"b": []}}, "9" * 5000, "<script>alert(1)</script>", "\x1b[2J", [0] * 1000, "auto", "chain"),
)


def make_models(place: Path) -> dict[str, Path]:
    """One small model with random weights for each kind of encoder."""
    found = {}
    for kind in KINDS:
        trained = make_model(kind, torch.Generator().manual_seed(1))
        found[kind] = place / kind
        save_model(trained, found[kind], "# a card\n\nIt has `code`, *words* and | a | table |.\n")
        row = {"update": 3, "epoch": 1, "loss": 2.5, "validation": trained.metrics["validation"], "best": True}
        rows = ({**row, "seconds": 0.1}, {**row, "seconds": 0.1, "update": 6})
        (found[kind] / "history.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    return found


def make_model(
    kind: str, generator: torch.Generator, scale: float = 0.5, sets: Sequence[Sequence[str]] = SETS, **settings: Any
) -> TrainedModel:
    """`sets`: the label sets of its training examples; `settings`: of the section `model` of its config."""
    small = {"encoder": kind, "encoder_options": KINDS[kind], "label_embedding": 3, "decoder_hidden": 3, "br_hidden": 3}
    config = complete_config({"model": {**small, **settings}, "decoding": {"beam_width": 2}}, "the fuzzer")
    labels = LabelVocabulary.count(sets, "the fuzzer")
    featurizer: Featurizer
    if kind == "transformer":
        words = {word: place for place, word in enumerate(("[PAD]", "[UNK]", "red", "fish", "a", "one", "in"))}
        tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        featurizer = WordpieceFeaturizer(tokenizer, encoder_options(config))
    else:
        featurizer = featurizer_class(config).fit(examples_of(kind), config.data, encoder_options(config))
    torch.manual_seed(generator.initial_seed())  # parts of a network that are no parameters may be random, too
    network = build_network(config, featurizer.input_size, len(labels))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=scale, generator=generator)
    each = [0.3 + 0.1 * (place % 3) for place in range(len(labels))]
    decisions = Decisions(
        {"br": {"micro_f1": 0.4, "macro_f1": each}},
        {"micro_f1": Decision("br", 0.4), "macro_f1": Decision("br", each)},
    )
    scores = {"validation": {"joint": {"micro_f1": 0.5}}}
    return TrainedModel(config, labels, featurizer, network, decisions, scores, {"train_examples": 3, "data": {}})


def examples_of(kind: str) -> list[Example]:
    return example_inputs(encoders[kind].input_kind)  # type: ignore[attr-defined]


def predictions(directory: Path, kind: str) -> list[Any]:
    """Everything a prediction says, with every decoder."""
    predictor = Predictor.load(directory)
    decoders = [*predictor.decoders, *(f"best:{metric}" for metric in predictor.trained.decisions.best)]
    return [
        (prediction.label_sets, None if prediction.probs is None else prediction.probs.tolist())
        for prediction in predictor.predict(examples_of(kind), decoders)
    ]


def show(directory: Path) -> None:
    """Other ways to look at a model; a refusal is an answer."""
    for command in (["inspect", directory], ["report", directory, "--out", directory / "page.html"]):
        try:
            run([str(word) for word in command])
        except SystemExit as ended:
            if ended.code not in (0, 2):
                raise RuntimeError(f"{command[0]} ends with {ended.code}") from None


# ---- damages: each changes one directory, in a way that `choice` decides


def flip_bits(choice: random.Random, file: Path, other: Path) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(choice.choice((1, 1, 2, 8))):
        content[choice.randrange(len(content))] ^= 1 << choice.randrange(8)
    file.write_bytes(content)


def cut(choice: random.Random, file: Path, other: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: choice.randrange(len(content))])


def overwrite(choice: random.Random, file: Path, other: Path) -> None:
    content = bytearray(file.read_bytes())
    start = choice.randrange(len(content))
    content[start : start + choice.randrange(1, 64)] = choice.randbytes(choice.randrange(64))
    file.write_bytes(content)


def swap(choice: random.Random, file: Path, other: Path) -> None:
    beside = choice.choice([path for path in regular_files(file.parent) if path != file])
    content = file.read_bytes()
    file.write_bytes(beside.read_bytes())
    beside.write_bytes(content)


def take_from_another_model(choice: random.Random, file: Path, other: Path) -> None:
    foreign = other / file.name
    shutil.copy(foreign if foreign.exists() else choice.choice(sorted(other.iterdir())), file)


def regular_files(directory: Path) -> list[Path]:
    """Those that a damage can read: neither holes of gigabytes nor what is no file."""
    files = (path for path in directory.iterdir() if path.is_file() and not path.is_symlink())
    return sorted(path for path in files if path.stat().st_size < LARGEST_DAMAGED)


def remove(choice: random.Random, file: Path, other: Path) -> None:
    file.unlink()


def rewrite_json(choice: random.Random, file: Path, other: Path) -> None:
    """A value somewhere in a JSON file becomes a nasty one, goes, or comes twice."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:  # weights, a card, or JSON that another damage has already been done to
        return flip_bits(choice, file, other)
    if not isinstance(content, dict | list):
        return None
    for _ in range(choice.choice((1, 1, 1, 3))):
        _rewrite(choice, content)
    file.write_text(json.dumps(content), encoding="utf-8")
    return None


def _rewrite(choice: random.Random, content: Any) -> None:
    while True:
        keys = list(content) if isinstance(content, dict) else range(len(content))
        if not keys:
            return
        key = choice.choice(keys)
        if isinstance(content[key], dict | list) and content[key] and choice.random() < 0.9:
            content = content[key]
            continue
        if choice.random() < 0.1:
            del content[key]
        elif choice.random() < 0.1 and isinstance(content, dict):
            content[choice.choice(("auto_map", "attn_implementation", "surprise", "../x"))] = deepcopy(content[key])
        else:
            content[key] = deepcopy(choice.choice(NASTY))
        return


def put_something_else(choice: random.Random, file: Path, other: Path) -> None:
    """A pipe that nobody writes to, a device that never ends, or a hole of gigabytes."""
    file.unlink()
    kind = choice.choice(("pipe", "device", "hole"))
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to(choice.choice(("/dev/zero", "/dev/random")))
    else:
        with open(file, "wb") as hole:
            hole.truncate(choice.choice((1 << 27, 1 << 31, 1 << 37)))


def unlist(choice: random.Random, file: Path, other: Path) -> None:
    """The manifest does not name it any more, and it may be anything."""
    manifest = file.parent / "manifest.json"
    if manifest not in regular_files(file.parent):
        return
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        del content["files"][file.name]
        manifest.write_text(json.dumps(content), encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError):  # another damage was there before
        return
    if choice.random() < 0.7:
        put_something_else(choice, file, other)


def lengthen_texts(choice: random.Random, file: Path, other: Path) -> None:
    """A tokenizer gets parts of the library that may make a short text long."""
    tokenizers = [path for path in regular_files(file.parent) if path.name.endswith("tokenizer.json")]
    if not tokenizers:
        return rewrite_json(choice, file, other)
    try:
        content = json.loads(tokenizers[0].read_text(encoding="utf-8"))
        count = choice.choice((1, 3, 30))
        content["normalizer"] = {"type": "Sequence", "normalizers": [_part(choice) for _ in range(count)]}
        if choice.random() < 0.5:
            size = choice.choice((4, 100, 10**9))
            content["padding"] = {"strategy": {"Fixed": size}, "direction": "Right", "pad_to_multiple_of": None}
            content["padding"] |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
        tokenizers[0].write_text(json.dumps(content), encoding="utf-8")
    except (ValueError, TypeError):
        pass
    return None


def _part(choice: random.Random) -> dict[str, Any]:
    pattern = choice.choice(
        ({"String": choice.choice(("", "a", "e", "re"))}, {"Regex": choice.choice(("", ".", "a*"))})
    )
    replacing = {"type": "Replace", "pattern": pattern, "content": choice.choice(("", "a", "aaaaaaaaaa", "a " * 5000))}
    others = ({"type": "Lowercase"}, {"type": "NFKD"}, {"type": "Prepend", "prepend": "a" * choice.choice((1, 10**6))})
    return choice.choice((replacing, replacing, *others))


Damage = Callable[[random.Random, Path, Path], None]
ACCIDENTS: tuple[Damage, ...] = (flip_bits, flip_bits, cut, overwrite, swap, take_from_another_model, remove)
TRICKS: tuple[Damage, ...] = (*[rewrite_json] * 7, put_something_else, unlist, lengthen_texts)
MALICE: tuple[Damage, ...] = (*ACCIDENTS, *TRICKS)


def seal(directory: Path) -> None:
    """Makes the manifest right for what lies there, as far as it is still one."""
    if directory / "manifest.json" not in regular_files(directory):
        return
    try:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        for name in manifest["files"]:
            file = directory / name
            if file not in regular_files(directory):
                continue
            manifest["files"][name] = {"bytes": file.stat().st_size, "sha256": fingerprint(file)}
        (directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    except (OSError, ValueError, TypeError, KeyError):
        pass


def outcome(case: int, seed: int, originals: dict[str, Path], expected: dict[str, list[Any]], place: Path) -> str:
    choice = random.Random(f"{seed} {case}")
    kind, another = choice.sample(sorted(originals), 2)
    malice = case % 2 == 1
    directory = Path(shutil.copytree(originals[kind], place / f"case-{case}"))
    try:
        for _ in range(choice.choice((1, 1, 1, 2))):
            file = choice.choice([path for path in regular_files(directory) if path.stat().st_size])
            choice.choice(MALICE if malice else ACCIDENTS)(choice, file, originals[another])
        if malice:
            seal(directory)
        return judged(directory, kind, expected[kind], malice, looked_at=case % SHOWN_EVERY == 1)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def judged(directory: Path, kind: str, expected: list[Any], malice: bool, looked_at: bool) -> str:
    try:
        found = predictions(directory, kind)
        if looked_at:
            show(directory)
    except OrderfreeError as error:
        return "refused" if str(error).strip() else f"{WRONG}: an empty message"
    except BaseException as error:  # a panic of a library written in Rust is no Exception
        return f"{WRONG}: {type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
    if found == expected:
        return "loaded, same predictions"
    return "loaded, other predictions of another model" if malice else f"{WRONG}: other predictions in silence"


def fuzz(cases: int, seed: int, place: Path, say: Callable[[str], None] = print) -> dict[str, Any]:
    torch.set_num_threads(1)
    originals = make_models(place)
    expected = {kind: predictions(directory, kind) for kind, directory in originals.items()}
    found: dict[int, str] = {}
    for start in range(0, cases, PER_PROCESS):
        block = range(start, min(start + PER_PROCESS, cases))
        told = outcomes(block, lambda case: outcome(case, seed, originals, expected, place), BOUNDS)
        found |= dict(zip(block, told, strict=True))
        for case in block:
            if found[case].startswith(WRONG):
                say(f"case {case}: {found[case]}")
        say(f"{len(found):,} of {cases:,}: {sum(told.startswith('WRONG') for told in found.values())} wrong")
    accidents = Counter(told for case, told in found.items() if case % 2 == 0)
    malice = Counter(told for case, told in found.items() if case % 2 == 1)
    wrong = {case: told for case, told in found.items() if told.startswith(WRONG)}
    return {"cases": len(found), "accidents": dict(accidents), "malice": dict(malice), "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "fuzz_models.json")
    arguments = parser.parse_args()
    commit = code_commit(Path(__file__), allow_dirty=True)
    with tempfile.TemporaryDirectory() as folder:
        found = fuzz(arguments.cases, arguments.seed, Path(folder))
    found |= {"seed": arguments.seed, "commit": commit, "versions": versions()}
    arguments.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({key: found[key] for key in ("accidents", "malice", "wrong")}, indent=2))
    sys.exit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()
