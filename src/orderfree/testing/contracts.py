"""What every encoder, objective, search and reader keeps, as checks that raise AssertionError with one sentence.

Whoever registers one of their own runs the same checks on it:

    from orderfree.testing.contracts import check_encoder
    def test_my_encoder():
        check_encoder("mine")
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..build import build_network, complete_config, featurizer_class
from ..config import DataConfig, Section
from ..data.featurizers import kinds
from ..data.readers import read_examples
from ..data.writers import WRITERS, write_examples
from ..decoding.beam import Limits
from ..decoding.rollout import RolloutTask, follow, policies
from ..decoding.search import searches
from ..errors import OrderfreeError
from ..nn.encoders import encoders
from ..objectives import objectives
from ..types import DecodeInput, DecoderState, EncoderInput, EncoderOutput, Example, Rollout, SparseVector

TOLERANCE = 1e-4
LABELS = 4


def check_encoder(name: str) -> None:
    """Shapes, masking, padding, batch order, gradients, and a model around it, on a few made-up examples."""
    entry: Any = encoders[name]
    options = _options(entry, f"encoder {name!r}")
    assert entry.input_kind in kinds(), (
        f"encoder {name!r}: input_kind is {entry.input_kind!r}, expected one of {', '.join(kinds())}."
    )
    config = complete_config({"model": {"encoder": name}}, "the contract")
    examples = example_inputs(entry.input_kind)
    featurizer = featurizer_class(config).fit(examples, config.data, options)
    rows = [featurizer.encode(example).arrays for example in examples]
    torch.manual_seed(0)
    encoder: nn.Module = entry(options, featurizer.input_size, 0.5, LABELS).eval()
    for weights in encoder.parameters():
        if not weights.requires_grad:  # what is solved starts at zero, where all inputs look alike
            weights.copy_(torch.rand_like(weights))
    together = _encode(encoder, featurizer.collate(rows))
    _check_encoder_output(name, encoder, together, len(rows))

    for place, row in enumerate(rows):
        alone = _encode(encoder, featurizer.collate([row]))
        assert _close_rows(together, place, alone), (
            f"encoder {name!r}: row {place} comes out differently alone than beside longer rows; mask the padding."
        )
    again = _encode(encoder, featurizer.collate(rows))
    assert torch.equal(again.states, together.states), f"encoder {name!r}: is random in eval mode."
    twin = entry(options, featurizer.input_size, 0.5, LABELS).eval()
    twin.load_state_dict(encoder.state_dict())
    assert torch.equal(_encode(twin, featurizer.collate(rows)).states, together.states), (
        f"encoder {name!r}: keeps something its state_dict does not hold: a saved model would predict otherwise."
    )
    if any(weights.requires_grad for weights in encoder.parameters()):  # those of a solved encoder do not
        _check_gradients(name, encoder, featurizer.collate(rows))
    network = build_network(config, featurizer.input_size, LABELS).eval()
    assert network.br_decoder is not None
    br_logits = network.br_decoder(network.encoder(featurizer.collate(rows)))  # (B, L)
    assert br_logits.shape == (len(rows), LABELS), f"encoder {name!r}: does not fit under the decoders."


def check_objective(name: str) -> None:
    """Options, policy, rank, and losses that depend on their own row only and on no label's number."""
    entry: Any = objectives[name]
    options = _options(entry, f"objective {name!r}")
    rank = torch.arange(LABELS + 1)
    objective = entry(options, rank)
    for done in (0.0, 0.5, 1.0):
        plan = objective.plan(done)
        for policy in (plan.policy, plan.baseline):
            assert policy is None or policy in policies, (
                f"objective {name!r}: its policy {policy!r} is not registered; known: {', '.join(policies.names())}."
            )
    assert sorted(objective.rank.tolist()) == rank.tolist(), (
        f"objective {name!r}: rank must hold each of 0 … L once, one for each label and <eos>."
    )
    assert int(objective.rank[-1]) == LABELS, f"objective {name!r}: <eos> must come last in rank."

    targets = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]]).bool()  # (B, L)
    rollout = _rollout(objective, targets)
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(*rollout.sequence.shape, LABELS + 1, generator=generator).requires_grad_()  # (B, K, L + 1)
    losses = objective.step_losses(logits, rollout, targets)
    assert losses.shape == rollout.sequence.shape, (
        f"objective {name!r}: step_losses has shape {tuple(losses.shape)}, expected {tuple(rollout.sequence.shape)}: "
        "one loss a step."
    )
    assert torch.isfinite(losses).all(), f"objective {name!r}: a loss is not finite, on targets with an empty set."

    (gradient,) = torch.autograd.grad((losses * rollout.active).sum(), logits)
    assert torch.isfinite(gradient).all(), f"objective {name!r}: a gradient is not finite."
    lower = objective.step_losses(logits - 0.01 * gradient, rollout, targets)
    assert (lower * rollout.active).sum() < (losses * rollout.active).sum(), (
        f"objective {name!r}: a small step against its gradient does not lower the loss."
    )
    for place in range(len(targets)):
        alone = _with_each(rollout, itemgetter(slice(place, place + 1)))
        own = objective.step_losses(logits[place : place + 1], alone, targets[place : place + 1])
        assert torch.allclose(own, losses[place : place + 1], atol=TOLERANCE), (
            f"objective {name!r}: the loss of a row depends on the other rows of its batch."
        )
    _check_label_names_do_not_matter(name, lambda ranked: entry(options, ranked), logits.detach(), rollout, targets)


