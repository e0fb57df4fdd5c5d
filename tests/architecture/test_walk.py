"""The walk of docs/explain/flow.md is the one that a traced run takes: no file twice, at most twelve each way."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import orderfree
from orderfree.build import load_config
from orderfree.config import DataConfig
from orderfree.data.readers import read_examples
from orderfree.inference import Predictor
from orderfree.testing.toy import toy_corpus
from orderfree.training.run import train
from orderfree.training.validation import validate
from orderfree.types import (
    BagInput,
    Batch,
    DecodeInput,
    DecoderState,
    EncoderOutput,
    Example,
    Hypotheses,
    LabelSet,
    LossTerms,
    ModelOutput,
    Rollout,
    ScoredRollout,
)

SOURCE = Path(orderfree.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "explain" / "flow.md"
TRAINING = (Example, BagInput, Batch, EncoderOutput, DecoderState, Rollout, ScoredRollout, ModelOutput, LossTerms)
PREDICTION = (Example, BagInput, DecodeInput, EncoderOutput, DecoderState, Hypotheses, LabelSet)
LEFT_OUT = {"types.py", "data/readers/source.py", "data/readers/checks.py"}  # as the page says
MOST = 12


def walked(run: Callable[[], object], records: tuple[type, ...]) -> list[str]:
    """Files with a function that returns such a record, in the order in which these functions are entered.

    What validation does is left out: it is the walk of prediction."""
    calls = 0
    entered: dict[CodeType, list[int]] = {}  # numbers of the calls of each function that have not returned
    first: dict[str, int] = {}  # number of the first such call in each file
    source = str(SOURCE)

    def watch(frame: FrameType, event: str, returned: Any) -> None:
        nonlocal calls
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(source) or code.co_name.startswith("<"):
            return
        if event == "call":
            calls += 1
            entered.setdefault(code, []).append(calls)
            return
        number = entered[code].pop()
        if isinstance(returned, records) and not entered.get(validate.__code__):
            file = Path(code.co_filename).relative_to(SOURCE).as_posix()
            first[file] = min(first.get(file, number), number)

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return [file for file in sorted(first, key=first.__getitem__) if file not in LEFT_OUT]


def listed(heading: str) -> list[str]:
    section = PAGE.read_text(encoding="utf-8").split(f"\n### {heading}\n")[1].split("\n#")[0]
    return re.findall(r"^\d+\. `([^`]+)`", section, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walk")
    for name, examples in (("train", toy_corpus(1, 60, 1, 1).train), ("valid", toy_corpus(2, 20, 1, 1).train)):
        lines = [json.dumps({"text": e.text, "labels": e.labels}) for e in examples]
        (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def training(folder: Path) -> list[str]:
    quick = ["c=1", "folds=2", "neighbours=3"]
    config = load_config(None, [f"model.encoder_options.{setting}" for setting in quick] + ["training.max_updates=1"])
    return walked(
        lambda: train(config, folder / "train.jsonl", folder / "valid.jsonl", folder / "run", progress=False), TRAINING
    )


def test_the_page_lists_the_files_that_training_walks_through(training: list[str]) -> None:
    assert listed("Training") == training
    assert len(training) <= MOST


@pytest.mark.usefixtures("training")
def test_the_page_lists_the_files_that_prediction_walks_through(folder: Path) -> None:
    examples = read_examples(folder / "valid.jsonl", DataConfig(), labelled=False)
    prediction = walked(lambda: list(Predictor.load(folder / "run").predict(examples, ["joint"])), PREDICTION)
    assert listed("Prediction") == prediction
    assert len(prediction) <= MOST
