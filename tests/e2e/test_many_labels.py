"""More labels than are scored densely: from a file to label sets over shortlists of candidates."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from e2e_support import call_process, sets

from orderfree import Example, Predictor
from orderfree.build import load_config
from orderfree.errors import ConfigError, ModelDirectoryError, OrderfreeError
from orderfree.evaluation import evaluate
from orderfree.training import shortlists
from orderfree.training.loop import Trainer
from orderfree.training.run import train

LABELS, SHORTLIST = 120, 10
SETTINGS = [
    f"model.encoder_options.shortlist={SHORTLIST}",
    "training.epochs=3",
    "training.learning_rate=0.03",  # a tenth is taken; three short epochs need it
    "training.threads=1",
    "training.tensorboard=false",
]


def documents(count: int, seed: int) -> list[Example]:
    """Each label has a word of its own; labels come in pairs (2n, 2n + 1) half of the time."""
    drawn = random.Random(seed)
    examples = []
    for number in range(count):
        first = drawn.randrange(LABELS)
        labels = sorted({first, first ^ 1} if drawn.random() < 0.5 else {first})
        words = [f"word{label}" for label in labels] + [f"noise{drawn.randrange(50)}" for _ in range(6)]
        drawn.shuffle(words)
        names = tuple(f"l{label:03}" for label in labels)
        examples.append(Example(id=str(number), text=" ".join(words), labels=names))
    return examples


def trained_in(out: Path, examples: list[Example]) -> list[str]:
    """Trains, and returns what was said meanwhile."""
    said: list[str] = []
    train(load_config(None, SETTINGS), examples, None, out, say=said.append, progress=False)
    return said


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("many") / "run"
    said = trained_in(out, documents(700, 1))
    assert any(f"shortlists of {SHORTLIST} labels" in line and "100.0%" in line for line in said), said
    return out


def test_sets_over_shortlists_are_right(run: Path) -> None:
    predictor = Predictor.load(run)
    found = evaluate(predictor, documents(100, 2), predictor.decoders)
    assert found["decoders"]["joint"]["micro_f1"] > 0.9
    assert found["decoders"]["linear"]["micro_f1"] > 0.9


def test_alone_and_in_a_batch(run: Path) -> None:
    predictor = Predictor.load(run)
    examples = [replace(example, labels=None) for example in documents(12, 3)]
    together = list(predictor.predict(examples, predictor.decoders, marginals=True))
    for example, expected in zip(examples, together, strict=True):
        (alone,) = predictor.predict([example], predictor.decoders, marginals=True)
        for decoder in predictor.decoders:
            assert alone.label_sets[decoder].labels == expected.label_sets[decoder].labels, decoder
        np.testing.assert_allclose(alone.probs, expected.probs, atol=1e-5)
        np.testing.assert_allclose(alone.marginals, expected.marginals, atol=1e-4)
        assert np.count_nonzero(expected.probs) <= SHORTLIST


def test_a_set_outside_the_shortlist_has_no_probability(run: Path) -> None:
    predictor = Predictor.load(run)
    (example,) = documents(1, 5)
    (prediction,) = predictor.predict([example])
    outside = predictor.labels.names[int(np.argmin(prediction.probs))]
    inside, none = predictor.set_log_prob([example] * 2, [example.labels or (), (outside,)])
    assert inside > -5
    assert none == -np.inf


def test_promises_over_shortlists_are_those_of_the_decoders(run: Path) -> None:
    predictor = Predictor.load(run)
    calibration, new = documents(150, 6), documents(60, 7)
    recall = predictor.promise(calibration, "recall=0.9")
    named = "thresholds:recall=0.9"
    assert evaluate(predictor, calibration, [named])["decoders"][named]["example_recall"] == pytest.approx(
        recall.achieved
    )
    lists = predictor.promise(calibration, "candidates=0.9")
    for promised, examples, reached in ((lists.achieved, calibration, 1.0), (0.9, new, 0.8)):
        found = [prediction.candidates for prediction in predictor.predict(examples, candidates=0.9)]
        held = [
            one is not None and (one.outside or any(set(labels) == set(example.labels or ()) for labels, _ in one.sets))
            for one, example in zip(found, examples, strict=True)
        ]
        assert np.mean(held) >= promised * reached - 1e-9


def test_a_label_outside_its_shortlist_cannot_be_promised(run: Path) -> None:
    predictor = Predictor.load(run)
    names = predictor.labels.names
    strange = [replace(e, labels=(*(e.labels or ()), *names[int(e.id) % 7 :: 12])) for e in documents(80, 8)]
    with pytest.raises(OrderfreeError, match="nor by more like them: the best they reach is"):
        predictor.promise(strange, "recall=0.95")


def test_same_seed_same_bytes(run: Path, tmp_path: Path) -> None:
    trained_in(tmp_path / "again", documents(700, 1))
    for file in ("model.safetensors", "shortlist.safetensors", "thresholds.json"):
        assert (tmp_path / "again" / file).read_bytes() == (run / file).read_bytes(), file


def test_a_set_longer_than_a_shortlist_is_refused(tmp_path: Path) -> None:
    long = Example(id="x", text="word1", labels=tuple(f"l{number:03}" for number in range(20)))
    with pytest.raises(ConfigError, match=r"an example has 20 labels .* raise model.encoder_options.shortlist"):
        trained_in(tmp_path / "run", [*documents(400, 4)] + [replace(long, id=str(n)) for n in range(5)])


def test_commands(run: Path, tmp_path: Path) -> None:
    call_process("export", run, "--onnx", tmp_path / "onnx").refused("shortlists", "torch only")
    texts = tmp_path / "new.jsonl"
    texts.write_text(json.dumps({"id": "1", "text": "word7 noise3"}) + "\n", encoding="utf-8")
    (answer,) = call_process("predict", run, texts, *sets(["decoding.min_labels=1"])).worked().out.splitlines()
    assert "l007" in json.loads(answer)["labels"]


def test_a_swapped_shortlist_is_refused(run: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(run, tmp_path / "copy")
    content = (tmp_path / "copy" / "shortlist.safetensors").read_bytes()
    (tmp_path / "copy" / "shortlist.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 255]))
    with pytest.raises(ModelDirectoryError, match=r"shortlist\.safetensors"):
        Predictor.load(tmp_path / "copy")


def test_too_little_memory_is_said_before_solving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlists, "available_memory", lambda: 100 << 20)
    said: list[str] = []
    with pytest.raises(ConfigError, match=r"takes about 0\.\d GB of memory, and 0\.1 GB are available"):
        train(load_config(None, SETTINGS), documents(300, 8), None, tmp_path / "run", say=said.append, progress=False)
    assert not any("fitting" in line for line in said), said


def test_decoders_are_trained_on_examples_that_nothing_was_solved_on(tmp_path: Path) -> None:
    """A third of the training part is held out once; with more updates allowed, all of it is used in an epoch."""
    rows: list[np.ndarray] = []
    loop = Trainer.train_step

    def spied(self: Trainer, batch: np.ndarray) -> float:
        rows.append(batch)
        return loop(self, batch)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Trainer, "train_step", spied)
        settings = [*SETTINGS, "training.epochs=1", "data.valid_fraction=0.2"]
        train(load_config(None, settings), documents(300, 8), None, tmp_path / "run", progress=False)
    drawn = np.concatenate(rows)
    assert len(np.unique(drawn)) == len(drawn) == 240 // 3


def test_neighbour_sets_need_shortlists(tmp_path: Path) -> None:
    settings = [*SETTINGS, "decoding.decoder=neighbour_sets", "model.encoder_options.shortlist=50"]
    with pytest.raises(ConfigError, match="'neighbour_sets' needs shortlists, and 120 labels are too few"):
        train(load_config(None, settings), documents(700, 1), None, tmp_path / "run", progress=False)
