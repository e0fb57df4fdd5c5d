"""The decoders a user can choose, all with one signature: search(DecodeInput, Limits) -> Hypotheses, best first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..system.registry import Registry
from ..types import DecodeInput, Hypotheses
from .beam import Limits, search_beam
from .sets import label_shares, membership, plain_sets, set_log_prob_br, weighted_sets

POWERED = "joint"  # the search that weighs the two decoders with `Limits.br_power`


@dataclass(frozen=True, slots=True)
class Search:
    """A search, and the decoders of the model that it needs."""

    run: Callable[[DecodeInput, Limits], Hypotheses]
    needs_sequence: bool
    needs_br: bool
    log_odds: Callable[[DecodeInput, Limits], Tensor] | None = None  # (B, L), for searches that apply a threshold
    over_sets: bool = False  # True: uses a distribution over sets, which takes a wider beam
    needs_scores: bool = False  # True: needs an encoder that scores labels
    needs_sets: bool = False  # True: needs candidate sets, which there are where labels are many

    @property
    def has_order(self) -> bool:
        """Whether labels are in the order of generation; a threshold or a choice among sets has no such order."""
        return self.log_odds is None and not self.over_sets

    def __call__(self, decode_input: DecodeInput, limits: Limits) -> Hypotheses:
        return self.run(decode_input, limits)


# In the order of the paper's tables; searches that the paper does not have come last.
searches: Registry[Search] = Registry("decoder")


def search(
    name: str, sequence: bool = False, br: bool = False, over_sets: bool = False, sets: bool = False
) -> Callable[[Callable[[DecodeInput, Limits], Hypotheses]], Search]:
    """Decorator that registers a search: `@search("joint", sequence=True, br=True)`."""

    def add(run: Callable[[DecodeInput, Limits], Hypotheses]) -> Search:
        return searches.register(name, run.__module__)(Search(run, sequence, br, over_sets=over_sets, needs_sets=sets))

    return add


def thresholded(
    name: str, sequence: bool = False, br: bool = False, over_sets: bool = False, scores: bool = False
) -> Callable[[Callable[[DecodeInput, Limits], Tensor]], Search]:
    """Decorator that registers a search: a function that gives log-odds (B, L), and a threshold on the probability."""

    def add(log_odds: Callable[[DecodeInput, Limits], Tensor]) -> Search:
        def run(decode_input: DecodeInput, limits: Limits) -> Hypotheses:
            return at_threshold(log_odds(decode_input, limits), decode_input.thresholds, limits)

        made = Search(run, sequence, br, log_odds, over_sets, scores)
        return searches.register(name, log_odds.__module__)(made)

    return add


def _br_logits(decode_input: DecodeInput) -> Tensor:
    assert decode_input.br_logits is not None, "this search needs a binary-relevance decoder, and the model has none"
    return decode_input.br_logits


@search("greedy", sequence=True)
def greedy(decode_input: DecodeInput, limits: Limits) -> Hypotheses:
    """The most probable action at every step: a beam of one."""
    return search_beam(decode_input, replace(limits, width=1))


@search("beam", sequence=True)
def beam(decode_input: DecodeInput, limits: Limits) -> Hypotheses:
    """The most probable path of the label decoder (Eq. 14)."""
    return search_beam(decode_input, limits)


@thresholded("br", br=True)
def binary_relevance(decode_input: DecodeInput, limits: Limits) -> Tensor:
    """Every label whose probability reaches its threshold."""
    return _br_logits(decode_input)


def at_threshold(logits: Tensor, thresholds: Tensor | None, limits: Limits) -> Hypotheses:
    """Every label whose probability reaches its threshold (0.5 where none is given), most probable first.

    logits (B, L), thresholds (L,)"""
    inputs, num_labels = logits.shape
    probs = logits.sigmoid()
    thresholds = probs.new_full((num_labels,), 0.5) if thresholds is None else thresholds
    passing = probs >= thresholds  # (B, L)
    # labels that pass come before all others, each group by falling probability
    order = (probs.double() + 2 * passing).argsort(dim=1, descending=True, stable=True)  # (B, L)
    rank = order.argsort(dim=1)  # (B, L) position of each label, 0 the first
    most = min(limits.max_labels, num_labels)
    chosen = (passing & (rank < most)) | (rank < min(limits.min_labels, most))  # (B, L)
    steps = max(int(chosen.sum(dim=1).max()), 1) if inputs else 1
    # the chosen labels first, each row by falling probability, then <eos>
    position = chosen.gather(1, order).cumsum(dim=1) - 1  # (B, L) step at which the label of that rank is written
    sequences = torch.full((inputs, steps + 1), num_labels, device=logits.device)
    target = torch.where(chosen.gather(1, order), position, steps)  # others go to the last step, overwritten below
    sequences.scatter_(1, target, order)
    sequences[:, steps] = num_labels
    scores = set_log_prob_br(logits, chosen)  # (B,)
    return Hypotheses(sequences[:, None], scores[:, None], scores[:, None])


@search("rescore", sequence=True, br=True)
def rescore(decode_input: DecodeInput, limits: Limits) -> Hypotheses:
    """Logistic rescoring: the hypotheses of a plain beam, ranked by P_br alone (Eq. 13)."""
    hypotheses = search_beam(decode_input, limits)
    logits = _br_logits(decode_input)
    chosen = membership(hypotheses.sequences, decode_input.num_labels)  # (B, W, L)
    scores = set_log_prob_br(logits[:, None], chosen)  # (B, W)
    scores = scores.masked_fill(hypotheses.scores == float("-inf"), float("-inf"))
    # stable: permutations of one set tie, and the path that the label decoder prefers stays first
    order = scores.argsort(dim=1, descending=True, stable=True)  # (B, W)
    sequences = hypotheses.sequences.gather(1, order[..., None].expand_as(hypotheses.sequences))
    return Hypotheses(sequences, scores.gather(1, order), hypotheses.log_probs.gather(1, order))


@search("joint", sequence=True, br=True)
def joint(decode_input: DecodeInput, limits: Limits) -> Hypotheses:
    """Logistic joint decoding (Eq. 16): the search multiplies each label it chooses by its odds p_br / (1 - p_br).

    The log of these odds is the BR logit itself; <eos> has odds 1. They are raised to the power `br_power`."""
    return search_beam(decode_input, limits, bonus=limits.br_power * _br_logits(decode_input).float())


@thresholded("marginal", sequence=True, over_sets=True)
def marginal(decode_input: DecodeInput, limits: Limits) -> Tensor:
    """Every label whose share of the weighted sets reaches its threshold."""
    shares = label_shares(*weighted_sets(decode_input, limits))  # (B, L)
    return shares.clamp(1e-6, 1 - 1e-6).logit()


MARGIN = 4.0  # log-odds of a margin of 1; the factor is arbitrary, because the threshold is tuned
LINEAR = "linear"


@thresholded(LINEAR, scores=True)
def linear(decode_input: DecodeInput, limits: Limits) -> Tensor:
    """The linear classifiers alone, without either decoder: a baseline that the decoders must beat."""
    assert decode_input.scores is not None, "this search needs an encoder that scores labels"
    return MARGIN * decode_input.scores


@search("expected_f1", sequence=True, over_sets=True)
def expected_f1(decode_input: DecodeInput, limits: Limits) -> Hypotheses:
    """The set with the highest expected example-F1, under the distribution of the sets in the beam.

    Candidates are the sets in the beam and the n most probable labels, for every n up to the size of the largest set
    in the beam of the input."""
    sets, probs = plain_sets(decode_input, limits)
    # rows of a beam without a hypothesis hold values that depend on the other inputs: they count as the empty set
    beam_sets = (sets & (probs > 0)[..., None]).float()  # (B, W, L)
    shares = label_shares(beam_sets, probs)  # (B, L)
    rank = shares.argsort(dim=1, descending=True, stable=True).argsort(dim=1)  # (B, L)
    fewest = min(limits.min_labels, decode_input.num_labels)
    largest = beam_sets.sum(dim=-1).amax(dim=1).clamp(min=fewest)  # (B,)
    sizes = torch.arange(fewest, int(largest.max()) + 1, device=beam_sets.device)  # (n,) for all inputs
    tried = torch.cat([beam_sets, (rank[:, None] < sizes[:, None]).float()], dim=1)  # (B, W + n, L)
    common = tried @ beam_sets.transpose(1, 2)  # (B, W + n, W)
    both = tried.sum(dim=-1)[:, :, None] + beam_sets.sum(dim=-1)[:, None]  # (B, W + n, W)
    f1 = torch.where(both > 0, 2 * common / both.clamp(min=1), 1.0)  # two empty sets agree
    expected = (f1 * probs[:, None]).sum(dim=-1)  # (B, W + n)
    allowed = tried.sum(dim=-1) <= largest.clamp(max=limits.max_labels)[:, None]  # (B, W + n)
    best = expected.masked_fill(~allowed, -1.0).argmax(dim=1)  # (B,)
    chosen = tried[torch.arange(len(tried), device=best.device), best] > 0  # (B, L)
    named = exactly(chosen, shares, limits)
    utility = expected.gather(1, best[:, None])  # (B, 1)
    return Hypotheses(named.sequences, utility, utility.clamp(min=1e-12).log())


@search("neighbour_sets", over_sets=True, sets=True)
def neighbour_sets(decode_input: DecodeInput, limits: Limits) -> Hypotheses:
    """The set that is most likely right as a whole, of the sets of similar training examples and those of the first
    labels of the shortlist."""
    sets, log_probs, scores = decode_input.sets, decode_input.set_log_probs, decode_input.scores
    assert sets is not None, "this search needs candidate sets"
    assert log_probs is not None, "a featurizer that makes candidate sets says how likely they are"
    assert scores is not None, "and scores their labels"
    sizes = sets.sum(dim=-1)  # (B, S)
    allowed = (sizes >= limits.min_labels) & (sizes <= limits.max_labels)
    best = log_probs.masked_fill(~allowed, float("-inf")).argmax(dim=1)  # (B,) where none is allowed, the first
    rows = torch.arange(len(sets), device=sets.device)
    named = exactly(sets[rows, best], scores.sigmoid(), limits)
    value = log_probs[rows, best][:, None]  # (B, 1)
    return Hypotheses(named.sequences, value, value)


def exactly(chosen: Tensor, probs: Tensor, limits: Limits) -> Hypotheses:
    """These labels (B, L), by falling probability (B, L); as many as the limits allow."""
    probs = probs.clamp(1e-6, 1 - 1e-6)
    # log-odds for which a threshold of one half gives exactly the chosen labels
    return at_threshold(torch.where(chosen, (1 + probs) / 2, probs / 2).logit(), None, limits)
