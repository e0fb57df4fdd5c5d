"""AudioSet's balanced training part and its evaluation part, as the released VGGish embeddings."""

from __future__ import annotations

from pathlib import Path

from ..splits import part_of_each
from .catalogue import CorpusInfo, Parts, corpus, kept, label_set, part_of_file, printed_row

VALID_FRACTION = 0.05  # about 2.6 clips per class; more would be missing in training
ADVICE = (
    "AudioSet's embeddings belong in the folder audioset: bal_train.npz and eval.npz, each with X (clips, 10, 128) of "
    "8-bit numbers, n_frames, Y (clips, 527), label_names and ids. The released TFRecord files are on "
    "research.google.com/audioset: these can be given to `orderfree train` as they are."
)


@corpus(
    CorpusInfo(
        "audioset-balanced",
        "AudioSet, balanced training part: 10 VGGish embeddings a clip, 527 sounds",
        ADVICE,
        comparable="no",
        caveat="22,160 balanced training clips; the paper trained on all 2 million. The paper has no validation part; "
        "here a twentieth of the training part, stratified by label and chosen by the seed, validates.",
        printed=printed_row(2_063_949, 0, 20_371, 527) | {"labels_per_sample": 1.98},
    )
)
def load_audioset_balanced(root: Path, seed: int) -> Parts:
    """The validation part is taken from the training part, so that nothing is chosen on the evaluation part."""
    train, test = (part_of_file(root / "audioset" / f"{name}.npz", ADVICE) for name in ("bal_train", "eval"))
    clips = sorted((example.id, sorted(label_set(example))) for example in train())
    part_of = part_of_each((labels for _, labels in clips), [1 - VALID_FRACTION, VALID_FRACTION], seed)
    valid = frozenset(name for (name, _), part in zip(clips, part_of, strict=True) if part == 1)
    return {
        "train": kept(train, lambda example: example.id not in valid),
        "valid": kept(train, lambda example: example.id in valid),
        "test": test,
    }
