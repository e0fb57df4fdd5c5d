"""What an encoder needs before the first update: to be solved at once, or its pretrained weights."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from safetensors.numpy import load_file, save_file

from ..data.corpus import Corpus
from ..data.featurizers import bag_part
from ..nn.br_decoder import Calibration
from ..nn.encoders.linear import LinearEncoder, without
from ..nn.model import OrderFreeModel
from ..scoring.neighbours import Neighbours
from ..system.files import damage, write_checksums, writing_directory
from .shortlists import refit_shortlists, start_shortlists
from .weights import Balance, decision_weights

SOLVED = "solved"  # a folder of the cache
CLASSIFIERS = "linear.safetensors"  # a file in it


def start_encoder(
    network: OrderFreeModel,
    train: Corpus,
    cache: Path,
    seed: int,
    say: Callable[[str], None],
    balance: Balance | None = None,
    valid: Corpus | None = None,
) -> None:
    """Loads pretrained weights, where there are any. Solves the encoder, where it is one that is solved, and gives the
    corpora the scores to train and validate decoders on; a resumed run finds what was solved in its cache."""
    modules: list[Any] = list(network.encoder.modules())
    for module in modules:
        if hasattr(module, "load_pretrained"):
            module.load_pretrained()
    encoder = _solved_part(network)
    if encoder is None:
        return
    folder, weights = cache / SOLVED, _weights(train, balance)
    if encoder.shortlisted:
        start_shortlists(network, encoder, (train, valid), folder, seed, say)
        return
    if folder.exists() and damage(folder) is not None:
        say(f"{folder}: is damaged; fitting again")
        shutil.rmtree(folder)
    if not folder.exists():
        say(f"fitting {network.num_labels:,} linear classifiers")
        descends = any(weights.requires_grad for weights in network.parameters())  # only then are scores trained on
        _solve(encoder, train, folder, seed, say, weights, descends)
    content = load_file(folder / CLASSIFIERS)
    encoder.c = float(content.pop("c", encoder.c or 0))
    say(f"fitted the linear classifiers with C = {encoder.c:g}")
    train.scores = content.pop("scores", None)
    if train.scores is not None:
        _calibrate(network, train.scores, train, weights)
    encoder.load_state_dict(
        {name.removeprefix("encoder."): torch.from_numpy(np.array(v)) for name, v in content.items()}
    )
    if encoder.combination is not None:
        if bag_part(train.featurizer).neighbours is None:  # a resumed run has not asked them yet
            _remember(encoder, [train], train.bag_matrix(encoder.terms.shape[0]), train.targets(), seed)
        if valid is not None and len(valid):
            valid.scores = _combined_scores(encoder, valid)


def _solve(
    encoder: LinearEncoder,
    train: Corpus,
    folder: Path,
    seed: int,
    say: Callable[[str], None],
    weights: np.ndarray | None,
    descends: bool,
) -> None:
    """Solves the classifiers and writes them, with out-of-fold scores (N, L) where decoders `descend` from them."""
    bags, targets = train.bag_matrix(encoder.terms.shape[0]), train.targets()
    optional = bag_part(train.featurizer).leading  # (V,)
    scores = encoder.solve(bags, targets, seed, descends or encoder.combination is not None, weights, optional)
    if _left_out(encoder, optional):
        say("leading words (model.encoder_options.leads) are left out: no gain on a held-out fold")
    if encoder.combination is not None:
        scores = _with_votes(encoder, train, bags, targets, scores, weights, seed)
    content = {f"encoder.{name}": values.numpy() for name, values in encoder.state_dict().items()}
    content |= {"c": np.array(encoder.c), **({} if scores is None else {"scores": scores})}
    with writing_directory(folder) as aside:
        save_file(content, aside / CLASSIFIERS)
        write_checksums(aside)


def _calibrate(network: OrderFreeModel, scores: np.ndarray, train: Corpus, weights: np.ndarray | None) -> None:
    """Fits decoders that start from the scores (N, L) as probabilities."""
    counted = None if weights is None else torch.from_numpy(weights)
    for module in network.modules():
        if isinstance(module, Calibration):
            module.fit(torch.from_numpy(scores), torch.from_numpy(train.targets()), counted)


def _combined_scores(encoder: LinearEncoder, corpus: Corpus) -> np.ndarray:
    """Scores (N, L) of margins and of the votes of neighbours."""
    assert encoder.combination is not None, "scores are combined with votes"
    bag, bags = bag_part(corpus.featurizer), corpus.bag_matrix(encoder.terms.shape[0])
    margins = torch.from_numpy(bags @ encoder.terms.numpy()) + encoder.bias  # (N, L)
    votes = torch.from_numpy(bag.neighbours.votes(bag.comparable(bags)))
    scores: np.ndarray = encoder.combination(margins, votes).numpy()
    return scores


def _with_votes(
    encoder: LinearEncoder,
    train: Corpus,
    bags: Any,
    targets: np.ndarray,
    margins: np.ndarray | None,
    weights: np.ndarray | None,
    seed: int,
) -> np.ndarray:
    """Scores (N, L) of margins and of the votes of all training examples but the one that is asked about."""
    assert margins is not None, "out-of-fold margins were asked for"
    assert encoder.combination is not None, "scores are combined with votes"
    bag = bag_part(train.featurizer)
    rows = _remember(encoder, [train], bags, targets, seed)
    votes = torch.from_numpy(bag.neighbours.votes(bag.comparable(bags), rows))
    unseen, counted = torch.from_numpy(margins), None if weights is None else torch.from_numpy(weights)
    encoder.combination.fit(unseen, votes, torch.from_numpy(targets), counted)
    scores: np.ndarray = encoder.combination(unseen, votes).numpy()
    return scores


def _remember(
    encoder: LinearEncoder, corpora: Sequence[Corpus], bags: Any, targets: np.ndarray, seed: int
) -> np.ndarray:
    """Gives the featurizer its neighbours; the row of each example among them (N,), -1: none."""
    bag, unknown = bag_part(corpora[0].featurizer), None
    if any(corpus.has_unknown for corpus in corpora):
        parts = [corpus.unknown() for corpus in corpora]
        blank = [np.zeros((len(corpus), targets.shape[1]), dtype=bool) for corpus in corpora]
        unknown = np.concatenate([b if part is None else part for part, b in zip(parts, blank, strict=True)])
    bag.neighbours, rows = Neighbours.remember(bag.comparable(bags), targets, encoder.options.neighbours, seed, unknown)
    return rows


def solve_again(
    network: OrderFreeModel,
    train: Corpus,
    valid: Corpus,
    seed: int,
    say: Callable[[str], None],
    balance: Balance | None,
) -> bool:
    """When C, weights of the decoders and thresholds have all been chosen, the validation part has nothing left to say
    but its labels: the classifiers are solved once more with it. False: none of them asks for that (`refit`)."""
    encoder = _solved_part(network)
    if encoder is None or not encoder.options.refit:
        return False
    say("fitting the linear classifiers once more, now with the validation examples")
    corpora = (train, valid)
    if encoder.shortlisted:
        refit_shortlists(encoder, corpora, seed)
        return True
    features = scipy.sparse.vstack([corpus.bag_matrix(encoder.terms.shape[0]) for corpus in corpora], format="csr")
    optional = bag_part(train.featurizer).leading  # (V,)
    if _left_out(encoder, optional):
        features = without(features, optional)
    targets = np.concatenate([corpus.targets() for corpus in corpora])  # (N, L)
    if encoder.combination is not None:
        _remember(encoder, corpora, features, targets, seed)
    counted = [_weights(corpus, balance) for corpus in corpora]
    weights = None
    if any(weighed is not None for weighed in counted):
        shapes = [(len(corpus), targets.shape[1]) for corpus in corpora]
        each = [1.0 if weighed is None else weighed for weighed in counted]
        weights = np.concatenate([np.broadcast_to(weighed, shape) for weighed, shape in zip(each, shapes, strict=True)])
    encoder.solve(features, targets, seed, out_of_fold=False, weights=weights)
    return True


def _solved_part(network: OrderFreeModel) -> LinearEncoder | None:
    """The encoder, or the part of a hybrid one, that is solved instead of descended to."""
    return next((part for part in network.encoder.modules() if isinstance(part, LinearEncoder)), None)


def _left_out(encoder: LinearEncoder, optional: np.ndarray) -> bool:
    """Whether these features (V,) bool were not taken, because a held-out fold was better without."""
    return bool(optional.any()) and not encoder.terms[torch.from_numpy(optional)].any()


def _weights(train: Corpus, balance: Balance | None) -> np.ndarray | None:
    """How much each label of each example counts: (N, L) or (N, 1); None: all the same."""
    if train.weights is None and not train.has_unknown and balance is None:
        return None
    weights, unknown = (
        None if values is None else torch.from_numpy(values) for values in (train.weights, train.unknown())
    )
    counted = decision_weights(torch.from_numpy(train.targets()), weights, unknown, balance)
    return None if counted is None else counted.numpy()
