"""objective.sampled_labels: some labels in the place of all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from orderfree.build import load_config
from orderfree.decoding.rollout import RolloutTask, follow
from orderfree.errors import ConfigError
from orderfree.nn.label_decoder import LabelDecoder
from orderfree.nn.narrow import narrowed
from orderfree.nn.residual_decoder import ResidualDecoder
from orderfree.testing.toy import toy_corpus
from orderfree.training.candidates import draw_candidates
from orderfree.training.run import train
from orderfree.types import Candidates, EncoderOutput, RolloutPlan

LABELS = 40


def targets_of(*sets: tuple[int, ...]) -> torch.Tensor:
    targets = torch.zeros(len(sets), LABELS, dtype=torch.bool)
    for row, labels in enumerate(sets):
        targets[row, list(labels)] = True
    return targets


def encoded(rows: int) -> EncoderOutput:
    states = torch.randn(rows, 3, 8)
    return EncoderOutput(states, torch.ones(rows, 3, dtype=torch.bool), states[:, 0][None], torch.randn(rows, LABELS))


def test_all_targets_are_among_the_candidates_and_the_others_stand_for_the_rest() -> None:
    found = draw_candidates(targets_of((3, 7), (7, 30), ()), 10)
    assert found is not None
    assert len(found.labels) == 13
    assert found.labels.tolist() == sorted(set(found.labels.tolist()))
    wanted = torch.isin(found.labels, torch.tensor([3, 7, 30]))
    assert found.stands_for[wanted].tolist() == [1.0] * 3
    assert float(found.stands_for.sum()) == pytest.approx(LABELS)  # together they are as many as there are


def test_nothing_is_drawn_where_all_labels_fit() -> None:
    assert draw_candidates(targets_of((3, 7)), LABELS - 2) is None


@pytest.mark.parametrize("kind", [LabelDecoder, ResidualDecoder])
def test_a_decoder_of_some_labels_gives_the_logits_of_these(kind: type[LabelDecoder]) -> None:
    torch.manual_seed(1)
    decoder = kind(LABELS, 8, 5, 8, 1, 0.0)
    torch.nn.init.normal_(decoder.output.weight)
    labels, given = torch.tensor([2, 5, 11, 39]), encoded(2)
    view = narrowed(decoder, Candidates(labels, torch.ones(4)))
    few = EncoderOutput(given.states, given.mask, given.final_hidden, given.scores[:, labels])  # type: ignore[index]
    fed, fed_few = torch.tensor([[LABELS, 5, 39], [LABELS, 2, 11]]), torch.tensor([[4, 1, 3], [4, 0, 2]])
    whole, _ = decoder.unroll(fed, decoder.start(given))
    some, _ = view.unroll(fed_few, view.start(few))
    torch.testing.assert_close(some, whole[..., [2, 5, 11, 39, LABELS]])
    some.sum().backward()
    assert decoder.output.weight.grad is not None
    touched = decoder.output.weight.grad.abs().sum(dim=1).nonzero()[:, 0].tolist()
    assert touched == [2, 5, 11, 39, LABELS]
    assert decoder.num_labels == LABELS, "the decoder itself stays as it was"


def test_the_sum_of_the_softmax_is_right_on_average() -> None:
    torch.manual_seed(2)
    decoder, given, targets = LabelDecoder(LABELS, 8, 5, 8, 1, 0.0), encoded(1), targets_of((4,))
    torch.nn.init.normal_(decoder.output.weight)
    with torch.no_grad():
        whole = decoder.step(torch.tensor([LABELS]), decoder.start(given))[0].exp().sum()
        sums = []
        for _ in range(400):
            found = draw_candidates(targets, 12)
            assert found is not None
            view = narrowed(decoder, found)
            sums.append(view.step(torch.tensor([13]), view.start(given))[0].exp().sum())
    spread = torch.stack(sums).std() / 400**0.5
    assert abs(torch.stack(sums).mean() - whole) < 4 * spread


def test_sequences_of_the_teacher_keep_their_order() -> None:
    decoder, given, targets = LabelDecoder(LABELS, 8, 5, 8, 1, 0.0), encoded(1), targets_of((4, 9, 30))
    found = draw_candidates(targets, 5)
    assert found is not None
    view, rank = narrowed(decoder, found), torch.arange(LABELS, -1, -1)  # the last label first
    kept = torch.cat([found.labels, torch.tensor([LABELS])])
    rank = torch.cat([rank[kept][:-1].argsort().argsort(), torch.tensor([8])])
    task = RolloutTask(targets[:, found.labels], rank, torch.tensor([6]))
    rolled = follow(RolloutPlan("teacher"), view.step, view.start(given), task)
    assert [int(kept[one]) for one in rolled.sequence[0]][:4] == [30, 9, 4, LABELS]


@pytest.mark.parametrize("sequence", ["ocd", "mle"])
def test_a_model_learns_from_some_labels_at_a_time(tmp_path: Path, sequence: str) -> None:
    toy = toy_corpus(train=600, valid=150, test=0)
    settings = [
        f"objective.sequence={sequence}",
        "objective.sampled_labels=6",
        "training.epochs=6",
        "training.batch_size=8",
    ]
    config = load_config(None, ["model.encoder=sparse", *settings])
    train(config, toy.train, toy.valid, tmp_path / "run")
    scores = json.loads((tmp_path / "run" / "metrics.json").read_text())["validation"]
    assert scores["beam"]["micro_f1"] > 0.5


def test_decoders_that_read_all_labels_refuse() -> None:
    with pytest.raises(ConfigError, match=r"objective\.sampled_labels: model\.label_decoder=sgm reads all labels"):
        load_config(None, ["model.encoder=bilstm", "model.label_decoder=sgm", "objective.sampled_labels=5"])


def test_without_a_label_decoder_there_is_nothing_to_sample_for() -> None:
    with pytest.raises(ConfigError, match=r"objective\.sampled_labels is for the label decoder"):
        load_config(None, ["objective.sequence=null", "objective.sampled_labels=5"])
