"""Digests of what small models predict, to see whether a change of the code changes any prediction.

    python scripts/prediction_digests.py > before.txt      # on the commit before the change
    python scripts/prediction_digests.py > after.txt       # on the commit after it
    diff before.txt after.txt                               # nothing: all predictions have the same bytes

Each model is trained on 300 texts of the toy corpus with one thread and predicts 60 others with each of its decoders
and with its decision for each metric. A digest covers label sets, their order, log-probabilities, label probabilities
and the stored thresholds."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from orderfree.build import load_config
from orderfree.decisions.records import BEST
from orderfree.inference import Prediction, Predictor
from orderfree.system.processor import use_processor
from orderfree.testing.toy import toy_corpus
from orderfree.training.run import train

QUICK = ["training.max_updates=12", "training.tensorboard=false", "training.threads=1"]
SMALL = [*QUICK, "model.dropout=0.1", "model.label_embedding=16", "model.decoder_hidden=32", "model.br_hidden=32"]
BILSTM = ["model.encoder=bilstm", "model.encoder_options.hidden=16", "model.encoder_options.embedding=16"]
MODELS: dict[str, tuple[str, list[str]]] = {  # name -> preset and settings
    "fast": ("fast", QUICK),
    "fast, no neighbours": ("fast", [*QUICK, "model.encoder_options.neighbours=0", "model.encoder_options.c=1"]),
    "fast, maximum likelihood": ("fast", [*QUICK, "objective.sequence=mle"]),
    "fast, binary relevance alone": ("fast", [*QUICK, "objective.sequence=null"]),
    "linear classifiers alone": ("fast", [*QUICK, "objective.sequence=null", "model.br_decoder=scores"]),
    "sparse": ("fast", [*SMALL, "model.encoder=sparse"]),
    "sparse, order-free RNN": ("fast", [*SMALL, "model.encoder=sparse", "objective.sequence=order_free"]),
    "bilstm": ("paper", [*SMALL, *BILSTM]),
    "bilstm, global embedding": ("paper", [*SMALL, *BILSTM, "model.label_decoder=sgm", "objective.sequence=mle"]),
    "sparse, classifier chain": (
        "fast",
        [*SMALL, "model.encoder=sparse", "model.label_decoder=chain", "objective.sequence=mle"],
    ),
}


def content(predictions: list[Prediction]) -> Iterator[bytes]:
    for prediction in predictions:
        for decoder, label_set in sorted(prediction.label_sets.items()):
            yield repr((decoder, label_set.labels, float(label_set.log_prob).hex())).encode()
        for row in (prediction.probs, prediction.marginals):
            yield b"" if row is None else row.tobytes()


def digest(preset: str, settings: list[str], folder: Path) -> str:
    corpus = toy_corpus(5, 300, 100, 60)
    config = load_config(None, ["seed=7", *settings], preset)
    train(config, corpus.train, corpus.valid, folder, progress=False)
    predictor = Predictor.load(folder)
    decisions = predictor.trained.decisions
    decoders = [*predictor.decoders, *(BEST + metric for metric in decisions.best)]
    found = hashlib.sha256(json.dumps(decisions.to_json(), sort_keys=True).encode())
    for part in content(list(predictor.predict(corpus.test, decoders, marginals=True))):
        found.update(part)
    return found.hexdigest()


def main() -> None:
    use_processor(1)
    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            print(digest(*MODELS[name], Path(folder) / "model"), name, flush=True)


if __name__ == "__main__":
    main()
