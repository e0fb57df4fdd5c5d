"""The decoders a user can choose, all with one signature: search(DecodeInput, Limits) -> Hypotheses, best first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from ..registry import Registry
from ..types import DecodeInput, Hypotheses
from .beam import Limits, beam_search


@dataclass(frozen=True, slots=True)
class Search:
    """A search and the decoders of the model it needs."""

    run: Callable[[DecodeInput, Limits], Hypotheses]
    needs_sequence: bool
    needs_br: bool

    def __call__(self, given: DecodeInput, limits: Limits) -> Hypotheses:
        return self.run(given, limits)


# In the order of the paper's tables.
searches: Registry[Search] = Registry("decoder")


def search(
    name: str, sequence: bool = False, br: bool = False
) -> Callable[[Callable[[DecodeInput, Limits], Hypotheses]], Search]:
    """Decorator that registers a search: `@search("joint", sequence=True, br=True)`."""
    return lambda run: searches.register(name)(Search(run, sequence, br))


def _beam(given: DecodeInput, limits: Limits, bonus: Tensor | None = None) -> Hypotheses:
    assert given.step is not None, "this search drives the label decoder, and the model has none"
    assert given.state is not None, "a label decoder starts from a state"
    return beam_search(given.step, given.state, given.num_labels, limits, bonus)


def _br_logits(given: DecodeInput) -> Tensor:
    assert given.br_logits is not None, "this search reads the binary-relevance decoder, and the model has none"
    return given.br_logits


@search("greedy", sequence=True)
def greedy(given: DecodeInput, limits: Limits) -> Hypotheses:
    """The most probable action at every step: a beam of one."""
    return _beam(given, replace(limits, width=1))


@search("beam", sequence=True)
def beam(given: DecodeInput, limits: Limits) -> Hypotheses:
    """The most probable path of the label decoder (Eq. 14)."""
    return _beam(given, limits)


@search("br", br=True)
def binary_relevance(given: DecodeInput, limits: Limits) -> Hypotheses:
    """Every label whose probability reaches its threshold (0.5 where none is given), most probable first."""
    logits = _br_logits(given)
    inputs, num_labels = logits.shape
    probs = logits.sigmoid()
    thresholds = probs.new_full((num_labels,), 0.5) if given.thresholds is None else given.thresholds
    passing = probs >= thresholds  # (B, L)
    # labels that pass come before all others, each group by falling probability
    order = (probs.double() + 2 * passing).argsort(dim=1, descending=True, stable=True)  # (B, L)
    rank = order.argsort(dim=1)  # (B, L) place of each label, 0 the first
    most = min(limits.max_labels, num_labels)
    chosen = (passing & (rank < most)) | (rank < min(limits.min_labels, most))  # (B, L)
    steps = max(int(chosen.sum(dim=1).max()), 1) if inputs else 1
    # the chosen labels first, each row by falling probability, then <eos>
    place = chosen.gather(1, order).cumsum(dim=1) - 1  # (B, L) where the label of that rank goes
    sequences = torch.full((inputs, steps + 1), num_labels, device=logits.device)
    target = torch.where(chosen.gather(1, order), place, steps)  # unchosen ones fall into the last, overwritten cell
    sequences.scatter_(1, target, order)
    sequences[:, steps] = num_labels
    scores = set_log_prob_br(logits, chosen)  # (B,)
    return Hypotheses(sequences[:, None], scores[:, None], scores[:, None])


@search("rescore", sequence=True, br=True)
def rescore(given: DecodeInput, limits: Limits) -> Hypotheses:
    """Logistic rescoring: the hypotheses of a plain beam, ranked by P_br alone (Eq. 13)."""
    found = _beam(given, limits)
    logits = _br_logits(given)
    chosen = membership(found.sequences, given.num_labels)  # (B, W, L)
    scores = set_log_prob_br(logits[:, None], chosen)  # (B, W)
    scores = scores.masked_fill(found.scores == float("-inf"), float("-inf"))
    # sorted stably: permutations of one set tie, and the path the label decoder prefers stays first
    order = scores.argsort(dim=1, descending=True, stable=True)  # (B, W)
    sequences = found.sequences.gather(1, order[..., None].expand_as(found.sequences))
    return Hypotheses(sequences, scores.gather(1, order), found.log_probs.gather(1, order))


@search("joint", sequence=True, br=True)
def joint(given: DecodeInput, limits: Limits) -> Hypotheses:
    """Logistic joint decoding (Eq. 16): every label is weighed with its odds p_br / (1 - p_br) as it is chosen.

    The log of these odds is the BR logit itself; <eos> has odds 1."""
    return _beam(given, limits, bonus=_br_logits(given).float())


def membership(sequences: Tensor, num_labels: int) -> Tensor:
    """sequences (…, K) -> the sets they hold (…, L) bool."""
    present = torch.zeros(*sequences.shape[:-1], num_labels + 1, dtype=torch.bool, device=sequences.device)
    return present.scatter(-1, sequences, True)[..., :num_labels]


def set_log_prob_br(logits: Tensor, chosen: Tensor) -> Tensor:
    """log P_br of sets (Eq. 13): logits (…, L), chosen (…, L) bool -> (…)."""
    return torch.where(chosen, F.logsigmoid(logits), F.logsigmoid(-logits)).sum(dim=-1)
