"""Solving where labels are many: a scorer that proposes candidate labels, and shortlists for both corpora."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from scipy import sparse

from ..data.corpus import Corpus
from ..data.featurizers import bag_part
from ..errors import ConfigError
from ..nn.br_decoder import Calibration
from ..nn.encoders.linear import LinearEncoder, without
from ..nn.model import OrderFreeModel
from ..scoring.candidates import Shortlists
from ..scoring.hard_negatives import Examples
from ..scoring.shortlist import HELD_OUT, NEAREST, PROPOSED, ShortlistScorer, fit_scorer, refit_scorer
from ..system.files import damage, write_checksums, writing_directory
from ..system.memory import available_memory

# Bytes that solving and training take, by the types of the arrays they hold
EACH_TERM = 40  # a term of a bag: read, as liblinear reads it, remembered, and by term
EACH_CONFUSION = 24  # an example that is a hard negative of a label: by example, by label, and while it is looked for
EACH_WEIGHT = 24  # a weight of a classifier: of two solutions, and as they are read
WEIGHTS = 2_000  # of a classifier: 1,763 on average on `arxiv-msc`
EACH_CANDIDATE = 48  # a candidate of an example held out, with all that is known of it
CANDIDATES = 250  # of an example
EACH_SET = 120  # a candidate set of an example held out, as its coefficients are fitted
COPIES = 5  # of what decoders learn: weights, gradient, two moments, and the best so far
BESIDES = 1 << 29  # libraries, texts, dense blocks of margins

OUT_OF_FOLD = "out_of_fold.safetensors"  # shortlists of the training part, beside the scorer
USUAL_C = 1.0


def start_shortlists(
    network: OrderFreeModel,
    encoder: LinearEncoder,
    corpora: tuple[Corpus, Corpus | None],
    folder: Path,
    seed: int,
    say: Callable[[str], None],
) -> None:
    """Solves the scorer, or takes it from `folder` where an interrupted run has left it, and gives both corpora the
    shortlists that decoders are trained and validated on."""
    train, valid = corpora
    _check(network, encoder, train)
    featurizer = bag_part(train.featurizer)
    if folder.exists() and damage(folder) is not None:
        say(f"{folder}: is damaged; fitting again")
        shutil.rmtree(folder)
    if not folder.exists():
        _refuse_too_much(needed_memory(network, train), len(train), network.num_labels)
        say(f"fitting {network.num_labels:,} linear classifiers on hard negatives")
        known = None if valid is None else _examples([valid])
        scorer, rows, lists = fit_scorer(_examples([train]), encoder.options.shortlist, seed, _c(encoder), known, say)
        with writing_directory(folder) as aside:
            scorer.save(aside)
            save_file({"rows": rows, "labels": lists.labels, "scores": lists.scores}, aside / OUT_OF_FOLD)
            write_checksums(aside)
    featurizer.scorer = ShortlistScorer.load(folder, featurizer.input_size)
    content = load_file(folder / OUT_OF_FOLD)
    train.shortlisted_rows = content.pop("rows")
    train.shortlists = Shortlists(**content)
    _calibrate(network, train)
    if valid is not None and len(valid):
        valid.shortlists = featurizer.scorer.shortlists(valid.bag_matrix(featurizer.input_size))
        recall = valid.shortlists.recall(valid.target_matrix())
        say(
            f"shortlists of {encoder.options.shortlist:,} labels (model.encoder_options.shortlist) contain "
            f"{recall:.1%} of the true labels of the validation examples"
        )


def refit_shortlists(encoder: LinearEncoder, corpora: Sequence[Corpus], seed: int) -> None:
    """Classifiers, centroids and neighbours from the training and validation parts; all choices stay."""
    featurizer = bag_part(corpora[0].featurizer)
    assert featurizer.scorer is not None, "a scorer is solved before it is refitted"
    featurizer.scorer = refit_scorer(featurizer.scorer, _examples(corpora), seed, _c(encoder))


def _check(network: OrderFreeModel, encoder: LinearEncoder, train: Corpus) -> None:
    most, size = train.vocabulary.longest_set, encoder.options.shortlist
    if most > size:
        raise ConfigError(
            f"an example has {most:,} labels and a shortlist holds {size:,} only; raise "
            f"model.encoder_options.shortlist to at least {2 * most:,}."
        )
    decoder = network.label_decoder
    if decoder is not None and decoder.reads_all_labels:
        raise ConfigError(
            f"{network.num_labels:,} labels are scored on shortlists, which this label decoder cannot read; choose "
            "model.label_decoder=residual or lstm, or raise model.encoder_options.shortlist."
        )


def needed_memory(network: OrderFreeModel, train: Corpus) -> int:
    """Bytes, about: what solving and training hold at the same time."""
    learned = sum(weights.numel() * weights.element_size() for weights in network.parameters())
    return (
        EACH_TERM * train.entries("indices")
        + EACH_CONFUSION * PROPOSED * len(train)
        + EACH_WEIGHT * WEIGHTS * network.num_labels
        + (EACH_CANDIDATE * CANDIDATES + EACH_SET * NEAREST) * min(HELD_OUT, len(train))
        + COPIES * learned
        + BESIDES
    )


def _refuse_too_much(needed: int, examples: int, labels: int) -> None:
    available = available_memory()
    if available is not None and needed > available:
        raise ConfigError(
            f"training on {examples:,} examples with {labels:,} labels takes about {needed / 1e9:.1f} GB of memory, "
            f"and {available / 1e9:.1f} GB are available; train on fewer examples, leave out rare "
            "labels, or lower model.label_embedding and model.decoder_hidden."
        )


def _examples(corpora: Sequence[Corpus]) -> Examples:
    """Bags, labels and weights of all corpora. Leading words are left out: they double the work."""
    featurizer = bag_part(corpora[0].featurizer)
    bags = sparse.vstack([corpus.bag_matrix(featurizer.input_size) for corpus in corpora], format="csr")
    weights = [np.ones(len(corpus)) if corpus.weights is None else corpus.weights for corpus in corpora]
    unknown = [corpus.unknown_matrix() for corpus in corpora]
    return Examples(
        without(bags, featurizer.leading),
        sparse.vstack([corpus.target_matrix() for corpus in corpora], format="csr"),
        np.concatenate(weights),
        sparse.vstack(unknown, format="csr"),
    )


def _c(encoder: LinearEncoder) -> float:
    return encoder.options.c or USUAL_C


def _calibrate(network: OrderFreeModel, train: Corpus) -> None:
    """The decoders start from the likeliest scale of the scores."""
    assert train.shortlists is not None
    rows = train.decodable
    targets = torch.cat([train.batch(chunk).targets for chunk in np.array_split(rows, max(len(rows) // 1024, 1))])
    scores = torch.from_numpy(train.shortlists.scores)  # (n, C)
    for module in network.modules():
        if isinstance(module, Calibration):
            module.fit(scores, targets)
