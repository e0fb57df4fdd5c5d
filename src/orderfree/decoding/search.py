"""The decoders a user can choose, all with one signature: search(DecodeInput, Limits) -> Hypotheses, best first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..registry import Registry
from ..types import DecodeInput, Hypotheses
from .beam import Limits, search_beam
from .sets import label_shares, membership, plain_sets, set_log_prob_br, weighted_sets

POWERED = "joint"  # the search that weighs the two decoders with `Limits.br_power`


@dataclass(frozen=True, slots=True)
class Search:
    """A search and the decoders of the model it needs."""

    run: Callable[[DecodeInput, Limits], Hypotheses]
    needs_sequence: bool
    needs_br: bool
    log_odds: Callable[[DecodeInput, Limits], Tensor] | None = None  # (B, L), where a threshold decides
    over_sets: bool = False  # True: works on a distribution of sets, which takes a wider beam
    needs_scores: bool = False  # True: only where the encoder scores labels itself

    @property
    def has_order(self) -> bool:
        """Whether labels come in the order they were generated: a threshold and a choice among sets give none."""
        return self.log_odds is None and not self.over_sets

    def __call__(self, given: DecodeInput, limits: Limits) -> Hypotheses:
        return self.run(given, limits)


# In the order of the paper's tables; those it does not have come last.
searches: Registry[Search] = Registry("decoder")


def search(
    name: str, sequence: bool = False, br: bool = False, over_sets: bool = False
) -> Callable[[Callable[[DecodeInput, Limits], Hypotheses]], Search]:
    """Decorator that registers a search: `@search("joint", sequence=True, br=True)`."""
    return lambda run: searches.register(name, run.__module__)(Search(run, sequence, br, over_sets=over_sets))


def thresholded(
    name: str, sequence: bool = False, br: bool = False, over_sets: bool = False, scores: bool = False
) -> Callable[[Callable[[DecodeInput, Limits], Tensor]], Search]:
    """Decorator that registers a search made of log-odds (B, L) and a threshold on the probability."""

    def add(log_odds: Callable[[DecodeInput, Limits], Tensor]) -> Search:
        def run(given: DecodeInput, limits: Limits) -> Hypotheses:
            return at_threshold(log_odds(given, limits), given.thresholds, limits)

        made = Search(run, sequence, br, log_odds, over_sets, scores)
        return searches.register(name, log_odds.__module__)(made)

    return add


def _br_logits(given: DecodeInput) -> Tensor:
    assert given.br_logits is not None, "this search reads the binary-relevance decoder, and the model has none"
    return given.br_logits


@search("greedy", sequence=True)
def greedy(given: DecodeInput, limits: Limits) -> Hypotheses:
    """The most probable action at every step: a beam of one."""
    return search_beam(given, replace(limits, width=1))


@search("beam", sequence=True)
def beam(given: DecodeInput, limits: Limits) -> Hypotheses:
    """The most probable path of the label decoder (Eq. 14)."""
    return search_beam(given, limits)


@thresholded("br", br=True)
def binary_relevance(given: DecodeInput, limits: Limits) -> Tensor:
    """Every label whose probability reaches its threshold."""
    return _br_logits(given)


def at_threshold(logits: Tensor, thresholds: Tensor | None, limits: Limits) -> Hypotheses:
    """Every label whose probability reaches its threshold (0.5 where none is given), most probable first.

    logits (B, L), thresholds (L,)"""
    inputs, num_labels = logits.shape
    probs = logits.sigmoid()
    thresholds = probs.new_full((num_labels,), 0.5) if thresholds is None else thresholds
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
    found = search_beam(given, limits)
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

    The log of these odds is the BR logit itself; <eos> has odds 1. They are raised to the power `br_power`."""
    return search_beam(given, limits, bonus=limits.br_power * _br_logits(given).float())


@thresholded("marginal", sequence=True, over_sets=True)
def marginal(given: DecodeInput, limits: Limits) -> Tensor:
    """Every label whose share of the weighted sets reaches a threshold."""
    shares = label_shares(*weighted_sets(given, limits))  # (B, L)
    return shares.clamp(1e-6, 1 - 1e-6).logit()


MARGIN = 4.0  # a margin of 1 as log-odds; any factor will do, since the threshold is tuned
LINEAR = "linear"


@thresholded(LINEAR, scores=True)
def linear(given: DecodeInput, limits: Limits) -> Tensor:
    """The linear classifiers under both decoders, as if there were none: what they learned must be better than that."""
    assert given.scores is not None, "this search reads the encoder's scores of labels, and it gives none"
    return MARGIN * given.scores


@search("expected_f1", sequence=True, over_sets=True)
def expected_f1(given: DecodeInput, limits: Limits) -> Hypotheses:
    """The set with the highest expected example-F1, if the true set were drawn from those found.

    Tried are the sets found for an input and its n most probable labels, for every n up to its own largest set."""
    sets, probs = plain_sets(given, limits)
    # what a beam holds in places without a hypothesis depends on the other inputs: it counts as the empty set
    found = (sets & (probs > 0)[..., None]).float()  # (B, W, L)
    shares = label_shares(found, probs)  # (B, L)
    rank = shares.argsort(dim=1, descending=True, stable=True).argsort(dim=1)  # (B, L)
    fewest = min(limits.min_labels, given.num_labels)
    largest = found.sum(dim=-1).amax(dim=1).clamp(min=fewest)  # (B,)
    sizes = torch.arange(fewest, int(largest.max()) + 1, device=found.device)  # (n,) of all inputs
    tried = torch.cat([found, (rank[:, None] < sizes[:, None]).float()], dim=1)  # (B, W + n, L)
    common = tried @ found.transpose(1, 2)  # (B, W + n, W)
    both = tried.sum(dim=-1)[:, :, None] + found.sum(dim=-1)[:, None]  # (B, W + n, W)
    f1 = torch.where(both > 0, 2 * common / both.clamp(min=1), 1.0)  # two empty sets agree
    expected = (f1 * probs[:, None]).sum(dim=-1)  # (B, W + n)
    allowed = tried.sum(dim=-1) <= largest.clamp(max=limits.max_labels)[:, None]  # (B, W + n)
    best = expected.masked_fill(~allowed, -1.0).argmax(dim=1)  # (B,)
    chosen = tried[torch.arange(len(tried), device=best.device), best] > 0  # (B, L)
    # as log-odds: at a threshold of one half exactly the chosen labels, by falling share
    shares = shares.clamp(1e-6, 1 - 1e-6)
    odds = torch.where(chosen, (1 + shares) / 2, shares / 2).logit()
    named = at_threshold(odds, None, limits)
    utility = expected.gather(1, best[:, None])  # (B, 1)
    return Hypotheses(named.sequences, utility, utility.clamp(min=1e-12).log())
