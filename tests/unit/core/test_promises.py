"""Small promises that are easy to break without noticing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from orderfree.build import build_network, complete_config, preferred_decoder
from orderfree.checkpoint import TrainedModel
from orderfree.cli.explain import explain, print_explanation
from orderfree.config import Config, DataConfig
from orderfree.data.readers import read_examples
from orderfree.data.splits import part_of_each
from orderfree.decoding.search import Search, searches
from orderfree.errors import DataError
from orderfree.inference import CHUNK_CHARACTERS, Predictor, read_ahead
from orderfree.system.files import write_text
from orderfree.testing.toy import toy_corpus
from orderfree.training.loop import Trainer
from orderfree.training.prepare import Prepared, prepare
from orderfree.training.step import forward
from orderfree.training.validation import validate
from orderfree.types import Example

TINY = {
    "model": {"encoder_options": {"hidden": 8, "slots": 1}, "label_embedding": 4, "decoder_hidden": 8},
    "training": {"epochs": 1, "tensorboard": False},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("data")
    lines = [json.dumps({"text": e.text, "labels": e.labels}) for e in toy_corpus(1, 120, 1, 1).train]
    (folder / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return prepare(complete_config(TINY, "the test"), folder / "train.jsonl", None, folder)


def trainer(data: Prepared, folder: Path, **sections: dict) -> Trainer:
    config = complete_config({**TINY, **sections}, "the test")
    torch.manual_seed(1)
    network = build_network(config, data.featurizer.input_size, len(data.labels))
    return Trainer(TrainedModel(config, data.labels, data.featurizer, network), data, folder)


def test_a_new_search_does_not_become_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = Search(searches["beam"].run, needs_sequence=True, needs_br=False)
    monkeypatch.setattr(searches, "_entries", {**searches._entries, "mine": extra})
    assert preferred_decoder(Config()) == "joint"


@pytest.mark.parametrize(("fewest", "most"), [(3, 9), (0, 1)])
def test_validation_scores_binary_relevance_within_the_limits(
    data: Prepared, tmp_path: Path, fewest: int, most: int
) -> None:
    own = trainer(data, tmp_path, decoding={"min_labels": fewest, "max_labels": most})
    found = validate(Predictor(own.trained), data.valid, ["br"])
    assert fewest <= found.scores["br"]["predicted_labels_per_example"] <= most


def test_no_limit_of_the_rollout_cuts_a_target(data: Prepared, tmp_path: Path) -> None:
    own = trainer(data, tmp_path, objective={"sequence": "mle", "max_steps": 1, "extra_steps": 0})
    batch = data.train.batch(data.train.lengths.argsort()[:20])
    sequence = forward(own.network, own.criterion, batch).sequence.rollout.sequence
    chosen = torch.zeros(20, len(data.labels) + 1, dtype=torch.bool).scatter(1, sequence, True)
    assert torch.equal(chosen[:, :-1], batch.targets)


def test_the_encoders_rate_is_for_pretrained_weights_where_there_are_some(data: Prepared, tmp_path: Path) -> None:
    own = trainer(data, tmp_path, training={"encoder_rate": 0.1, "tensorboard": False})
    shares = shares_of(own)
    assert {name.split(".")[0]: share for name, share in shares.items()} == {
        "encoder": 0.1, "label_decoder": 1.0, "br_decoder": 1.0,
    }  # fmt: skip
    own.network.encoder.views.load_pretrained = lambda: None
    own.optimizer = torch.optim.AdamW(own.parameter_groups())
    slow = [name for name, share in shares_of(own).items() if share == 0.1]
    assert slow == [name for name in shares if name.startswith("encoder.views.")] != []


def shares_of(own: Trainer) -> dict[str, float]:
    """By the name of the weights, which the optimiser must hold in the order of the network: states are saved so."""
    held = [(weights, group["share"]) for group in own.optimizer.param_groups for weights in group["params"]]
    named = list(own.network.named_parameters())
    assert [id(weights) for weights, _ in held] == [id(weights) for _, weights in named]
    return {name: share for (name, _), (_, share) in zip(named, held, strict=True)}


def test_a_file_gets_the_mode_the_user_wants(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_text(tmp_path / "private", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # a writer waits until there is one
    write_text(tmp_path / "pipe", "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_half_a_character_in_an_id_is_said(tmp_path: Path) -> None:
    path = tmp_path / "half.jsonl"
    path.write_text('{"id": "\\ud800", "text": "a"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"line 1: the field 'id' holds half a character"):
        list(read_examples(path, DataConfig(), labelled=False))


def test_labels_are_not_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_explanation(explain(["[/x]", "B"], ["B"], ["[/x]", "B"], 0.0, "hamming"))
    assert "[/x]" in capsys.readouterr().out


def test_the_part_of_each_example() -> None:
    part_of = part_of_each([("a",), ("b",), ("a", "b"), ()] * 25, [0.8, 0.2], seed=1)
    assert part_of.shape == (100,)
    assert (part_of == 1).sum() == 20


def test_few_long_texts_are_read_ahead_and_many_short_ones() -> None:
    drawn = 0

    def texts(length: int) -> Iterator[Example]:
        nonlocal drawn
        for drawn in range(1, 12):
            yield Example(str(drawn), text="x" * length)

    assert [len(chunk) for chunk in read_ahead(texts(1), 4)] == [4, 4, 3]
    assert [len(chunk) for chunk in read_ahead(texts(CHUNK_CHARACTERS // 2), 4)] == [2, 2, 2, 2, 2, 1]
    next(read_ahead(texts(CHUNK_CHARACTERS), 4))
    assert drawn == 1
