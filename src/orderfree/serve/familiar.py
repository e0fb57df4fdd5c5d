"""What a model knows of words: which texts it can say something about, and which are worth a try."""

from __future__ import annotations

import torch

from ..data.featurizers import known_words
from ..inference import Predictor
from ..nn.graphs import GraphModel

TYPICAL_LABELS, TYPICAL_WORDS = 3, 8


def caveat(predictor: Predictor, text: str) -> str | None:
    """Why a prediction for this text means little; None: nothing speaks against it."""
    if not text.strip():
        return "The text is empty, so the labels only reflect which ones are frequent in training."
    known, words = known_words(predictor.trained.featurizer, text)
    if not words:
        return "The text has no words that this model can read, so the labels are not based on it."
    if 2 * known < words:
        some = f"Only {known:,} of the {words:,} words of the text occur" if known else "None of the words occur"
        return f"{some} in the training data, so do not rely on these labels."
    return None


@torch.inference_mode()
def typical_texts(predictor: Predictor) -> list[str]:
    """The heaviest words of the most frequent labels, where the model has weights of words; else nothing."""
    if isinstance(predictor.network, GraphModel):
        return []
    encoder, names = predictor.network.encoder, getattr(predictor.trained.featurizer, "term_names", None)
    if not hasattr(encoder, "contributions") or not names:
        return []
    counts = predictor.labels.counts
    frequent = sorted(range(len(counts)), key=lambda label: -counts[label])[:TYPICAL_LABELS]
    weights = encoder.get_parameter("terms")[: len(names)]  # (V, L)
    heaviest = [weights[:, label].topk(min(10 * TYPICAL_WORDS, len(names))) for label in frequent]
    texts = []
    for values, places in heaviest:
        weighed = zip(values.tolist(), places.tolist(), strict=True)
        words = dict.fromkeys(names[place] for value, place in weighed if value > 0 and names[place].isalpha())
        texts.append(" ".join(list(words)[:TYPICAL_WORDS]))
    return [text for text in texts if text]