def check_search(name: str, limits: Limits | None = None) -> None:
    """Hypotheses that are well-formed, best first, within the limits and independent of the rest of the batch."""
    search = searches[name]
    given = decode_input(inputs=6, num_labels=LABELS, seed=3)
    wanted = [limits] if limits is not None else _some_limits()
    for limit in wanted:
        found = search(given, limit)
        _check_hypotheses(f"search {name!r} with {limit}", found.sequences, found.scores, found.log_probs, limit)
        assert len(found.sequences) == 6, f"search {name!r}: answers {len(found.sequences)} of 6 inputs."
        for place in range(6):
            alone = search(rows_of(given, torch.tensor([place])), limit)
            best, own = (_labels(sequences[0]) for sequences in (found.sequences[place], alone.sequences[0]))
            assert best == own, f"search {name!r} with {limit}: input {place} gives {best} in a batch and {own} alone."
            assert torch.allclose(found.scores[place, 0], alone.scores[0, 0], atol=TOLERANCE), (
                f"search {name!r} with {limit}: the score of input {place} depends on the other inputs of its batch."
            )


def check_reader(
    name: str,
    directory: Path,
    write: Callable[[list[Example], Path], None] | None = None,
    examples: list[Example] | None = None,
) -> None:
    """Examples as they were written, with labels and without, and one clear sentence for every file that is none.

    `write` writes examples in this format; it may be left out where the library itself can write it. `examples` are
    given for a format that does not hold texts."""
    options = DataConfig(format=name)
    examples = examples or _examples_for(name)
    if write is None:
        assert name in WRITERS, f"format {name!r}: nothing here writes it; pass `write` to check its reader."

        def write(examples: list[Example], path: Path) -> None:
            write_examples(examples, path, name, options)

    path = Path(directory) / f"text_{name}"
    write(examples, path)
    labelled = list(read_examples(path, options, labelled=True))
    assert [_content(example) for example in labelled] == [_content(example) for example in examples], (
        f"format {name!r}: what is read is not what was written."
    )
    ids = [example.id for example in labelled]
    assert len(set(ids)) == len(ids), f"format {name!r}: two examples have the same id."
    unlabelled = list(read_examples(path, options, labelled=False))
    expected = [_content(dataclasses.replace(example, labels=None)) for example in examples]
    assert [_content(example) for example in unlabelled] == expected, (
        f"format {name!r}: where labels are not wanted, they must come out as None and all else as before."
    )
    assert isinstance(read_examples(path, options, labelled=True), Iterator), f"format {name!r}: must stream."

    _check_refusal(name, path.with_name("text_missing"), options)
    for damaged in _damaged(path.read_bytes()):
        path.write_bytes(damaged)
        _check_refusal(name, path, options, must_refuse=not damaged)


