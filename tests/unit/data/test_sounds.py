"""Sounds: what the front end makes of tones and noise, and what is wrong with files."""

import numpy as np
import pytest
import soundfile
from scipy.signal import chirp

from orderfree.config import DataConfig
from orderfree.data.audio.logmel import FrontEnd, log_mel, mel_filters
from orderfree.data.readers import ReadCounts, detect_format, read_examples
from orderfree.errors import DataError

RATE = 16_000
FRONT_END = FrontEnd(RATE, 64, 0.2)
SECOND = np.arange(RATE) / RATE


def tone(hertz, seconds=1.0, rate=RATE):
    return 0.3 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)


def read(path, labelled=False, **options):
    return list(read_examples(path, DataConfig(**options), labelled=labelled))


def test_a_tone_is_loudest_in_the_band_that_holds_it():
    filters = mel_filters(RATE, 400, 64)
    assert filters.sum(axis=1) == pytest.approx(1)
    for hertz in (200, 1000, 4000):
        band = log_mel(tone(hertz), RATE, 64).mean(axis=0).argmax()
        own = filters[:, round(hertz / 40)].argmax()  # frequencies are 40 Hz apart
        assert abs(int(band) - int(own)) <= 1


def test_a_chirp_moves_and_a_tone_stays():
    steady = FRONT_END.features(tone(1000), RATE)[:, 64:].max(axis=1)  # deviation inside a window
    moving = FRONT_END.features(0.3 * chirp(SECOND, 300, 1, 6000), RATE)[:, 64:].max(axis=1)
    assert steady.max() < 0.5 * moving.min()


def test_twice_as_loud_is_the_same_step_in_every_band():
    noise = np.random.default_rng(0).normal(0, 0.1, RATE)
    first, second = (FRONT_END.features(gain * noise, RATE) for gain in (1, 2))
    assert second[:, :64] - first[:, :64] == pytest.approx(np.log(4), abs=1e-2)
    assert second[:, 64:] == pytest.approx(first[:, 64:], abs=1e-2)


def test_another_rate_is_resampled():
    wanted = FRONT_END.features(tone(1000), RATE)
    for rate in (8000, 22_050, 44_100, 48_000):
        found = FRONT_END.features(tone(1000, rate=rate), rate)
        assert found.shape == wanted.shape
        assert found.mean(axis=0)[:64].argmax() == wanted.mean(axis=0)[:64].argmax()


@pytest.mark.parametrize(("seconds", "windows"), [(0.001, 1), (0.1, 1), (1.0, 8), (60.0, 598)])
def test_any_length(seconds, windows):
    assert FRONT_END.features(tone(440, seconds), RATE).shape == (windows, 128)


def test_a_folder_with_tags(tmp_path):
    for name, hertz in (("low.wav", 200), ("high.flac", 3000)):
        soundfile.write(tmp_path / name, tone(hertz), RATE)
    soundfile.write(tmp_path / "stereo.wav", np.stack([tone(200), tone(3000)], axis=1), RATE)
    (tmp_path / "tags.csv").write_text('file,labels\nlow.wav,low\nhigh.flac,high\nstereo.wav,"low,high"\n')
    assert detect_format(str(tmp_path)) == "sounds"
    found = read(tmp_path, labelled=True)
    assert [(e.id, e.labels) for e in found] == [
        ("low.wav", ("low",)),
        ("high.flac", ("high",)),
        ("stereo.wav", ("low", "high")),
    ]
    (alone,) = read(tmp_path / "low.wav")
    assert (alone.features == found[0].features).all()
    assert [e.id for e in read(tmp_path)] == ["high.flac", "low.wav", "stereo.wav"]


def bad_sound(folder, kind):
    path = folder / "bad.wav"
    if kind == "text":
        path.write_text("not a sound")
    else:
        samples = {"silent": np.zeros(RATE), "empty": np.zeros(0), "nan": np.full(RATE, np.nan)}[kind]
        soundfile.write(path, samples, RATE, subtype="FLOAT")
    return path


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("text", "is not a sound that can be read"),
        ("silent", "is silent, all samples are 0"),
        ("empty", "holds no samples"),
        ("nan", "holds samples that are NaN"),
    ],
)
def test_files_that_are_no_sounds_are_named_or_skipped(tmp_path, kind, expected):
    path = bad_sound(tmp_path, kind)
    with pytest.raises(DataError, match=f"bad.wav: {expected}"):
        read(path)
    soundfile.write(tmp_path / "good.wav", tone(440), RATE)
    counts = ReadCounts()
    kept = list(read_examples(tmp_path, DataConfig(skip_bad=True), labelled=False, counts=counts))
    assert [e.id for e in kept] == ["good.wav"]
    assert counts.skipped == 1


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("name,labels\n", r"tags.csv, line 1: has the columns name, labels, expected file and labels"),
        ("file,labels\na.wav,x,y\n", r"tags.csv, line 2: has 3 cells, expected 2"),
        ("file,labels\n../a.wav,x\n", r"tags.csv, line 2: names '../a.wav', which is not inside"),
        ("file,labels\nmissing.wav,x\n", r"missing.wav: there is no such file"),
        ('file,labels\na.wav,"x,,y"\n', r"tags.csv, line 2: the label '' is empty"),
    ],
)
def test_tables_of_tags_that_are_wrong(tmp_path, table, expected):
    soundfile.write(tmp_path / "a.wav", tone(440), RATE)
    (tmp_path / "tags.csv").write_text(table)
    with pytest.raises(DataError, match=expected):
        read(tmp_path, labelled=True)


def test_one_sound_has_no_labels(tmp_path):
    soundfile.write(tmp_path / "a.wav", tone(440), RATE)
    with pytest.raises(DataError, match="is one sound and has no labels"):
        read(tmp_path / "a.wav", labelled=True)
