"""From a folder of sounds to tags: synthesised tones, noise and chirps are learned, and a new clip is tagged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from e2e_support import Cli, call_process, sets
from scipy.signal import chirp

RATE = 16_000
TIME = np.arange(RATE // 2) / RATE
SOUNDS = {
    "tone": lambda rng: np.sin(2 * np.pi * rng.uniform(400, 500) * TIME),
    "chirp": lambda rng: chirp(TIME, rng.uniform(1500, 2000), 0.5, 3500),
    "noise": lambda rng: np.clip(rng.normal(0, 0.5, len(TIME)), -1, 1),
}


def mixture(names: list[str], rng: np.random.Generator) -> np.ndarray:
    return sum(rng.uniform(0.15, 0.25) * SOUNDS[name](rng) for name in names)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sounds")
    rng = np.random.default_rng(0)
    lines = ["file,labels"]
    for n in range(150):
        names = [name for name in SOUNDS if rng.random() < 0.5] or ["noise"]
        soundfile.write(folder / f"{n}.wav", mixture(names, rng), RATE)
        lines.append(f'{n}.wav,"{",".join(names)}"')
    (folder / "tags.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path_factory.mktemp("run") / "tagger"
    call_process("train", folder, "--preset", "audio", "--out", folder / "run").refused("inside the folder of training")
    small = ["model.encoder_options={hidden: 32}", "model.decoder_hidden=32", "training.epochs=12"]
    call_process("train", folder, "--preset", "audio", "--out", out, *sets([*small, "training.batch_size=16"])).worked()
    return out


def test_new_clips_are_tagged_whatever_their_rate_and_length(tagger: Path, cli: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(99)
    wanted = {"a.wav": ["tone"], "b.wav": ["chirp"], "c.wav": ["noise"], "d.flac": ["tone", "chirp"]}
    for name, sounds in wanted.items():
        soundfile.write(tmp_path / name, mixture(sounds, rng), RATE)
    found = {row["id"]: sorted(row["labels"]) for row in cli("predict", tagger, tmp_path).worked().records()}
    assert sum(found[name] == sorted(sounds) for name, sounds in wanted.items()) >= 3
    long = np.tile(mixture(["noise"], rng), 120)  # a minute
    soundfile.write(tmp_path / "long.wav", np.repeat(long, 2), 2 * RATE)
    (row,) = cli("predict", tagger, tmp_path / "long.wav").worked().records()
    assert "noise" in row["labels"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("features.npz", "'0' has 3 features, the model was trained on 128"),
        ("text.jsonl", "'0' has no dense features"),
        ("text.wav", "text.wav: is not a sound that can be read"),
    ],
)
def test_what_the_model_cannot_read_is_said_in_one_sentence(
    tagger: Path, cli: Cli, tmp_path: Path, name: str, expected: str
) -> None:
    np.savez(tmp_path / "features.npz", X=np.zeros((1, 2, 3)))
    (tmp_path / "text.jsonl").write_text('{"text": "words"}\n')
    (tmp_path / "text.wav").write_text("words")
    ended = cli("predict", tagger, tmp_path / name)
    ended.refused(expected)
    assert ended.out == ""


def test_the_front_end_of_a_model_cannot_be_changed(tagger: Path, cli: Cli, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", SOUNDS["tone"](np.random.default_rng(1)), RATE)
    cli("predict", tagger, tmp_path / "a.wav", "--set", "data.mel_bands=32").refused(
        "can be changed on a trained model"
    )