# --- what the checks are made of ------------------------------------------------------------------------------------


def example_inputs(kind: str) -> list[Example]:
    """Five examples of different lengths, one of them nearly empty, of a kind an encoder names as its input."""
    labels = ("a", "b")
    if kind == "dense":
        generator = np.random.default_rng(0)
        return [
            Example(str(n), features=generator.normal(size=(n, 3)).astype(np.float32), labels=labels)
            for n in (3, 1, 5, 2, 4)
        ]
    texts = ("red fish blue fish", "", "one two red blue fish swim in a big red pond", "red", "two fish")
    return [Example(str(n), text=text, labels=labels) for n, text in enumerate(texts)]


def prefix_model(
    inputs: int, num_labels: int, seed: int, scale: float = 1.5
) -> tuple[Callable[[Tensor, DecoderState], tuple[Tensor, DecoderState]], DecoderState]:
    """A step and its first state that stand for any label decoder: random logits that depend on the input and on the
    whole sequence so far, which the hidden state spells out as a number (float64, so up to 2^53)."""
    table = scale * torch.randn(9973, num_labels + 1, generator=torch.Generator().manual_seed(seed))

    def step(previous: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        hidden = state.hidden * (num_labels + 2) + previous[None, :, None] + 1  # (1, R, 1)
        logits = table[(hidden[0, :, 0].long() * 7919) % len(table)]  # (R, L + 1)
        return logits, DecoderState(hidden, state.cell, state.memory, state.mask)

    hidden = torch.arange(inputs, dtype=torch.float64).view(1, inputs, 1)
    mask = torch.ones(inputs, 1, dtype=torch.bool)
    return step, DecoderState(hidden, torch.zeros_like(hidden), torch.zeros(inputs, 1, 1), mask)


def decode_input(inputs: int, num_labels: int, seed: int) -> DecodeInput:
    """Both decoders of a made-up model, and candidate sets, for searches."""
    step, state = prefix_model(inputs, num_labels, seed)
    br_logits = 2 * torch.randn(inputs, num_labels, generator=torch.Generator().manual_seed(seed + 1))
    scores = torch.randn(inputs, num_labels, generator=torch.Generator().manual_seed(seed + 2))
    generator = torch.Generator().manual_seed(seed + 3)
    sets = torch.rand(inputs, 5, num_labels, generator=generator) < 0.4  # (B, S, L)
    set_log_probs = torch.randn(inputs, 5, generator=generator).log_softmax(dim=-1)  # (B, S)
    return DecodeInput(num_labels, step, state, br_logits, scores=scores, sets=sets, set_log_probs=set_log_probs)


def rows_of(given: DecodeInput, rows: Tensor) -> DecodeInput:
    """These inputs alone, of a made-up model."""
    assert given.state is not None
    kept = {name: getattr(given, name)[rows] for name in ("br_logits", "scores", "sets", "set_log_probs")}
    return dataclasses.replace(given, state=given.state.select(rows, rows), **kept)


def _options(entry: Any, who: str) -> Section:
    assert isinstance(getattr(entry, "Options", None), type), f"{who}: has no Options class."
    assert issubclass(entry.Options, Section), f"{who}: Options must be a config Section."
    for key, info in entry.Options.model_fields.items():
        assert info.description, f"{who}: option {key!r} has no description for `orderfree config` to print."
    options: Section = entry.Options()
    return options


@torch.no_grad()
def _encode(encoder: nn.Module, inputs: EncoderInput) -> EncoderOutput:
    output: EncoderOutput = encoder(inputs)
    return output


def _check_encoder_output(name: str, encoder: Any, output: EncoderOutput, rows: int) -> None:
    size, tokens = encoder.output_size, output.mask.shape[1]
    assert output.states.shape == (rows, tokens, size), (
        f"encoder {name!r}: states have shape {tuple(output.states.shape)}, expected {(rows, tokens, size)}."
    )
    assert output.mask.dtype == torch.bool, f"encoder {name!r}: the mask must be bool."
    assert output.mask.any(dim=1).all(), f"encoder {name!r}: a row has no position to attend to, even if it is empty."
    assert output.final_hidden.shape[1:] == (rows, size), (
        f"encoder {name!r}: final_hidden has shape {tuple(output.final_hidden.shape)}, expected (E, {rows}, {size})."
    )
    assert (output.states[~output.mask] == 0).all(), f"encoder {name!r}: states must be zero where masked."
    for tensor in (output.states, output.final_hidden):
        assert torch.isfinite(tensor).all(), f"encoder {name!r}: gives values that are not finite."


def _close_rows(together: EncoderOutput, place: int, alone: EncoderOutput) -> bool:
    real, own = together.states[place][together.mask[place]], alone.states[0][alone.mask[0]]
    summary, own_summary = together.final_hidden[:, place], alone.final_hidden[:, 0]
    return (
        real.shape == own.shape
        and torch.allclose(real, own, atol=TOLERANCE)
        and torch.allclose(summary, own_summary, atol=TOLERANCE)
    )


def _check_gradients(name: str, encoder: nn.Module, inputs: EncoderInput) -> None:
    output = encoder(inputs)
    (output.states.square().sum() + output.final_hidden.sum()).backward()
    trained = {parameter: value for parameter, value in encoder.named_parameters() if value.requires_grad}
    for parameter, value in trained.items():
        assert value.grad is not None, f"encoder {name!r}: no gradient reaches {parameter}."
        assert torch.isfinite(value.grad).all(), f"encoder {name!r}: the gradient of {parameter} is not finite."


def _rollout(objective: Any, targets: Tensor) -> Rollout:
    step, state = prefix_model(len(targets), targets.shape[1], seed=5)
    torch.manual_seed(5)
    limits = torch.full((len(targets),), targets.shape[1] + 2)
    return follow(objective.plan(done=1.0), step, state, RolloutTask(targets, objective.rank, limits))


def _with_each(rollout: Rollout, change: Callable[[Tensor], Tensor]) -> Rollout:
    """A rollout with all its tensors changed in the same way."""
    tensors: dict[str, Any] = {field.name: getattr(rollout, field.name) for field in dataclasses.fields(rollout)}
    changed: dict[str, Any] = {name: v if v is None else change(v) for name, v in tensors.items()}
    return Rollout(**changed)


def _check_label_names_do_not_matter(
    name: str, objective_of: Callable[[Tensor], Any], logits: Tensor, rollout: Rollout, targets: Tensor
) -> None:
    rank = torch.arange(LABELS + 1)
    new_id = torch.tensor([2, 0, 3, 1, LABELS])  # label 0 becomes label 2 …; <eos> stays
    old_id = new_id.argsort()
    renamed = objective_of(
        rank[old_id]
    ).step_losses(  # a label takes its rank with it
        logits[..., old_id],
        _with_each(rollout, lambda values: values if values.dtype == torch.bool else new_id[values]),
        targets[:, old_id[:-1]],
    )
    before = objective_of(rank).step_losses(logits, rollout, targets)
    assert torch.allclose(renamed * rollout.active, before * rollout.active, atol=TOLERANCE), (
        f"objective {name!r}: the loss of the same sequence changes when labels get other ids."
    )


def _some_limits() -> list[Limits]:
    return [
        Limits(width=width, min_labels=fewest, max_labels=most, renormalise=renormalise)
        for width in (1, 3, 200)
        for fewest, most in ((0, 25), (0, 1), (2, 3), (LABELS, LABELS), (9, 25))
        for renormalise in (True, False)
    ]


def _check_hypotheses(who: str, sequences: Tensor, scores: Tensor, log_probs: Tensor, limits: Limits) -> None:
    assert scores.shape == log_probs.shape == sequences.shape[:2], f"{who}: shapes of the hypotheses do not agree."
    assert (scores[:, :-1] >= scores[:, 1:]).all(), f"{who}: hypotheses must come best first."
    assert torch.isfinite(scores[:, 0]).all(), f"{who}: an input has no hypothesis."
    most = min(limits.max_labels, LABELS)
    for row, score in zip(sequences.flatten(0, 1), scores.flatten().tolist(), strict=True):
        if score == float("-inf"):
            continue
        labels = _labels(row)
        assert len(set(labels)) == len(labels), f"{who}: {labels} repeats a label."
        assert (row[len(labels) :] == LABELS).all(), f"{who}: something follows <eos> in {row.tolist()}."
        assert row[-1] == LABELS, f"{who}: {row.tolist()} does not end in <eos>."
        assert min(limits.min_labels, most) <= len(labels) <= most, f"{who}: {labels} breaks min_labels or max_labels."
    real = log_probs[scores > float("-inf")]
    assert (real <= TOLERANCE).all(), f"{who}: a log-probability is above 0."
    assert torch.isfinite(real).all(), f"{who}: a log-probability is not finite."


def _labels(sequence: Tensor) -> list[int]:
    """The labels before the first <eos>."""
    values = sequence.tolist()
    return values[: values.index(LABELS)] if LABELS in values else values


def _examples_for(name: str) -> list[Example]:
    """Three examples in what the format holds: text, sparse or dense features."""
    labels: list[tuple[str, ...]] = [("1", "2"), (), ("2", "3")]
    if name == "libsvm":
        terms = [np.array([0, 4], np.int32), np.array([2], np.int32), np.array([1, 3], np.int32)]
        vectors = [SparseVector(indices, np.full(len(indices), 0.5, np.float32)) for indices in terms]
        return [Example(str(n), features=v, labels=s) for n, (v, s) in enumerate(zip(vectors, labels, strict=True))]
    if name == "npz":
        frames = [np.full((2, 3), n, np.float32) for n in range(3)]
        return [Example(str(n), features=f, labels=s) for n, (f, s) in enumerate(zip(frames, labels, strict=True))]
    texts = ["a red fish", "größer — 字", "blue, with a comma"]
    return [Example(str(n), text=t, labels=s) for n, (t, s) in enumerate(zip(texts, labels, strict=True))]


def _content(example: Example) -> tuple[Any, ...]:
    """An example as plain values that can be compared."""
    features: Any = example.features
    if isinstance(features, SparseVector):
        features = (features.indices.tolist(), features.values.tolist())
    elif features is not None:
        features = features.tolist()
    return example.id, example.text, features, example.labels


def _damaged(content: bytes) -> list[bytes]:
    """Nothing at all, half the file, bytes that are no text, and a flipped byte in the middle."""
    half = len(content) // 2
    flipped = content[:half] + bytes([content[half] ^ 0xFF]) + content[half + 1 :]
    return [b"", content[:half], b"\xff\xfe\x00" + content, flipped]


def _check_refusal(name: str, path: Path, options: DataConfig, must_refuse: bool = True) -> None:
    """Such a file ends in an error that names it, never in another exception."""
    message = None
    try:
        list(read_examples(path, options, labelled=True))
    except OrderfreeError as error:
        message = str(error)
    except Exception as error:
        raise AssertionError(f"format {name!r}: a damaged file ends in {error!r}, expected a DataError.") from error
    if message is None:
        assert not must_refuse, f"format {name!r}: an empty or missing file is read without an error."
    else:
        assert path.name in message, f"format {name!r}: the error does not name the file: {message}"
