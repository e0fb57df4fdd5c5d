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
    return lambda run: searches.register(name)(Search(run, sequence, br, over_sets=over_sets))


def thresholded(
    name: str, sequence: bool = False, br: bool = False, over_sets: bool = False, scores: bool = False
) -> Callable[[Callable[[DecodeInput, Limits], Tensor]], Search]:
    """Decorator that registers a search made of log-odds (B, L) and a threshold on the probability."""

    def add(log_odds: Callable[[DecodeInput, Limits], Tensor]) -> Search:
        def run(given: DecodeInput, limits: Limits) -> Hypotheses:
            return at_threshold(log_odds(given, limits), given.thresholds, limits)

        return searches.register(name)(Search(run, sequence, br, log_odds, over_sets, scores))

    return add


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

    The log of these odds is the BR logit itself; <eos> has odds 1. They are raised to the power `br_power`."""
    return _beam(given, limits, bonus=limits.br_power * _br_logits(given).float())


@thresholded("marginal", sequence=True, over_sets=True)
def marginal(given: DecodeInput, limits: Limits) -> Tensor:
    """Every label whose share of the probability of all sets found reaches a threshold."""
    odds = given.br_logits
    sets, probs = set_distribution(given, limits, None if odds is None else limits.br_power * odds)
    shares = (probs[..., None] * sets).sum(dim=1)  # (B, L)
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
    sets, probs = set_distribution(given, limits)
    # what a beam holds in places without a hypothesis depends on the other inputs: it counts as the empty set
    found = (sets & (probs > 0)[..., None]).float()  # (B, W, L)
    shares = (probs[..., None] * found).sum(dim=1)  # (B, L)
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


WIDTH = 12  # hypotheses that stand for all sets, where more were not asked for


def set_distribution(given: DecodeInput, limits: Limits, bonus: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Sets of labels (B, W, L) bool and their probabilities (B, W), as far as a beam over sets finds them: the mass it
    does not find is shared out in proportion. With the BR logits as `bonus` they are weighed with their odds (Eq. 16).
    Exact for a wide beam over a model that does not mind the order of labels; else the continuations of a set are those
    of its most probable order."""
    found = _beam(given, replace(limits, width=max(limits.width, WIDTH), merge_sets=True), bonus)
    return membership(found.sequences, given.num_labels), found.scores.softmax(dim=1)


ORDERS = 120  # of five labels; of larger sets the most probable ones stand for all
WITHIN = 1e4  # larger than any log-probability: all labels of the set before <eos>


def set_log_prob(given: DecodeInput, sets: Tensor, limits: Limits) -> Tensor:
    """log P(set | x) of the label decoder (B,): the probabilities of all orders of the set, added up.

    sets (B, L) bool. Exact for up to five labels; beyond, a lower bound from the most probable orders."""
    sizes = sets.sum(dim=1)
    most = max(int(sizes.max()), 1) if len(sets) else 1
    bonus = torch.where(sets, WITHIN, float("-inf"))  # (B, L)
    allowed = replace(limits, width=ORDERS, min_labels=0, max_labels=min(most, given.num_labels), merge_sets=False)
    found = _beam(given, allowed, bonus)
    whole = membership(found.sequences, given.num_labels).sum(dim=-1) == sizes[:, None]  # (B, W)
    whole &= found.scores > float("-inf")
    return found.log_probs.masked_fill(~whole, float("-inf")).logsumexp(dim=1)


def membership(sequences: Tensor, num_labels: int) -> Tensor:
    """sequences (…, K) -> the sets they hold (…, L) bool."""
    present = torch.zeros(*sequences.shape[:-1], num_labels + 1, dtype=torch.bool, device=sequences.device)
    return present.scatter(-1, sequences, True)[..., :num_labels]


def set_log_prob_br(logits: Tensor, chosen: Tensor) -> Tensor:
    """log P_br of sets (Eq. 13): logits (…, L), chosen (…, L) bool -> (…)."""
    return torch.where(chosen, F.logsigmoid(logits), F.logsigmoid(-logits)).sum(dim=-1)
