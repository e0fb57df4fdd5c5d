"""Training in bfloat16: the same gradient but for rounding, the same quality, exact resuming; what `auto` takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from orderfree.build import complete_config
from orderfree.config import Config
from orderfree.evaluation import evaluate
from orderfree.inference import Predictor
from orderfree.system import precision as precisions
from orderfree.system import processor
from orderfree.system.precision import bfloat16_is_faster, chosen_precision, processor_instructions
from orderfree.testing.toy import toy_corpus
from orderfree.training.loop import Stop, Trainer
from orderfree.training.run import Interrupted, train

TOY = toy_corpus(1, 400, 40, 200)


def config_in(precision: str, **training: object) -> Config:
    raw = {
        "data": {"vocabulary_size": 400},
        "model": {
            "encoder": "bilstm",
            "encoder_options": {"embedding": 32, "hidden": 16, "layers": 1},
            "label_embedding": 16,
            "decoder_hidden": 32,
            "br_hidden": 32,
            "br_layers": 1,
            "br_batch_norm": True,
            "dropout": 0.1,
        },
        "training": {"epochs": 10, "batch_size": 16, "learning_rate": 0.01, "tensorboard": False, "threads": 1}
        | {"precision": precision, "patience": None, **training},
    }
    return complete_config(raw, "the test")


def micro_f1(run: Path) -> float:
    return evaluate(Predictor.load(run), TOY.test, ["joint"])["decoders"]["joint"]["micro_f1"]


def test_training_in_bfloat16_ends_within_noise_of_float32(tmp_path: Path) -> None:
    said: list[str] = []
    for precision in ("float32", "bfloat16"):
        raw = config_in(precision, epochs=6, validate_every=1000).model_dump()
        raw["data"]["vocabulary_size"] = 2000
        raw["model"].update(encoder="sparse", encoder_options={"hidden": 64}, dropout=0.0, br_batch_norm=False)
        config = complete_config(raw, "the test")
        train(config, TOY.train, TOY.valid, tmp_path / precision, say=said.append, progress=False)
    scores = [micro_f1(tmp_path / precision) for precision in ("float32", "bfloat16")]
    assert scores[0] > 0.4  # it has learned something
    assert abs(scores[0] - scores[1]) < 0.06  # two seeds differ by 0.02
    weights = Predictor.load(tmp_path / "bfloat16").network.state_dict()
    assert {value.dtype for value in weights.values() if value.is_floating_point()} == {torch.float32}


class GradientSeen(Exception):
    pass


@pytest.mark.parametrize("label_decoder", ["lstm", "sgm", "seq2set"])
def test_every_weight_has_the_gradient_of_float32_but_for_rounding(
    label_decoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradients: dict[str, dict[str, torch.Tensor]] = {}

    def look(trainer: Trainer) -> float:
        named = trainer.network.named_parameters()
        gradients[trainer.config.training.precision] = {n: w.grad.clone() for n, w in named if w.grad is not None}
        raise GradientSeen

    monkeypatch.setattr(Trainer, "clip", look)
    for precision in ("float32", "bfloat16"):
        raw = config_in(precision).model_dump()
        raw["model"].update(label_decoder=label_decoder, dropout=0.0, br_batch_norm=False)
        raw["objective"].update(sequence="mle", sequence_options={})  # nothing is sampled
        config = complete_config(raw, "the test")
        with pytest.raises(GradientSeen):
            train(config, TOY.train, TOY.valid, tmp_path / precision, progress=False)
    full, short = gradients["float32"], gradients["bfloat16"]
    assert full.keys() == short.keys()
    for name, gradient in full.items():
        if gradient.norm() > 1e-6:
            assert torch.cosine_similarity(gradient.flatten(), short[name].flatten(), dim=0) > 0.9, name
            assert short[name].dtype == torch.float32


def test_a_run_in_bfloat16_is_resumed_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precisions, "bfloat16_is_faster", lambda: True)
    config = config_in("auto", epochs=1, validate_every=5)
    train(config, TOY.train, TOY.valid, tmp_path / "straight", progress=False)

    class StopAt:
        def started(self, *_: object) -> None: ...
        def updated(self, progress, loss: float) -> None:
            stop.requested = progress.update == 7

        def validated(self, *_: object) -> None: ...
        def ended(self, *_: object) -> None: ...

    stop = Stop()
    with pytest.raises(Interrupted):
        train(config, TOY.train, TOY.valid, tmp_path / "cut", stop=stop, progress=False, listeners=[StopAt()])
    monkeypatch.setattr(precisions, "bfloat16_is_faster", lambda: False)  # another machine: the run keeps its precision
    said: list[str] = []
    trained = train(config, TOY.train, TOY.valid, tmp_path / "cut", resume=True, say=said.append, progress=False)
    assert trained.config.training.precision == "bfloat16"
    assert any("this machine has no instructions" in line for line in said)
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("straight", "cut")]
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("flags", "found"),
    [("fma avx2", False), ("avx512f avx512_bf16", True), ("amx_tile amx_bf16", True)],
)
def test_auto_takes_bfloat16_where_the_processor_has_instructions_for_it(
    flags: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: fpu {flags}\n", encoding="utf-8")
    monkeypatch.setattr(precisions, "processor_instructions", lambda: processor_instructions(cpuinfo))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    bfloat16_is_faster.cache_clear()
    assert chosen_precision("auto") == ("bfloat16" if found else "float32")
    assert chosen_precision("float32") == "float32"
    bfloat16_is_faster.cache_clear()


def test_where_the_system_names_no_instructions_a_product_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processor_instructions(Path("nowhere")) is None
    monkeypatch.setattr(precisions, "processor_instructions", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    bfloat16_is_faster.cache_clear()
    assert isinstance(bfloat16_is_faster(), bool)
    bfloat16_is_faster.cache_clear()


def test_float32_products_are_made_without_instructions_that_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "processor_instructions", lambda: {"avx512_bf16"})
    monkeypatch.setattr(os, "environ", {key: value for key, value in os.environ.items() if key != processor.LARGEST})
    processor.use_processor(1, "bfloat16")
    assert processor.LARGEST not in os.environ
    processor.use_processor(1)
    assert os.environ[processor.LARGEST] == processor.WITHOUT_BFLOAT16
